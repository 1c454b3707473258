"""One read as SQL: a row becomes one JSON object in the server, followed by the texts of its key.

Values travel through `set_config` and come back by `current_setting`, because COPY takes no parameters:
no value is ever part of the text.
"""

import json
from collections.abc import Sequence
from itertools import chain, count, repeat

from fetcher.engines._postgresql.values import DIALECT, parameter, rendered
from fetcher.engines._sql import Where
from fetcher.model import Column, Position, Query

COLUMNS_A_CALL = 30
"""`concat` takes at most 100 arguments, and a column needs up to three."""

SMALL = 65_536
"""Bytes that a row may have to be read in chunks of rows."""


class Statement:
    """The settings of a read, which carry its bound values, and its two forms.

    `small` fails with a division by zero at the first row that is not smaller than `SMALL`.
    """

    def __init__(self, query: Query, after: Position | None) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        self.settings = [("search_path", _search_path(query))]
        self.settings += zip(map(parameter, count(1)), where.values, strict=False)
        select = _select(query, where)
        self.copy = f"COPY ({select}) TO STDOUT (FORMAT binary)"
        self.small = _guarded(select, len(query.key))


def _select(query: Query, where: Where) -> str:
    table = DIALECT.name(*query.path)
    keys = [f"{table}.{DIALECT.name(column.name)}" for column in query.key]
    texts = [f"{_text(column, key)} AS key{at}" for at, (column, key) in enumerate(zip(query.key, keys, strict=True))]
    listed = ", ".join([f"{_object(query.columns)} AS body", *texts])
    # Qualified, a key cannot be taken for a column of the output.
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f"SELECT {listed} FROM {table}{where.sql}{order}"  # noqa: S608 - quoted names only


def _text(column: Column, key: str) -> str:
    """Show a key's text; only a type of another schema may have a cast of its own, and `concat` avoids it."""
    return f"pg_catalog.concat({key})" if _schema(column.type) else f"{key}::text"


def _guarded(select: str, keys: int) -> str:
    """Check each size where the row is, before it travels; OFFSET 0 keeps it from being rendered twice."""
    size = "pg_catalog.octet_length(body)"
    body = f"CASE WHEN {size} < {SMALL} THEN body ELSE (1 / ({size} - {size}))::text END"
    listed = ", ".join([body, *(f"key{at}" for at in range(keys))])
    return f"SELECT {listed} FROM ({select} OFFSET 0) rendered"  # noqa: S608 - quoted names only


def _object(columns: Sequence[Column]) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered."""
    if not columns:
        return "'{}'::text"
    openings = chain("{", repeat(","))
    members = [
        f"{_literal(opening + json.dumps(column.name, ensure_ascii=False) + ':')}, {_value(column)}"
        for opening, column in zip(openings, columns, strict=False)
    ]
    calls = [", ".join(members[at : at + COLUMNS_A_CALL]) for at in range(0, len(members), COLUMNS_A_CALL)]
    parts = calls if len(calls) == 1 else [f"pg_catalog.concat({call})" for call in calls]
    return f"pg_catalog.concat({', '.join(parts)}, '}}')"


def _value(column: Column) -> str:
    return rendered(column, DIALECT.name(column.name))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _search_path(query: Query) -> str:
    """Name the schemas of the types that are compared: that is where their operators are."""
    compared = (*query.key, *(condition.column for condition in query.conditions))
    schemas = {schema for column in compared if (schema := _schema(column.type))}
    return ", ".join(["pg_catalog", *sorted(schemas), "pg_temp"])


def _schema(declared: str) -> str:
    """Cut the schema, quoted where it must be, from a type's name; built-in types have none."""
    quoted = False
    for at, character in enumerate(declared):
        if character == '"':
            quoted = not quoted
        elif character == "." and not quoted:
            return declared[:at]
    return ""
