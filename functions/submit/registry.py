"""The routes of connections: `/v1/management/connections`."""

from typing import Annotated, Any
from uuid import uuid4

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query

from fetcher.aws.connections import NameTaken
from fetcher.aws.stored import Stored
from fetcher.core.clock import rfc3339
from fetcher.core.kinds import API_NAMES
from fetcher.errors import FetcherError, Problem
from submit import changing, cursors, discovering, registered, sealing
from submit.answers import answer, check_size, tagged
from submit.caller import Caller, product_of
from submit.connection_bodies import ConnectionBody, PatchBody
from submit.context import IfNoneMatch, caller, place
from submit.paging import Row
from submit.probes import EACH_SECONDS, probe
from submit.problems import TooManyError, from_findings
from submit.registered import etag, view
from submit.schemas import SelectionBody
from submit.services import services

PATH = "/v1/management/connections"

IfMatch = Annotated[str | None, Header(alias="If-Match", description="the version seen, as its `ETag`")]
Product = Annotated[str | None, Header(alias="X-Product-Name", description="1 to 100 letters, digits, '-' or '_'")]

router = Router()  # type: ignore[no-untyped-call] # Powertools' constructor has no types


@router.post(PATH, summary="Register a connection", tags=["connections"])
def create_connection(body: Annotated[ConnectionBody, Body()], product_name: Product = None) -> Response[Any]:
    """Register where a source is; its password is sealed at once and never comes back."""
    who = caller(router)
    product = _product(who, product_name)
    sealing.check(services(), who.tenant, body)
    new = sealing.new(who.tenant, str(uuid4()), product, body, rfc3339(services().clock()))
    stored = sealing.sealed(services(), new, body)
    try:
        services().connections.create(stored, who.who)
    except NameTaken as taken:
        raise changing.name_taken(body.configName) from taken
    return answer(201, view(stored), {"Location": f"{PATH}/{stored.id}", "ETag": etag(stored)})


@router.get(PATH, summary="List connections, newest first", tags=["connections"])
def list_connections(
    type: Annotated[str | None, Query(max_length=20)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    cursor: Annotated[str | None, Query()] = None,
    product_name: Product = None,
) -> Response[Any]:
    """List the connections that the caller may see, of one product when `X-Product-Name` is sent.

    The operator's own datasources come first; they serve every product.
    """
    product = None if product_name is None else product_of(product_name)
    kind = type.upper() if type else None

    def wanted(row: Row) -> bool:
        return product in {None, row.get("productName")} and kind in {None, API_NAMES[row["type"]]}

    position = cursors.position(cursor)
    who = caller(router)
    return _listed(*registered.listed_with_internals(services(), who, wanted, kind, limit, position), limit)


@router.get(f"{PATH}/unassigned", summary="List connections without a product", tags=["connections"])
def list_unassigned(
    limit: Annotated[int, Query(ge=1, le=100)] = 10, cursor: Annotated[str | None, Query()] = None
) -> Response[Any]:
    """List connections that no product has; nothing for a token that is limited to products."""

    def wanted(row: Row) -> bool:
        return "productName" not in row

    position = cursors.position(cursor)
    return _listed(*registered.listed(services(), caller(router), wanted, limit, position), limit)


@router.post(f"{PATH}/validate-schema", summary="Check a selection against its sources", tags=["connections"])
def validate_schema(body: Annotated[SelectionBody, Body()]) -> Response[Any]:
    """Name every datasource, table and field that a job could not read, all at once; no row is read."""
    found = discovering.findings(services(), caller(router), body.datasources)
    if found:
        return from_findings(found, place(router))
    return answer(200, {"status": "success", "message": "every datasource, table and field exists"})


@router.get(f"{PATH}/<connection_id>", summary="One connection", tags=["connections"])
def get_connection(connection_id: str, if_none_match: IfNoneMatch = None) -> Response[Any]:
    """Show a connection, without its secrets."""
    stored = registered.find(services(), caller(router), connection_id)
    return tagged(view(stored), if_none_match, {}, etag(stored))


@router.patch(f"{PATH}/<connection_id>", summary="Change a connection", tags=["connections"])
def patch_connection(
    connection_id: str,
    body: Annotated[PatchBody, Body()],
    if_match: IfMatch = None,
) -> Response[Any]:
    """Change a connection that no running job uses, by merge patch; with `If-Match`, only the version seen."""
    who = caller(router)
    old = registered.find_changeable(services(), who, connection_id)
    changed = changing.patch(services(), who, old, body.patch, if_match)
    return answer(200, view(changed), {"ETag": etag(changed)})


@router.delete(f"{PATH}/<connection_id>", summary="Delete a connection", tags=["connections"])
def delete_connection(connection_id: str, if_match: IfMatch = None) -> Response[Any]:
    """Delete a connection that no running job uses; its name is free at once."""
    who = caller(router)
    old = registered.find_changeable(services(), who, connection_id)
    changing.check_precondition(old, if_match)
    changing.delete(services(), who, old)
    return Response(204, None, None)


@router.post(f"{PATH}/<connection_id>/assign", summary="Assign a connection to a product", tags=["connections"])
def assign_connection(connection_id: str, product_name: Product = None) -> Response[Any]:
    """Give a connection without a product the product of `X-Product-Name`, once."""
    who = caller(router)
    product = product_of(product_name)
    old = registered.find_changeable(services(), who, connection_id)
    assigned = changing.assign(services(), who, old, product)
    return answer(200, view(assigned), {"ETag": etag(assigned)})


@router.get(f"{PATH}/<connection_id>/schema", summary="What a source has", tags=["connections"])
def get_schema(connection_id: str, schema: Annotated[str | None, Query(max_length=1000)] = None) -> Response[Any]:
    """Ask the source for its tables, their fields and keys; `schema` names schemas, separated by commas."""
    stored = registered.find(services(), caller(router), connection_id)
    names = [name.strip() for name in (schema or "").split(",") if name.strip()]
    found = answer(200, discovering.schema(services(), stored, names))
    check_size(str(found.body), "the schema is larger than an answer may be; name fewer schemas with `schema`")
    return found


@router.post(f"{PATH}/<connection_id>/test", summary="Test a connection", tags=["connections"])
def test_connection(connection_id: str) -> Response[Any]:
    """Open a real connection and say how long it took, or why it failed; ten times a minute at most."""
    stored = registered.find(services(), caller(router), connection_id)
    if seconds := services().rates.take(stored.tenant, stored.id):
        raise TooManyError("this connection was tested ten times within a minute", seconds)
    began = services().clock()
    try:
        latency = probe(services().sources, stored, EACH_SECONDS)
    except FetcherError as error:
        body = {"status": "failure", "reason": error.family, "code": error.code, "message": error.message}
        return answer(200, {**body, "latencyMs": services().clock() - began})
    return answer(200, {"status": "success", "message": "the connection works", "latencyMs": latency})


def _product(who: Caller, given: str | None) -> str:
    """Return the product of the header, which the token must be for. Raises FET-0403 and FET-2013."""
    product = product_of(given)
    who.check_product(product, Problem("/headers/X-Product-Name", "the token is not for this product"))
    return product


def _listed(found: list[Stored], following: str | None, limit: int) -> Response[Any]:
    body: dict[str, Any] = {"items": [view(stored) for stored in found], "limit": limit}
    if following is not None:
        body["next"] = cursors.written(following)
    return answer(200, body)
