"""Changing a registered connection: merge patch, assignment, deletion, each once and on what was read."""

from typing import Any

from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from pydantic import ValidationError

from fetcher.aws.connections import NameTaken, Stale
from fetcher.aws.stored import Stored
from fetcher.core.merge import merged
from fetcher.errors import InvalidRequestError
from submit.answers import tags
from submit.caller import Caller
from submit.connection_bodies import ConnectionBody
from submit.registered import etag, unknown
from submit.sealing import check, document, sealed
from submit.services import Services


def check_precondition(stored: Stored, if_match: str | None) -> None:
    """Raise FET-2009 (412) when the caller has seen another version."""
    if if_match is not None and not {"*", etag(stored)} & set(tags(if_match)):
        raise stale()


def stale() -> InvalidRequestError:
    """The error of a change that was made on an old version."""
    return InvalidRequestError("the connection was changed meanwhile; read it again and repeat", code="FET-2009")


def patch(services: Services, who: Caller, old: Stored, change: dict[str, Any], if_match: str | None) -> Stored:
    """Merge a patch into a connection and store the next version of it, with its secret sealed anew.

    The whole result is checked as a new registration is. Cached schemas and checkpoints are kept by
    version, so those of the old one are not used again.
    """
    body = _validated(merged(document(services, old), change))
    check(services, who.tenant, body)
    check_precondition(old, if_match)
    check_unused(services, old)
    try:
        return services.connections.change(old, sealed(services, old, body), who.who)
    except NameTaken as taken:
        raise name_taken(body.configName) from taken
    except Stale as conflict:
        raise stale() from conflict


def assign(services: Services, who: Caller, old: Stored, product: str) -> Stored:
    """Give a connection its product, once. Raises FET-1015 (409) when it has one."""
    if old.product is not None:
        raise _assigned()
    try:
        return services.connections.assign(old, product, who.who)
    except Stale as conflict:
        now = services.connections.get(old.tenant, old.id)
        raise (unknown() if now is None else _assigned() if now.product else stale()) from conflict


def delete(services: Services, who: Caller, old: Stored) -> None:
    """Delete a connection that no running job uses."""
    check_unused(services, old)
    try:
        services.connections.delete(old, who.who)
    except Stale as conflict:
        now = services.connections.get(old.tenant, old.id)
        raise (unknown() if now is None else stale()) from conflict


def check_unused(services: Services, stored: Stored) -> None:
    """Raise FET-1021 (409) while a job that has not ended names the connection."""
    if services.connections.in_use(stored.tenant, stored.id):
        raise InvalidRequestError("a job that has not ended uses this connection; wait or cancel it", code="FET-1021")


def name_taken(name: str) -> InvalidRequestError:
    """The error of a name that another connection has."""
    return InvalidRequestError(f"the name {name!r} is in use; choose another", code="FET-1002")


def _assigned() -> InvalidRequestError:
    return InvalidRequestError("the connection belongs to a product already", code="FET-1015")


def _validated(whole: dict[str, Any]) -> ConnectionBody:
    try:
        return ConnectionBody.model_validate(whole)
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False, include_input=False)]
    raise RequestValidationError(found)  # outside the handler: pydantic's error holds the password
