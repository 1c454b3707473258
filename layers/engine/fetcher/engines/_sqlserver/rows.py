"""One read: the statement that makes the server render rows as JSON, and the pages made of them.

A row is one nvarchar(max), which the driver hands over as UTF-16, followed by the texts of its key. Nothing is read
ahead: the driver takes what a row needs off the wire.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fetcher.engines._sql import Where
from fetcher.engines._sqlserver.dialect import DIALECT, key_text
from fetcher.engines._sqlserver.values import finishing, rendered
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import LimitError
from fetcher.model import Column, Page, Position, Query

SQL_WVARCHAR = -9
LONGEST_TEXT, MAX = 4_000, 0
"""One size for all short texts keeps the plan; a column is only sought by texts that are not nvarchar(max)."""

PARAMETERS = 2_100
COLUMNS_A_CALL = 100
"""CONCAT takes 254 arguments."""

COMMA = ",".encode("utf-16-le")
LONELY = re.compile("[\ud800-\udfff]")


class Statement:
    """One read as the server's text and the values of its marks."""

    def __init__(self, query: Query, after: Position | None) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        if len(where.values) > PARAMETERS - 1:
            raise LimitError(f"the filters need {len(where.values)} parameters; SQL Server takes {PARAMETERS - 1}")
        self.sql = _select(query, where)
        self.values = where.values


def _select(query: Query, where: Where) -> str:
    names = [DIALECT.name(column.name) for column in query.key]
    texts = map(key_text, query.key, names)
    order = f" ORDER BY {', '.join(names)}" if names else ""
    listed = ", ".join([_object(query.columns), *texts])
    return f"SELECT {listed} FROM {DIALECT.name(*query.path)}{where.sql}{order}"  # noqa: S608 - quoted names only


def _object(columns: Sequence[Column]) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered."""
    openings = ["{", *"," * len(columns)]
    members = [
        f"{_literal(opening + json.dumps(column.name, ensure_ascii=False) + ':')}, {_value(column)}"
        for opening, column in zip(openings, columns, strict=False)
    ]
    calls = [_concat(members[at : at + COLUMNS_A_CALL]) for at in range(0, len(members), COLUMNS_A_CALL)]
    return _concat([*(calls if len(calls) > 1 else members), _literal("}" if members else "{}")])


def _concat(parts: Sequence[str]) -> str:
    """Make the result an nvarchar(max) by its first argument: it would be cut after 4,000 characters."""
    return f"CONCAT(CONVERT(nvarchar(max), N''), {', '.join(parts)})"


def _value(column: Column) -> str:
    return rendered(column, DIALECT.name(column.name))


def _literal(text: str) -> str:
    return "N'" + text.replace("'", "''") + "'"


class Rows:
    """The rows of one read, page by page. Complete only when `ended`; everything else raises."""

    def __init__(self, query: Query, watchdog: Watchdog) -> None:
        self.ended = False
        self._query = query
        self._watchdog = watchdog
        self._finished = finishing(query.columns)
        self._rows: Iterator[Any] = iter(())

    def start(self, cursor: Any, statement: Statement) -> None:
        """Send the statement and wait for the server to begin with its answer."""
        if statement.values:
            cursor.setinputsizes([(SQL_WVARCHAR, _size(value), 0) for value in statement.values])
        cursor.execute(statement.sql, *statement.values)
        self._rows = iter(cursor)

    def page(self) -> Page | None:
        """Collect the next rows, up to the page's size and at least one; None after the last."""
        bodies: list[bytes] = []
        size, key = 0, []
        while size < self._query.page_bytes:
            row = next(self._rows, None)
            self._watchdog.beat()
            if row is None:
                self.ended = True
                break
            bodies.append(row[0])
            size, key = size + len(row[0]) // 2, row[1:]
        if not bodies:
            return None
        return Page(self._finished(_utf8(COMMA.join(bodies))), len(bodies), self._position(key))

    def _position(self, key: Sequence[bytes]) -> Position | None:
        pairs = zip(self._query.key, key, strict=True)
        return Position(tuple((column.type, text.decode("utf-16-le")) for column, text in pairs)) if key else None


def _size(text: str) -> int:
    return LONGEST_TEXT if len(text) * 2 <= LONGEST_TEXT else MAX


def _utf8(body: bytes) -> bytes:
    """Half a surrogate pair, which a column can hold, is no character of UTF-8: it stays an escape of JSON."""
    try:
        return body.decode("utf-16-le").encode()
    except UnicodeDecodeError:
        text = body.decode("utf-16-le", "surrogatepass")
        return LONELY.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
