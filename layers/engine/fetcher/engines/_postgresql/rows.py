"""The two fastest exact ways out of PostgreSQL for rows that it has rendered itself.

*Chunks* of rows cost the client a third of what single rows do, but libpq holds a whole chunk, so they
are for small rows only, which the server checks. *Copying* holds one row at a time, whatever its size,
and needs no order. A read with a key begins with chunks and goes on with a copy behind the last page
when a row turns out to be large. Measured in `benchmarks/README.md`.
"""

import json
from struct import Struct
from typing import Protocol

from psycopg import pq

from fetcher.engines._postgresql.statement import SHOWN, text_of
from fetcher.engines._postgresql.wire import Wire, failure
from fetcher.engines._sql import shows_key
from fetcher.errors import LimitError
from fetcher.model import Page, Position, Query

CHUNK = 128
"""Rows; of fewer than 64 KiB each (`statement.SMALL`), so a chunk is of less than 8 MiB."""

LARGEST = 80 * 1024 * 1024
"""Bytes of a row. One may be there five times: as libpq received it, as it gave it away, as a page, and in the two
chunks of the result; a worker has 512 MB."""

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = Struct(">15xI")
"""Signature and flags, then the length of an extension that follows."""
TRAILER = b"\xff\xff"
SIZE = Struct(">i")
ROW = Struct(">xxi")
"""A row's number of columns, and the length of its first: the JSON object."""


def shown(query: Query, body: bytes | memoryview) -> Position:
    """Read the texts of the key from a row's JSON; numbers keep their digits."""
    row = json.loads(bytes(body), parse_int=str)
    return Position(tuple((column.type, row[column.name]) for column in query.key))


class Rows(Protocol):
    """A running read."""

    ended: bool
    """Whether the server has confirmed that this was all."""

    def page(self) -> Page | None:
        """Collect the next rows, up to the page's size and at least one; None after the last."""
        ...


class Chunks:
    """Small rows, by the hundred. A large one ends this with psycopg's `DivisionByZero`."""

    def __init__(self, wire: Wire, query: Query, sql: str) -> None:
        self.ended = False
        self._wire = wire
        self._query = query
        self._count = 0
        self._largest = 0
        self._shown = shows_key(query, SHOWN)
        self._at = 0
        self._told: int | None = None
        self._chunk: pq.abc.PGresult
        wire.send(sql, chunk=CHUNK)
        self._advance()

    def page(self) -> Page | None:
        """See `Rows`. The largest row seen keeps a page from growing beyond its aim by a whole chunk."""
        bodies: list[bytes] = []
        left, beside = self._query.page_bytes, list[bytes]()
        while not self.ended and (not bodies or left >= self._largest):
            taken = self._take(max(1, left // self._largest) if self._largest else 1)
            beside = self._beside()
            bodies += taken
            left -= sum(map(len, taken))
            if self._at == self._chunk.ntuples:
                self._advance()
        return Page(b",".join(bodies), len(bodies), self._position(bodies[-1], beside)) if bodies else None

    def _take(self, most: int) -> list[bytes]:
        first, self._at = self._at, min(self._at + most, self._chunk.ntuples)
        value = self._chunk.get_value
        taken = [value(row, 0) or b"" for row in range(first, self._at)]
        self._largest = max(self._largest, *map(len, taken))
        return taken

    def _beside(self) -> list[bytes]:
        """Keep the key of the last row taken, where its JSON does not show it: its chunk may be gone soon."""
        last, value = self._at - 1, self._chunk.get_value
        return [] if self._shown else [value(last, at) or b"" for at in range(1, len(self._query.key) + 1)]

    def _position(self, body: bytes, beside: list[bytes]) -> Position:
        if self._shown:
            return shown(self._query, body)
        keys = zip(self._query.key, beside, strict=True)
        return Position(tuple((column.type, text_of(column, value)) for column, value in keys))

    def _advance(self) -> None:
        """Take the next chunk, or the end; the server's count comes with the last rows, or else after them."""
        result = self._wire.result()
        if result is not None and result.status == pq.ExecStatus.TUPLES_CHUNK:
            self._chunk, self._at = result, 0
            self._count += result.ntuples
            self._told = result.command_tuples
            return
        told = self._wire.finish(result)
        if self._count not in {told, self._told}:
            raise failure(None)
        self.ended = True


class Copy:
    """Rows of any size, one at a time."""

    def __init__(self, wire: Wire, query: Query, sql: str) -> None:
        self.ended = False
        self._wire = wire
        self._query = query
        self._count = 0
        wire.send(sql)
        result = wire.result()
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            raise failure(result)
        self._early = self._first()

    def page(self) -> Page | None:
        """See `Rows`."""
        bodies: list[memoryview] = []
        last, size, aim, early = None, 0, self._query.page_bytes, self._early
        copied, unpack, add = self._wire.copied, ROW.unpack_from, bodies.append
        while size < aim and not self.ended:
            got, row = early.pop() if early else copied(1)
            if got > len(TRAILER):
                size, last = size + got, row
                add(row[ROW.size : ROW.size + unpack(row)[0]])
            elif got:
                self._end(row, self._count + len(bodies))
            else:
                self._wire.receive()
        if last is None:
            return None
        if size > LARGEST:
            raise LimitError(f"a row has {len(last)} bytes; the most that a worker can hold is {LARGEST}")
        self._count += len(bodies)
        return Page(b",".join(bodies), len(bodies), self._position(last))

    def _position(self, row: memoryview) -> Position | None:
        """Take the texts of the key from behind the JSON object, which may be too large to be looked into."""
        at, values = ROW.size + ROW.unpack_from(row)[0], []
        for column in self._query.key:
            start = at + SIZE.size
            at = start + SIZE.unpack_from(row, at)[0]
            values.append((column.type, text_of(column, row[start:at])))
        return Position(tuple(values)) if values else None

    def _first(self) -> list[tuple[int, memoryview]]:
        """Check the header, and keep the row, or the trailer, that came in the same message."""
        message = self._wire.message()
        if bytes(message[: len(SIGNATURE)]) != SIGNATURE:
            raise failure(self._wire.result())
        rest = message[HEADER.size + HEADER.unpack_from(message)[0] :]
        return [(len(rest), rest)] if rest else []

    def _end(self, row: memoryview, count: int) -> None:
        """Accept an end only with the trailer, the end of COPY, and a count that agrees with ours."""
        complete = bytes(row) == TRAILER
        if complete:
            self._wire.message()
        if self._wire.finish(self._wire.result()) != count or not complete:
            raise failure(None)
        self.ended = True
