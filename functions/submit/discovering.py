"""What sources have: a schema as the API shows it, and selections checked against it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from fetcher import engines
from fetcher.aws.stored import Stored
from fetcher.core.kinds import API_NAMES
from fetcher.core.plan import missing
from fetcher.core.selection import Finding, finding
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError, UnavailableError, Where
from fetcher.model import WILDCARD, Catalog, Column, Selection, Table
from fetcher.ports import Naming, Schemaless
from submit.caller import Caller
from submit.probes import ALL_SECONDS
from submit.registered import visible
from submit.services import Services

APPLICATION = "fetcher-schema"
EACH_SECONDS = 20.0

_UNQUALIFIED = "x"
"""Any table name without a schema: its scope is the kind's default."""


def schema(services: Services, stored: Stored, schemas: Sequence[str]) -> dict[str, Any]:
    """Ask the source for its tables, and remember them. Raises FET-1040 when it cannot be asked."""
    naming = engines.engine(stored.connection.kind).NAMING
    try:
        catalog = discovered(services, stored, _scope(naming, stored, schemas))
    except (RefusedError, UnavailableError) as error:
        code = error.code if error.code == "FET-0414" else "FET-1040"
        raise InvalidRequestError(error.message, code=code) from error
    to = stored.connection
    tables = [_table_view(table, catalog, naming, stored) for table in catalog.tables.values()]
    return {
        "id": stored.id,
        "configName": to.name,
        "databaseName": to.database,
        "type": API_NAMES[to.kind],
        "tables": sorted(tables, key=lambda table: str(table["name"])),
    }


def _scope(naming: Naming, stored: Stored, schemas: Sequence[str]) -> tuple[str, ...]:
    """Return the scope of these schemas, or of the default one; of every table where there are no schemas."""
    if isinstance(naming, Schemaless):
        return naming.everything(stored.connection)
    names = [f"{name}.{_UNQUALIFIED}" for name in schemas] or [_UNQUALIFIED]
    return naming.scope(names, stored.connection)


def discovered(services: Services, stored: Stored, scope: Sequence[str]) -> Catalog:
    """Ask the source itself, and keep the answer for five minutes."""
    with services.sources.open(stored, seconds=EACH_SECONDS, application=APPLICATION) as session:
        catalog = session.discover(scope)
    services.schemas.put(stored, scope, catalog)
    return catalog


def findings(services: Services, who: Caller, asked: Mapping[str, tuple[Selection, ...]]) -> list[Finding]:
    """Check every datasource at once; name all that is missing, by datasource, table and place in the list.

    Raises FET-1062 when no datasource is known at all. One that does not answer in time is down.
    """
    named = {name: services.connections.named(who.tenant, name) for name in asked}
    known = {name: stored for name, stored in named.items() if stored is not None and visible(who, stored)}
    if not known:
        raise InvalidRequestError("none of the datasources is known; register one or correct a name", code="FET-1062")
    checked = _side_by_side(services, {name: (known[name], asked[name]) for name in known if asked[name]})
    found: list[Finding] = []
    for name in sorted(asked):
        if name not in known:
            found.append(finding("DATA_SOURCE_NOT_FOUND", Where(name), "there is no connection of this name"))
        found += checked.get(name, ())
    return found


def _side_by_side(
    services: Services, asked: Mapping[str, tuple[Stored, tuple[Selection, ...]]]
) -> dict[str, list[Finding]]:
    """Check in threads; one that does not end in time is left to its own timeout."""
    if not asked:
        return {}
    threads = ThreadPoolExecutor(len(asked), thread_name_prefix="schema")
    started = {name: threads.submit(partial(_checked, services, name, *of)) for name, of in asked.items()}
    wait(started.values(), timeout=ALL_SECONDS)
    threads.shutdown(wait=False, cancel_futures=True)
    return {name: _outcome(name, future) for name, future in started.items()}


def _outcome(name: str, future: "Future[list[Finding]]") -> list[Finding]:
    if not future.done():
        return [_down(name, "it did not answer in time")]
    error = future.exception()
    if isinstance(error, FetcherError):
        return [_down(name, error.message)]
    return future.result()


def _down(name: str, detail: str) -> Finding:
    return finding("DATA_SOURCE_DOWN", Where(name), detail)


def _checked(services: Services, name: str, stored: Stored, selections: tuple[Selection, ...]) -> list[Finding]:
    """Check one datasource against its cached schema first; on a miss, ask the source once (R-000-21)."""
    naming = engines.engine(stored.connection.kind).NAMING
    scope = naming.scope([selection.table for selection in selections], stored.connection)
    cached = services.schemas.get(stored, scope)
    if cached is not None and not missing(name, selections, cached, naming, stored.connection):
        return []
    catalog = discovered(services, stored, scope)
    gaps = missing(name, selections, catalog, naming, stored.connection)
    return [_gap(where, selections) for where in gaps]


def _gap(where: Where, selections: Sequence[Selection]) -> Finding:
    if where.field is None:
        return finding("TABLE_NOT_FOUND", where, "the source has no such table")
    fields = next(selection.fields for selection in selections if selection.table == where.table)
    return finding("FIELD_NOT_FOUND", where, "the table has no such field", fields.index(where.field))


def _table_view(table: Table, catalog: Catalog, naming: Naming, stored: Stored) -> dict[str, Any]:
    return {
        "name": _requestable(table, catalog, naming, stored),
        "fields": [_field_view(column) for column in table.columns if column.name not in WILDCARD],
        "key": list(table.key),
    }


def _requestable(table: Table, catalog: Catalog, naming: Naming, stored: Stored) -> str:
    """The shortest name that a job may use for exactly this table."""
    names = [*(".".join(table.path[at:]) for at in reversed(range(len(table.path)))), table.path[0]]
    return next((name for name in names if naming.resolve(name, catalog, stored.connection) == table.path), names[-1])


def _field_view(column: Column) -> dict[str, Any]:
    shown = {
        "name": column.name,
        "type": column.type,
        "encoding": str(column.encoding),
        "nullable": column.nullable,
    }
    return shown if column.element is None else {**shown, "element": str(column.element)}
