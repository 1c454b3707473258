"""A request and the columns that were discovered become queries, or one error that says which part cannot be."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fetcher.core.canonical import dumps
from fetcher.core.filters import UNFIT, typed
from fetcher.core.limits import DEFAULTS
from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError, Where
from fetcher.model import (
    WILDCARD,
    Catalog,
    Column,
    Connection,
    Limits,
    Query,
    Selection,
    Table,
)
from fetcher.ports import FieldNaming, Naming

TOO_MUCH = "FET-0401"
"""Counts, and two names of one table: what submit would have said, had it known the schema."""

RENDERING = 1
"""Counts the releases that render a value, or spell a position, as none did before.

A job that was begun by the release before begins again: one result never holds two renderings.
"""


def plan(
    datasource: str,
    selections: Sequence[Selection],
    catalog: Catalog,
    naming: Naming,
    connection: Connection,
    limits: Limits = DEFAULTS,
) -> tuple[Query, ...]:
    """Resolve the selections of one datasource, in their order.

    Fields keep the requested order, `*` the table's. Raises `InvalidRequestError`: FET-2010 with
    `SCHEMA_VALIDATION` and `where` for what the source does not have or a value that does not fit;
    FET-0401 for a crossed limit and for two names of one table.
    """
    _check_limits(datasource, selections, limits)
    tables = [_table(datasource, selection, catalog, naming, connection) for selection in selections]
    _check_distinct(datasource, selections, tables)
    return tuple(
        _query(datasource, selection, table, naming) for selection, table in zip(selections, tables, strict=True)
    )


def missing(
    datasource: str,
    selections: Sequence[Selection],
    catalog: Catalog,
    naming: Naming,
    connection: Connection,
) -> tuple[Where, ...]:
    """Name every table, selected field and filtered field that the catalog does not hold.

    Not empty on a cached catalog: discover once more before failing (R-000-21).
    """
    return tuple(
        where
        for selection in selections
        for where in _missing(datasource, selection, _resolved(selection.table, catalog, naming, connection), naming)
    )


def digest(queries: Mapping[str, Sequence[Query]]) -> str:
    """Digest what will be read, by datasource: names, columns with types, keys and filters (R-002-13).

    A checkpoint of another digest is not used. Page sizes do not count; how values are rendered does.
    """
    read = {datasource: [_canonical(query) for query in queries[datasource]] for datasource in queries}
    form = {"rendering": RENDERING, "read": read}
    return hashlib.sha256(dumps(form, sort=True).encode()).hexdigest()


def _check_limits(datasource: str, selections: Sequence[Selection], limits: Limits) -> None:
    _check_count(len(selections), limits.tables, "tables", Where(datasource))
    for selection in selections:
        where = Where(datasource, selection.table)
        _check_count(len(selection.fields), limits.fields, "fields", where)
        filtered = {condition.field for condition in selection.conditions}
        _check_count(len(filtered), limits.filter_fields, "filter fields", where)


def _check_count(count: int, limit: int, things: str, where: Where) -> None:
    if count > limit:
        raise InvalidRequestError(f"{count} {things} are too many; {limit} are allowed", code=TOO_MUCH, where=where)


def _check_distinct(datasource: str, selections: Sequence[Selection], tables: Sequence[Table]) -> None:
    names: dict[tuple[str, ...], str] = {}
    for selection, table in zip(selections, tables, strict=True):
        first = names.setdefault(table.path, selection.table)
        if first != selection.table:
            raise InvalidRequestError(
                f"{first} and {selection.table} are one table; name it once",
                code=TOO_MUCH,
                where=Where(datasource, selection.table),
            )


def _resolved(name: str, catalog: Catalog, naming: Naming, connection: Connection) -> Table | None:
    path = naming.resolve(name, catalog, connection)
    return None if path is None else catalog.tables.get(path)


def _column(name: str, table: Table, naming: Naming) -> Column | None:
    return naming.column(name, table) if isinstance(naming, FieldNaming) else table.column(name)


def _missing(datasource: str, selection: Selection, table: Table | None, naming: Naming) -> Iterator[Where]:
    if table is None:
        yield Where(datasource, selection.table)
        return
    selected = () if selection.fields == WILDCARD else selection.fields
    filtered = (condition.field for condition in selection.conditions)
    for name in dict.fromkeys((*selected, *filtered)):
        if _column(name, table, naming) is None:
            yield Where(datasource, selection.table, name)


def _table(datasource: str, selection: Selection, catalog: Catalog, naming: Naming, connection: Connection) -> Table:
    table = _resolved(selection.table, catalog, naming, connection)
    if table is None:
        raise _unknown(Where(datasource, selection.table))
    return table


def _query(datasource: str, selection: Selection, table: Table, naming: Naming) -> Query:
    def column(name: str) -> Column:
        if found := _column(name, table, naming):
            return found
        raise _unknown(Where(datasource, selection.table, name))

    return Query(
        name=selection.table,
        path=table.path,
        columns=table.columns if selection.fields == WILDCARD else _once(map(column, selection.fields)),
        key=_key(table),
        conditions=tuple(
            typed(column(condition.field), condition, Where(datasource, selection.table, condition.field))
            for condition in selection.conditions
        ),
    )


def _unknown(where: Where) -> InvalidRequestError:
    return InvalidRequestError(SCHEMA_VALIDATION, code=UNFIT, where=where)


def _once(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Two spellings of one column, where the kind ignores case, are read once."""
    return tuple({column.name: column for column in columns}.values())


def _key(table: Table) -> tuple[Column, ...]:
    """Half a key would skip rows on resume, so a key with an unknown column is none."""
    columns = {column.name: column for column in table.columns}
    return tuple(columns[name] for name in table.key) if columns.keys() >= set(table.key) else ()


def _canonical(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "path": query.path,
        "columns": [_shape(column) for column in query.columns],
        "key": [_shape(column) for column in query.key],
        "conditions": [
            [_shape(condition.column), condition.operator, [_tagged(value) for value in condition.values]]
            for condition in query.conditions
        ],
    }


def _shape(column: Column) -> list[str | None]:
    return [column.name, column.type, column.encoding, column.element]


def _tagged(value: Any) -> list[str]:
    """Tell `1` from `"1"` and a day from its text."""
    return [type(value).__name__, value.hex() if isinstance(value, bytes) else str(value)]
