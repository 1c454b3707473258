"""The routes of connections: `/v1/management/connections`."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from fetcher import engines
from fetcher.aws.connections import Stored
from fetcher.core import hosts
from fetcher.core.canonical import dumps, strict_loads
from fetcher.core.clock import rfc3339
from fetcher.errors import FetcherError, InvalidRequestError, Problem, UnavailableError
from fetcher.model import Connection, Secret
from submit import cursors
from submit.answers import answer
from submit.caller import Caller, product_of
from submit.context import caller, header, identifier
from submit.probes import probe
from submit.schemas import API_KINDS, ConnectionBody
from submit.services import services

PATH = "/v1/management/connections"
_API_NAME = {kind: name for name, kind in API_KINDS.items()}

router = Router()  # type: ignore[no-untyped-call]


@router.post(PATH, summary="Register a connection", tags=["connections"])
def create_connection(body: Annotated[ConnectionBody, Body()]) -> Response[Any]:
    """Register where a source is; its password is sealed at once and never comes back."""
    product = product_of(header(router, "x-product-name"))
    _check(body)
    stored = _sealed(caller(router), product, body)
    if not services().connections.create(stored):
        raise InvalidRequestError(f"the name {body.configName!r} is in use; choose another", code="FET-1002")
    return answer(201, view(stored), {"Location": f"{PATH}/{stored.id}"})


@router.get(PATH, summary="List connections, newest first", tags=["connections"])
def list_connections(
    type: Annotated[str | None, Query(max_length=20)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    cursor: Annotated[str | None, Query()] = None,
) -> Response[Any]:
    """List the connections that the caller may see, of one product when `X-Product-Name` is sent."""
    who = caller(router)
    given = header(router, "x-product-name")
    product = None if given is None else product_of(given)
    found, following = _page(who, product, type, limit, cursors.position(cursor))
    body: dict[str, Any] = {"items": [view(stored) for stored in found], "limit": limit}
    if following is not None:
        body["next"] = cursors.written(following)
    return answer(200, body)


@router.get(f"{PATH}/<connection_id>", summary="One connection", tags=["connections"])
def get_connection(connection_id: str) -> Response[Any]:
    """Show a connection, without its secrets."""
    return answer(200, view(_connection(connection_id)))


@router.delete(f"{PATH}/<connection_id>", summary="Delete a connection", tags=["connections"])
def delete_connection(connection_id: str) -> Response[Any]:
    """Delete a connection that no running job uses; its name is free at once."""
    stored = _connection(connection_id)
    if services().connections.in_use(stored.tenant, stored.id):
        raise InvalidRequestError("a job that has not ended uses this connection; wait or cancel it", code="FET-1021")
    if not services().connections.delete(stored):
        raise InvalidRequestError("there is no connection of this id", code="FET-1001")
    return Response(204, None, None)


@router.post(f"{PATH}/<connection_id>/test", summary="Test a connection", tags=["connections"])
def test_connection(connection_id: str) -> Response[Any]:
    """Open a real connection and say how long it took, or why it failed."""
    stored = _connection(connection_id)
    began = services().clock()
    try:
        latency = probe(services().sources, stored)
    except FetcherError as error:
        body = {"status": "failure", "reason": error.family, "code": error.code, "message": error.message}
        return answer(200, {**body, "latencyMs": services().clock() - began})
    return answer(200, {"status": "success", "message": "the connection works", "latencyMs": latency})


def view(stored: Stored) -> dict[str, Any]:
    """What the API shows of a connection."""
    to = stored.connection
    shown: dict[str, Any] = {
        "id": stored.id,
        "configName": to.name,
        "type": _API_NAME[to.kind],
        "host": to.host,
        "port": to.port,
        "databaseName": to.database,
        "userName": to.user,
        "createdAt": stored.created_at,
        "updatedAt": stored.updated_at,
    }
    optional = {
        "productName": stored.product,
        "schema": to.schema,
        "ssl": {"mode": to.tls_mode} if to.tls_mode else None,
        "metadata": strict_loads(stored.metadata) if stored.metadata else None,
    }
    return {**shown, **{name: value for name, value in optional.items() if value is not None}}


def _connection(text: str) -> Stored:
    who = caller(router)
    stored = services().connections.get(who.tenant, identifier(text))
    if stored is None or not who.may_see(stored.product):
        raise InvalidRequestError("there is no connection of this id", code="FET-1001")
    return stored


def _check(body: ConnectionBody) -> None:
    """The rules that need more than one member, or more than the body."""
    if problem := body.tls_problem():
        raise InvalidRequestError(problem, code="FET-0413", problems=(Problem("/ssl/mode", problem),))
    if API_KINDS[body.type] not in engines.kinds():
        detail = f"type: this deployment has no engine for {body.type}"
        raise InvalidRequestError(detail, code="FET-0001", problems=(Problem("/type", detail),))
    try:
        settings = services().settings
        hosts.checked_address(body.host, settings.allowed_networks, loopback_allowed=settings.local)
    except UnavailableError:
        return  # a name that does not resolve yet may do so later; every use checks again


def _sealed(who: Caller, product: str, body: ConnectionBody) -> Stored:
    identity = str(uuid4())
    now = rfc3339(services().clock())
    tls = body.ssl
    secret = Secret(
        password=body.password,
        tls_ca=tls.ca if tls else None,
        tls_certificate=tls.cert if tls else None,
        tls_key=tls.key if tls else None,
    )
    return Stored(
        tenant=who.tenant,
        id=identity,
        product=product,
        connection=_connection_of(body),
        secret=services().vault.seal(who.tenant, identity, secret),
        metadata=dumps(body.metadata) if body.metadata else "",
        created_at=now,
        updated_at=now,
    )


def _connection_of(body: ConnectionBody) -> Connection:
    options = {name: value for name, value in (body.metadata or {}).items() if isinstance(value, str)}
    return Connection(
        name=body.configName,
        kind=API_KINDS[body.type],
        host=body.host,
        port=body.port,
        database=body.databaseName,
        user=body.userName,
        schema=body.schema_,
        tls_mode=body.ssl.mode if body.ssl else None,
        options=options,
    )


def _page(
    who: Caller, product: str | None, kind: str | None, limit: int, before: str | None
) -> tuple[list[Stored], str | None]:
    """Read summaries until the page is full or the list ends, then each connection itself."""
    found: list[Stored] = []
    while True:
        items, following = services().connections.listed(who.tenant, before, 100)
        for item in items:
            before = str(item["GSI1SK"])
            stored = _visible(item, who, product, kind)
            if stored is not None:
                found.append(stored)
            if len(found) == limit and (item is not items[-1] or following is not None):
                return found, before
        if following is None:
            return found, None
        before = following


def _visible(item: Mapping[str, Any], who: Caller, product: str | None, kind: str | None) -> Stored | None:
    if kind is not None and _API_NAME[item["type"]] != kind.upper():
        return None
    owner = item.get("productName")
    if not who.may_see(owner) or (product is not None and owner != product):
        return None
    return services().connections.get(who.tenant, item["connectionId"])
