"""One read: the statement, the batches that the driver fetches, and the pages made of them."""

import json
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import oracledb

from fetcher.engines._oracle.dialect import DIALECT, key_text
from fetcher.engines._oracle.types import LARGE, kind, width
from fetcher.engines._oracle.values import Finish, plain, rendered
from fetcher.engines._sql import Where
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Column, Page, Position, Query

LONGEST_RENDERED = 4000
"""Bytes of a VARCHAR2 that every server can build; see `MAX_STRING_SIZE`."""

BATCH_BYTES = 4 * 1024 * 1024
MOST_ROWS = 5000
LARGE_ROWS = 4
"""Rows of a batch with large objects: what these take is not known before they are here."""

Part = str | tuple[int, Finish]
"""A constant of every row's object, or a column of the result with what makes JSON of it."""


class Statement:
    """The SELECT of one read, its bound values, and how a row of its result becomes a JSON object."""

    def __init__(self, query: Query, after: Position | None) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        self._selected: list[str] = []
        self.parts = self._framed(query.columns)
        self.first_key = len(self._selected)
        names = [DIALECT.name(column.name) for column in query.key]
        self._selected += map(key_text, query.key, names)
        order = f" ORDER BY {', '.join(names)}" if names else ""
        listed = ", ".join(self._selected or ["1"])
        self.sql = f"SELECT {listed} FROM {DIALECT.name(*query.path)}{where.sql}{order}"  # noqa: S608 - quoted names only
        self.values = where.values
        self.rows_a_batch = _rows_a_batch([*query.columns, *query.key])

    def _framed(self, columns: Sequence[Column]) -> list[Part]:
        """Let neighbours that the server renders travel as one text, as long as that fits."""
        parts: list[Part] = []
        text, size, constant = "", 0, "{"
        for at, column in enumerate(columns):
            constant += f"{',' if at else ''}{json.dumps(column.name, ensure_ascii=False)}:"
            value = rendered(column, DIALECT.name(column.name))
            between = len(constant.encode()) + value.width
            if text and value.finish is None and size + between <= LONGEST_RENDERED:
                text, size, constant = f"{text} || {_literal(constant)} || {value.sql}", size + between, ""
                continue
            parts += [*self._selecting(text, plain), constant]
            text, size, constant = (value.sql, value.width, "") if value.finish is None else ("", 0, "")
            parts += self._selecting(value.sql, value.finish) if value.finish is not None else []
        return [*parts, *self._selecting(text, plain), constant + "}"]

    def _selecting(self, sql: str, finish: Finish) -> list[Part]:
        if not sql:
            return []
        self._selected.append(sql)
        return [(len(self._selected) - 1, finish)]

    def bodies(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """Frame rows column by column: no step in Python is taken for a value that is JSON already."""
        if not rows:
            return iter(())
        columns = list(zip(*rows, strict=True))
        pieces = (
            repeat(part, len(rows)) if isinstance(part, str) else map(part[1], columns[part[0]]) for part in self.parts
        )
        return map("".join, zip(*pieces, strict=True))


def _rows_a_batch(columns: Sequence[Column]) -> int:
    if any(kind(column) in LARGE for column in columns):
        return LARGE_ROWS
    return max(1, min(MOST_ROWS, BATCH_BYTES // max(1, sum(map(width, columns)))))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Rows:
    """The rows of one read, page by page. The end is the server's own word; everything else raises."""

    def __init__(self, query: Query, after: Position | None, watchdog: Watchdog) -> None:
        self._query = query
        self._watchdog = watchdog
        self._statement = Statement(query, after)
        self._cursor: oracledb.Cursor | None = None
        self._batch: list[Any] = []
        self._bodies: list[bytes] = []
        self._at = 0

    def start(self, connection: oracledb.Connection) -> None:
        """Send the statement; the first batch comes with its answer."""
        self._cursor = connection.cursor()
        self._cursor.arraysize = self._cursor.prefetchrows = self._statement.rows_a_batch
        self._cursor.execute(self._statement.sql, self._statement.values, fetch_lobs=False)
        self._watchdog.beat()

    def page(self) -> Page | None:
        """Collect the next rows, up to the page's size and at least one; None after the last."""
        bodies: list[bytes] = []
        size, last = 0, None
        while size < self._query.page_bytes and (self._at < len(self._bodies) or self._fetched()):
            body, last = self._bodies[self._at], self._batch[self._at]
            bodies.append(body)
            size, self._at = size + len(body), self._at + 1
        return None if last is None else Page(b",".join(bodies), len(bodies), self._position(last))

    def _fetched(self) -> bool:
        """Fetch in one round trip. Fewer rows than asked for say nothing; none says that there are no more."""
        if self._cursor is None:
            return False
        self._batch, self._bodies, self._at = [], [], 0
        self._batch = self._cursor.fetchmany(self._statement.rows_a_batch)
        self._watchdog.beat()
        self._bodies = [body.encode() for body in self._statement.bodies(self._batch)]
        return bool(self._batch)

    def _position(self, row: Sequence[Any]) -> Position | None:
        texts = row[self._statement.first_key :]
        pairs = zip((column.type for column in self._query.key), map(str, texts), strict=False)
        return Position(tuple(pairs)) if self._query.key else None

    def close(self) -> None:
        """Forget the statement; what was not fetched was never sent, so nothing is drained."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
