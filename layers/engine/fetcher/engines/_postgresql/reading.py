"""One read of a table: starts with small rows where it can, and goes on whatever their size."""

from collections.abc import Sequence

import psycopg

from fetcher.engines._postgresql.rows import Chunks, Copy, Rows
from fetcher.engines._postgresql.statement import Statement
from fetcher.engines._postgresql.wire import Wire
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Page, Position, Query

TOO_LARGE = psycopg.errors.DivisionByZero
"""What the server raises for a row that is too large for a chunk. Raised by a view itself, it comes again."""


class Reading:
    """Pages of one query; the server is asked when the first one is."""

    def __init__(
        self, connection: psycopg.Connection, watchdog: Watchdog, query: Query, after: Position | None
    ) -> None:
        self._connection = connection
        self._wire = Wire(connection.pgconn, watchdog)
        self._query = query
        self._after = after
        self._rows: Rows | None = None

    @property
    def ended(self) -> bool:
        """Whether everything was read, so that the connection is free for the next read."""
        return self._rows is not None and self._rows.ended

    def page(self) -> Page | None:
        """Return the next page, None after the last."""
        try:
            page = self._started().page()
        except TOO_LARGE:
            if not self._query.key or isinstance(self._rows, Copy):
                raise
            page = self._restarted().page()
        if page is not None:
            self._after = page.position
        return page

    def _started(self) -> Rows:
        if self._rows is None:
            statement = self._bound()
            if self._query.key:
                self._connection.execute("SAVEPOINT small")
                self._rows = Chunks(self._wire, self._query, statement.small)
            else:
                self._rows = Copy(self._wire, self._query, statement.copy)
        return self._rows

    def _restarted(self) -> Rows:
        """Go on behind the last page that was delivered, in the same snapshot."""
        while self._wire.result() is not None:
            pass
        self._connection.execute("ROLLBACK TO small")
        self._rows = Copy(self._wire, self._query, self._bound().copy)
        return self._rows

    def _bound(self) -> Statement:
        statement = Statement(self._query, self._after, self._connection.info.server_version)
        calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(statement.settings))
        bound: Sequence[str] = [part for setting in statement.settings for part in setting]
        self._connection.execute(f"SELECT {calls}".encode(), bound)
        return statement
