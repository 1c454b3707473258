"""One read: the statement that makes the server render rows as JSON, and the pages made of them.

A row is one nvarchar(max), whose UTF-16 comes as bytes, because the driver has less to do with these. Behind it are
the texts of its key where the JSON does not show them. Nothing is read ahead: the driver takes what a row needs off the
wire.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson

from fetcher.engines._sql import Where, shows_key
from fetcher.engines._sqlserver.dialect import DIALECT, key_text
from fetcher.engines._sqlserver.errors import MASKED
from fetcher.engines._sqlserver.values import finishing, rendered
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import ChangedError, LimitError, RefusedError
from fetcher.model import Column, Encoding, Page, Position, Query

SQL_WVARCHAR = -9
LONGEST_TEXT, MAX = 4_000, 0
"""One size for all short texts keeps the plan; a column is only sought by texts that are not nvarchar(max)."""

PARAMETERS = 2_100
COLUMNS_A_CALL = 100
"""CONCAT takes 254 arguments."""

SHOWN = frozenset({Encoding.INTEGER, Encoding.DECIMAL, Encoding.TEXT, Encoding.DATE, Encoding.TIME, Encoding.UUID})
"""What a key may be so that its text can be taken from the row's JSON."""

KEY_MARK = "="
"""Begins the text of a key beside a row, so that a mask in its place is seen to be none."""

COMMA, OPENING, CLOSING, KEY_OPENING = (letter.encode("utf-16-le") for letter in f",{{}}{KEY_MARK}")
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
    keys = () if shows_key(query, SHOWN) else map(key_text, query.key, names)
    texts = [f"N'{KEY_MARK}' + {text}" for text in keys]
    order = f" ORDER BY {', '.join(names)}" if names else ""
    listed = ", ".join([f"CONVERT(varbinary(max), {_object(query.columns)})", *texts])
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
    """The rows of one read, page by page. Complete only when `ended`; everything else raises.

    An expression over a masked column is a mask itself, and our row is one expression: of this user's masks, those of
    views and computed columns are told by nothing else. So each row, and each key beside one, is looked at.
    """

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
        append, beat, left, row = bodies.append, self._watchdog.beat, 2 * self._query.page_bytes, None
        for row in self._rows:
            beat()
            body = row[0]
            if not (body and body.startswith(OPENING) and body.endswith(CLOSING)):
                raise RefusedError(MASKED)
            append(body)
            left -= len(body)
            if left <= 0:
                break
        else:
            beat()
            self.ended = True
        if row is None:
            return None
        return Page(self._finished(_utf8(COMMA.join(bodies))), len(bodies), self._position(row))

    def _position(self, row: Sequence[bytes]) -> Position | None:
        """Return none for a key with half a surrogate pair, which is no text: nothing goes on behind such a row."""
        key = self._query.key
        if not key:
            return None
        texts = self._shown(row[0]) if shows_key(self._query, SHOWN) else [_key(text) for text in row[1:]]
        if LONELY.search("".join(texts)):
            return None
        return Position(tuple((column.type, text) for column, text in zip(key, texts, strict=True)))

    def _shown(self, body: bytes) -> Sequence[str]:
        """Read the texts of the key from a row's JSON. Raises `ChangedError` when it is none: a number became text."""
        row = _parsed(self._finished(_utf8(body)))
        return [str(row[column.name]) for column in self._query.key]


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        with suppress(json.JSONDecodeError):  # half a surrogate pair, which may stand in any other column
            return json.loads(text)
    raise ChangedError("a row is not what its table was when the read was planned; it has to be read again")


def _key(text: bytes | None) -> str:
    """Read the text of a key that came beside its row."""
    if not (text and text.startswith(KEY_OPENING)):
        raise RefusedError(MASKED)
    return text.removeprefix(KEY_OPENING).decode("utf-16-le", "surrogatepass")


def _size(text: str) -> int:
    return LONGEST_TEXT if len(text) * 2 <= LONGEST_TEXT else MAX


def _utf8(body: bytes) -> bytes:
    """Half a surrogate pair, which a column can hold, is no character of UTF-8: it stays an escape of JSON."""
    try:
        return body.decode("utf-16-le").encode()
    except UnicodeDecodeError:
        text = body.decode("utf-16-le", "surrogatepass")
        return LONELY.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
