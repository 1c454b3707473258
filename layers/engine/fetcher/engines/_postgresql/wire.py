"""libpq without blocking: every wait is a `poll` that the watchdog can end."""

from select import POLLIN, POLLOUT, poll

import psycopg
from psycopg import pq

from fetcher.engines._watchdog import Watchdog
from fetcher.errors import UnavailableError

TICK = 1000
"""Milliseconds; bytes that TLS has already taken off the socket do not make it readable."""


class Wire:
    """One connection, used below psycopg's cursors: no Python object is made for a value."""

    def __init__(self, connection: pq.abc.PGconn, watchdog: Watchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._readable, self._writable = poll(), poll()
        self._readable.register(connection.socket, POLLIN)
        self._writable.register(connection.socket, POLLOUT)
        self.copied = connection.get_copy_data

    def send(self, sql: str, *, chunk: int = 0) -> None:
        """Send a statement; with `chunk`, its rows come binary and in chunks of so many."""
        if chunk:
            self._connection.send_query_params(sql.encode(), None, result_format=pq.Format.BINARY)
            self._connection.set_chunked_rows_mode(chunk)
        else:
            self._connection.send_query(sql.encode())
        while self._connection.flush():
            self._writable.poll(TICK)

    def result(self) -> pq.abc.PGresult | None:
        """Wait for the next result; None after the statement's last."""
        while self._connection.is_busy():
            self.receive()
        return self._connection.get_result()

    def message(self) -> memoryview:
        """Wait for the next message of a COPY; empty after its last."""
        while not (message := self.copied(1))[0]:
            self.receive()
        return message[1]

    def receive(self) -> None:
        """Wait for bytes and let libpq take them."""
        if self._readable.poll(TICK):
            self._watchdog.beat()
        self._connection.consume_input()

    def finish(self, result: pq.abc.PGresult | None) -> int | None:
        """Accept the end of a statement only when the server confirms it; return the rows that it counted."""
        if result is None or result.status not in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
            raise failure(result)
        while self.result() is not None:
            pass
        return result.command_tuples


def failure(result: pq.abc.PGresult | None) -> Exception:
    """Return the server's error, or ours when the stream just stopped."""
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        return psycopg.errors.error_from_result(result)
    return UnavailableError("PostgreSQL ended a read too early")
