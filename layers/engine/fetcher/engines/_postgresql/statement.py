"""One read as SQL: a row becomes one JSON object in the server, followed by the texts of its key.

Values travel through `set_config` and come back by `current_setting`, because COPY takes no parameters:
no value is ever part of the text.
"""

import json
import re
from collections.abc import Sequence
from itertools import chain, count, repeat
from math import prod

from fetcher.engines._postgresql.values import DIALECT, NATIVE_TEXT, Choice, parameter, rendered
from fetcher.engines._sql import Where, shows_key
from fetcher.model import Column, Encoding, Position, Query

ARGUMENTS = 100
"""The most that a function takes."""

CHOICES = 12
"""Constants that one argument may choose from."""

SMALL = 65_536
"""Bytes that the texts of a row may have to be read in chunks of rows."""

SMALL_DATUM = 2_048
"""Stored bytes of any other value; compressed, it may be many times as long when it is shown."""

INTEGERS = {"smallint": 2, "integer": 4, "bigint": 8}
"""Keys of these types come as they are, in so many bytes."""

SHORT = re.compile(r"numeric\(\d+,-?\d+\)|(character varying|character)\(\d{1,3}\)")
FIXED = frozenset({"boolean", "smallint", "integer", "bigint", "oid", "real", "double precision", "money", "uuid"})
BOUNDED = frozenset({Encoding.DATE, Encoding.TIME, Encoding.TIMESTAMP, Encoding.TIMESTAMP_UTC, Encoding.INTERVAL})
SHOWN = BOUNDED | {Encoding.INTEGER, Encoding.DECIMAL, Encoding.UUID, Encoding.TEXT}
"""What a key may be so that its text can be taken from the row's JSON."""


class Statement:
    """The settings of a read, which carry its bound values, and its two forms.

    `small` fails with a division by zero at the first row that is not small. The texts of the key follow a row; a small
    one whose JSON shows them is as quickly read itself.
    """

    def __init__(self, query: Query, after: Position | None, server: int) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        self.settings = [("search_path", _search_path(query))]
        self.settings += zip(map(parameter, count(1)), where.values, strict=False)
        beside = () if shows_key(query, SHOWN) else query.key
        self.copy = f"COPY ({_select(query, where, query.key, server)}) TO STDOUT (FORMAT binary)"
        self.small = _select(query, where, beside, server, _guard(query.columns))


def text_of(column: Column, value: bytes | memoryview) -> str:
    """Read a key's value as it came behind a row."""
    if column.type in INTEGERS and len(value) == INTEGERS[column.type]:
        return str(int.from_bytes(value, "big", signed=True))
    return str(value, "utf-8")


def _select(query: Query, where: Where, keys: Sequence[Column], server: int, guard: str | None = None) -> str:
    table = DIALECT.name(*query.path)
    texts = [_text(column, f"{table}.{DIALECT.name(column.name)}") for column in keys]
    listed = ", ".join([_object(query.columns, guard, server), *texts])
    # Qualified, a key cannot be taken for a column of the output.
    order = ", ".join(f"{table}.{DIALECT.name(column.name)}" for column in query.key)
    if order:
        return f"SELECT {listed} FROM {table}{where.sql} ORDER BY {order}"  # noqa: S608 - quoted names only
    # What has no key may be a view, whose expressions would take the place of each mention of a column.
    names = ", ".join(DIALECT.name(column.name) for column in query.columns)
    return f"SELECT {listed} FROM (SELECT {names} FROM {table}{where.sql} OFFSET 0) rows"  # noqa: S608 - the same


def _text(column: Column, key: str) -> str:
    """Show a key's text, or an integer as it is; only a type of another schema may have a cast of its own."""
    if column.type in INTEGERS:
        return key
    return f"pg_catalog.concat({key})" if _schema(column.type) else f"{key}::text"


def _guard(columns: Sequence[Column]) -> str | None:
    """Check the values that have no bound by their type, where they are and before they travel.

    Lengths are read from the values' headers, so that a large one is not fetched for it. The divisor is zero, but no
    constant, which the planner would work out for every row.
    """
    open_ended = [column for column in columns if not _is_bounded(column)]
    if not open_ended:
        return None
    sizes = [_size(column) for column in open_ended]
    share = SMALL // len(open_ended)
    large = " OR ".join(f"{size} > {min(share, most)}" for size, most in sizes)
    return f"CASE WHEN {large} THEN 1 / (coalesce({sizes[0][0]}, 0) * 0) END"


def _is_bounded(column: Column) -> bool:
    return column.type in FIXED or column.encoding in BOUNDED or bool(SHORT.fullmatch(column.type))


def _size(column: Column) -> tuple[str, int]:
    """Return the expression of a value's length, and the most that it may be."""
    name = DIALECT.name(column.name)
    if NATIVE_TEXT.fullmatch(column.type) or column.type == "bytea":
        return f"pg_catalog.octet_length({name})", SMALL
    return f"pg_catalog.pg_column_size({name})", SMALL_DATUM


def _object(columns: Sequence[Column], guard: str | None, server: int) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered.

    A guard that finds nothing adds nothing: `concat` leaves NULL out.
    """
    arguments = [guard] if guard else []
    texts: list[Choice] = []
    for opening, column in zip(chain("{", repeat(",")), columns, strict=False):
        form = rendered(column, DIALECT.name(column.name), server)
        if prod(map(len, [*texts, form.before])) > CHOICES:
            arguments.append(_chosen(texts))
            texts = []
        texts += [[("", opening + json.dumps(column.name, ensure_ascii=False) + ":")], form.before]
        if form.value:
            arguments += [_chosen(texts), form.value]
            texts = [form.after]
    arguments.append(_chosen([*texts, [("", "}" if columns else "{}")]]))
    calls = [", ".join(arguments[at : at + ARGUMENTS]) for at in range(0, len(arguments), ARGUMENTS)]
    parts = [f"pg_catalog.concat({call})" for call in calls]
    return parts[0] if len(parts) == 1 else f"pg_catalog.concat({', '.join(parts)})"


def _chosen(choices: Sequence[Choice], text: str = "") -> str:
    """Choose among all the texts that constants give one after another: each way to say it is one constant."""
    if not choices:
        return _literal(text)
    *ways, (_, last) = choices[0]
    rest = choices[1:]
    if not ways:
        return _chosen(rest, text + last)
    cases = " ".join(f"WHEN {condition} THEN {_chosen(rest, text + each)}" for condition, each in ways)
    return f"CASE {cases} ELSE {_chosen(rest, text + last)} END"


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
