"""What the API shows of connections, and how a caller finds one: others' do not exist."""

from collections.abc import Callable, Mapping
from typing import Any

from fetcher.aws.stored import Stored
from fetcher.core.canonical import strict_loads
from fetcher.core.kinds import API_NAMES
from fetcher.errors import InvalidRequestError
from submit.caller import Caller
from submit.context import identifier
from submit.paging import Row, page
from submit.services import Services

_INTERNAL = "!"
"""Begins the list position behind an internal datasource; a time never does."""


def view(stored: Stored) -> dict[str, Any]:
    """Render a connection, without its secrets."""
    to = stored.connection
    shown: dict[str, Any] = {
        "id": stored.id,
        "configName": to.name,
        "type": API_NAMES[to.kind],
        "host": to.host,
        "port": to.port,
        "databaseName": to.database,
        "userName": to.user,
        "limits": {"maxWorkers": stored.workers},
    }
    optional = {
        "productName": stored.product,
        "schema": to.schema,
        "ssl": {"mode": to.tls_mode} if to.tls_mode else None,
        "metadata": strict_loads(stored.metadata) if stored.metadata else None,
        "internal": stored.internal or None,
        "createdAt": stored.created_at or None,
        "updatedAt": stored.updated_at or None,
    }
    return {**shown, **{name: value for name, value in optional.items() if value is not None}}


def etag(stored: Stored) -> str:
    """Return the entity tag, which is the version."""
    return f'"{stored.version}"'


def visible(who: Caller, stored: Stored) -> bool:
    """Whether the connection exists for the caller; what the operator made exists for every product."""
    return stored.internal or who.may_see(stored.product)


def find(services: Services, who: Caller, text: str) -> Stored:
    """Find a connection by its id. Raises FET-0404 and FET-1001."""
    stored = services.connections.get(who.tenant, identifier(text))
    if stored is None or not visible(who, stored):
        raise unknown()
    return stored


def find_changeable(services: Services, who: Caller, text: str) -> Stored:
    """Find a connection that the API may change: no internal one."""
    stored = find(services, who, text)
    if stored.internal:
        raise unknown()
    return stored


def unknown() -> InvalidRequestError:
    """The error of an id that is nobody's, or not the caller's."""
    return InvalidRequestError("there is no connection of this id", code="FET-1001")


def listed(
    services: Services, who: Caller, wanted: Callable[[Row], bool], limit: int, before: str | None
) -> tuple[list[Stored], str | None]:
    """List the registered connections whose summary is wanted, newest first."""

    def chosen(row: Mapping[str, Any]) -> Stored | None:
        if not who.may_see(row.get("productName")) or not wanted(row):
            return None
        return services.connections.get(who.tenant, row["connectionId"])

    def read(position: str | None, most: int) -> tuple[list[Row], str | None]:
        return services.connections.listed(who.tenant, position, most)

    return page(read, chosen, limit, before)


def listed_with_internals(
    services: Services, who: Caller, wanted: Callable[[Row], bool], kind: str | None, limit: int, before: str | None
) -> tuple[list[Stored], str | None]:
    """List the operator's datasources by name, then the registered connections, as one list."""
    passed = before[1:] if before is not None and before.startswith(_INTERNAL) else None
    first: list[Stored] = []
    if before is None or passed is not None:
        first = [
            one
            for one in services.connections.internals.of(who.tenant)
            if one.connection.name > (passed or "") and kind in {None, API_NAMES[one.connection.kind]}
        ]
        before = None
    if len(first) >= limit:
        return first[:limit], _INTERNAL + first[limit - 1].connection.name
    rest, following = listed(services, who, wanted, limit - len(first), before)
    return first + rest, following
