"""SQLite 3.35 and later, a kind that only the tests have: it shows what a sixth one takes, one module and one fixture.

A connection's `database` is a file; its `options` name further files, each a schema of that name beside `main`. There
is no wire: the database is a library, so the watchdog ends a statement and not a socket. A decimal is stored as text,
since SQLite has no type for it, in a column whose declared type begins with `decimal_text`.
"""

import json
import math
import re
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from fetcher.engines._names import Schemas
from fetcher.engines._sql import Dialect, Where
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError, UnavailableError
from fetcher.model import Catalog, Column, Connection, Encoding, Operator, Page, Position, Query, Secret, Table

NAMING = Schemas("main")

TYPES = {
    "bigint": Encoding.INTEGER,
    "integer": Encoding.INTEGER,
    "decimal_text": Encoding.DECIMAL,
    "real": Encoding.FLOAT,
    "boolean": Encoding.BOOLEAN,
    "date": Encoding.DATE,
    "timestamp": Encoding.TIMESTAMP,
    "timestamptz": Encoding.TIMESTAMP_UTC,
    "uuid": Encoding.UUID,
    "blob": Encoding.BINARY,
}
"""By the first word of a declared type; every other type is text."""
UNORDERED = {Encoding.FLOAT, Encoding.BINARY, Encoding.BOOLEAN}
STAMPS = {Encoding.TIMESTAMP, Encoding.TIMESTAMP_UTC}

COLUMNS = """
SELECT m.name, p.name, lower(p.type), p."notnull", p.pk
  FROM {schema}.sqlite_schema m JOIN pragma_table_info(m.name, {literal}) p
 WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name, p.cid
"""
DAY = re.compile(r"\d{4}-\d\d-\d\d")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
STEPS = 5_000
"""Instructions of the library between two looks at the clock."""


def _field(name: str, column: Column, operator: Operator) -> str:
    if operator == "like":
        return f"CAST({name} AS TEXT)"
    if column.encoding in {Encoding.INTEGER, Encoding.DECIMAL}:
        return f"CAST({name} AS TEXT) COLLATE exact"
    return f"iif({name} IS NULL, NULL, moment({name}))" if column.encoding in STAMPS else name


def _bind(column: Column, value: Any) -> Any:
    try:
        match column.encoding:
            case Encoding.INTEGER | Encoding.DECIMAL:
                return f"{Decimal(value):f}"
            case Encoding.FLOAT:
                return float(value)
            case Encoding.DATE | Encoding.TIMESTAMP | Encoding.TIMESTAMP_UTC:
                return _time(column.encoding, value)
            case _:
                return value if isinstance(value, bytes | bool) else str(value)
    except (ArithmeticError, ValueError) as error:
        raise InvalidRequestError("a filter value does not fit its column in SQLite") from error


def _time(encoding: Encoding, value: Any) -> str:
    text = value.isoformat() if isinstance(value, date) else str(value).removesuffix("Z")
    if encoding is not Encoding.DATE and DAY.fullmatch(text):
        text += "T00:00:00"
    if not (DAY if encoding is Encoding.DATE else MOMENT).fullmatch(text):
        raise ValueError(text)
    return text if encoding is Encoding.DATE else _moment(text)


def _moment(text: str) -> str:
    """Write a time so that texts compare as times do: without a zone, and without zeros at its end."""
    text = text.replace(" ", "T").removesuffix("Z")
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _exact(left: str, right: str) -> int:
    one, other = Decimal(left), Decimal(right)
    return (one > other) - (one < other)


DIALECT = Dialect(
    mark=lambda _: "?",
    quotes=("`", "`"),  # a name in double quotes that SQLite does not know becomes a text
    key=lambda mark, column: f"CAST({mark} AS {'INTEGER' if column.encoding is Encoding.INTEGER else 'TEXT'})",
    field=_field,
    bind=_bind,
    longest_list=10_000,
)


