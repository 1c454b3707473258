"""The fastest exact way out of PostgreSQL: binary COPY of rows that the server has rendered as JSON.

Why this shape, measured against the others in `benchmarks/README.md`: the server escapes and joins
(`concat` costs less than `row_to_json` and is exact), binary COPY copies bytes where text COPY escapes
each of them again, and libpq holds one row at a time, so memory does not depend on the rows' sizes.
libpq is read without blocking and without a Python object per value.
"""

import json
from collections.abc import Sequence
from itertools import chain, count, repeat
from select import POLLIN, POLLOUT, poll
from struct import Struct

import psycopg
from psycopg import pq

from fetcher.engines._postgresql.values import DIALECT, parameter, rendered
from fetcher.engines._sql import Where
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import UnavailableError
from fetcher.model import Column, Page, Position, Query

COLUMNS_A_CALL = 30
"""`concat` takes at most 100 arguments, and a column needs up to three."""

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = Struct(">15xI")
"""Signature and flags, then the length of an extension that follows."""
TRAILER = b"\xff\xff"
SIZE = Struct(">i")
ROW = Struct(">xxi")
"""A row's number of columns, and the length of its first: the JSON object."""
MINIMUM = len(TRAILER)
TICK = 1000
"""Milliseconds; bytes that TLS has already taken off the socket do not make it readable."""


class Statement:
    """One read as a COPY, with the settings that carry its bound values.

    Values travel through `set_config` and come back by `current_setting`, because COPY itself takes
    no parameters: no value is ever part of the SQL text.
    """

    def __init__(self, query: Query, after: Position | None) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        self.settings = [("search_path", _search_path(query))]
        self.settings += zip(map(parameter, count(1)), where.values, strict=False)
        self.copy = f"COPY ({_select(query, where)}) TO STDOUT (FORMAT binary)"


def _select(query: Query, where: Where) -> str:
    table = DIALECT.name(*query.path)
    keys = [f"{table}.{DIALECT.name(column.name)}" for column in query.key]
    listed = ", ".join([_object(query.columns), *(f"pg_catalog.concat({key})" for key in keys)])
    # Qualified, the key cannot be taken for a column of the output, which are all named `concat`.
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f"SELECT {listed} FROM {table}{where.sql}{order}"  # noqa: S608 - quoted names only


def _object(columns: Sequence[Column]) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered."""
    if not columns:
        return "'{}'::text"
    openings = chain("{", repeat(","))
    members = [
        f"{_literal(opening + _member(column))}, {_value(column)}"
        for opening, column in zip(openings, columns, strict=False)
    ]
    calls = [", ".join(members[at : at + COLUMNS_A_CALL]) for at in range(0, len(members), COLUMNS_A_CALL)]
    return "pg_catalog.concat(" + ", ".join(f"pg_catalog.concat({call})" for call in calls) + ", '}')"


def _member(column: Column) -> str:
    return json.dumps(column.name, ensure_ascii=False) + ":"


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


class Rows:
    """The rows of one COPY, page by page. Complete only when `ended`; everything else raises."""

    def __init__(self, connection: pq.abc.PGconn, watchdog: Watchdog, query: Query) -> None:
        self.ended = False
        self._connection = connection
        self._watchdog = watchdog
        self._query = query
        self._readable, self._writable = poll(), poll()
        self._readable.register(connection.socket, POLLIN)
        self._writable.register(connection.socket, POLLOUT)
        self._early: list[tuple[int, memoryview]] = []
        self._count = 0

    def start(self, copy: str) -> None:
        """Send the statement and wait for the server's first bytes."""
        self._connection.send_query(copy.encode())
        while self._connection.flush():
            self._writable.poll(TICK)
        result = self._result()
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            raise _failure(result)
        self._begin()

    def page(self) -> Page | None:
        """Collect the next rows, up to the page's size and at least one; None after the last."""
        bodies: list[memoryview] = []
        last, size, aim, early = None, 0, self._query.page_bytes, self._early
        get, unpack, add = self._connection.get_copy_data, ROW.unpack_from, bodies.append
        while size < aim and not self.ended:
            got, row = early.pop() if early else get(1)
            if got > MINIMUM:
                size, last = size + got, row
                add(row[ROW.size : ROW.size + unpack(row)[0]])
            elif got:
                self._end(row, self._count + len(bodies))
            else:
                self._receive()
        if last is None:
            return None
        self._count += len(bodies)
        return Page(b",".join(bodies), len(bodies), self._position(last))

    def _position(self, row: memoryview) -> Position | None:
        """Cut the texts of the key, which follow the JSON object."""
        at, values = ROW.size + ROW.unpack_from(row)[0], []
        for column in self._query.key:
            start = at + SIZE.size
            at = start + SIZE.unpack_from(row, at)[0]
            values.append((column.type, str(row[start:at], "utf-8")))
        return Position(tuple(values)) if values else None

    def _begin(self) -> None:
        """Check the header; the server puts the first row, or the trailer, into the same message."""
        _, first = self._message()
        if bytes(first[: len(SIGNATURE)]) != SIGNATURE:
            raise _failure(self._result())
        rest = first[HEADER.size + HEADER.unpack_from(first)[0] :]
        if rest:
            self._early.append((len(rest), rest))

    def _end(self, row: memoryview, count: int) -> None:
        """Accept an end only with the trailer, the end of COPY and a count that agrees with ours."""
        if bytes(row) == TRAILER:
            self._message()
        result = self._result()
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            raise _failure(result)
        if bytes(row) != TRAILER or result.command_tuples != count:
            raise _failure(None)
        while self._result() is not None:
            pass
        self.ended = True

    def _message(self) -> tuple[int, memoryview]:
        while not (message := self._connection.get_copy_data(1))[0]:
            self._receive()
        return message

    def _result(self) -> pq.abc.PGresult | None:
        while self._connection.is_busy():
            self._receive()
        return self._connection.get_result()

    def _receive(self) -> None:
        if self._readable.poll(TICK):
            self._watchdog.beat()
        self._connection.consume_input()


def _failure(result: pq.abc.PGresult | None) -> Exception:
    """Return the server's error, or ours when the stream just stopped."""
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        return psycopg.errors.error_from_result(result)
    return UnavailableError("PostgreSQL ended a read too early")