class SQLiteSession:
    """A `Session`: one transaction, which sees one snapshot from its first read on."""

    isolation = "serializable"

    def __init__(self, connection: sqlite3.Connection, watchdog: Watchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of these schemas, in one query for each schema and one for their names."""
        with self._watchdog.waiting(explained):
            known = [row[1] for row in self._connection.execute("PRAGMA database_list")]
            found = {name: self._described(name) for name in scope or ("main",) if name in known}
        return Catalog({table.path: table for tables in found.values() for table in tables})

    def _described(self, schema: str) -> list[Table]:
        literal = "'" + schema.replace("'", "''") + "'"
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for table, *facts in self._connection.execute(COLUMNS.format(schema=DIALECT.name(schema), literal=literal)):
            rows.setdefault(table, []).append(tuple(facts))
        return [_table((schema, name), facts) for name, facts in rows.items()]

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rows, fetched one by one."""
        with self._watchdog.waiting(explained):
            where = Where(DIALECT, query.conditions)
            if after is not None:
                where.after(query.key, after)
            names = [DIALECT.name(column.name) for column in (*query.columns, *query.key)]
            order = ", ".join(names[len(query.columns) :])
            sql = f"SELECT {', '.join(names)} FROM {DIALECT.name(*query.path)}{where.sql}"
            cursor = self._connection.execute(sql + (f" ORDER BY {order}" if order else ""), where.values)
        while (page := self._page(cursor, query)) is not None:
            yield page

    def _page(self, cursor: sqlite3.Cursor, query: Query) -> Page | None:
        bodies: list[bytes] = []
        size, row = 0, None
        with self._watchdog.waiting(explained):
            while size < query.page_bytes and (next_row := cursor.fetchone()) is not None:
                row = next_row
                members = {each.name: _value(each, value) for each, value in zip(query.columns, row, strict=False)}
                bodies.append(json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode())
                size += len(bodies[-1])
        return Page(b",".join(bodies), len(bodies), _position(query, row)) if row else None

    def cancel(self) -> None:
        """Stop the statement; there is no server that could go on."""
        self._watchdog.end("canceled")
        self._connection.interrupt()


def _table(path: tuple[str, str], rows: Sequence[Sequence[Any]]) -> Table:
    """Only a primary key of columns that are never NULL is a key; SQLite's own row number is one."""
    columns, key = [], []
    for name, kind, filled, at in rows:
        encoding = TYPES.get(re.split(r"\W", kind, maxsplit=1)[0], Encoding.TEXT)
        is_row_number = at and kind == "integer" and sum(bool(row[3]) for row in rows) == 1
        columns.append(Column(name, kind, encoding, nullable=not (filled or is_row_number)))
        key += [(at, columns[-1])] if at else []
    usable = all(not column.nullable and column.encoding not in UNORDERED for _, column in key)
    return Table(path, tuple(columns), tuple(column.name for _, column in sorted(key, key=lambda k: k[0]) if usable))


def _position(query: Query, row: Sequence[Any]) -> Position | None:
    pairs = zip(query.key, row[len(query.columns) :], strict=True)
    return Position(tuple((column.type, str(value)) for column, value in pairs)) if query.key else None


def _value(column: Column, value: Any) -> Any:
    """A value has a type of its own in SQLite; the column's decides what a number or a text of it means."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "Infinity" if value > 0 else "-Infinity"
        case int() if column.encoding is Encoding.BOOLEAN:
            return bool(value)
        case str() if column.encoding in STAMPS:
            return value.replace(" ", "T")
        case _:
            return value


def explained(error: Exception) -> FetcherError:
    """Translate an error of the library, of whatever class."""
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return UnavailableError("SQLite's file is locked")
    return InvalidRequestError("SQLite did not accept the statement")


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[SQLiteSession]:
    """Open the files, only to read; SQLite knows neither users nor TLS nor the names of applications."""
    if to.tls_mode is not None:
        raise InvalidRequestError(f"unknown TLS mode {to.tls_mode!r}: a file has no wire")
    with Watchdog(seconds, working=lambda: True) as watchdog, closing(_opened({"main": to.database})) as connection:
        for name, file in to.options.items():
            connection.execute(f"ATTACH ? AS {DIALECT.name(name)}", (_uri(file),))
        connection.set_progress_handler(lambda: bool(watchdog.ended), STEPS)
        connection.execute("BEGIN")
        yield SQLiteSession(connection, watchdog)


def _opened(files: Mapping[str, str]) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(_uri(files["main"]), uri=True, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA case_sensitive_like = ON")
    except sqlite3.Error as error:
        raise RefusedError("SQLite cannot open the file") from error
    connection.create_collation("exact", _exact)
    connection.create_function("moment", 1, _moment, deterministic=True)
    return connection


def _uri(file: str) -> str:
    return f"{Path(file).absolute().as_uri()}?mode=ro"
