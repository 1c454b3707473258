"""SQL Server 2019 and later, by pyodbc with Microsoft's ODBC Driver 18: in one snapshot where the database has them.

The snapshot begins with the first read, not with the login. Where the database does not allow snapshots the rows are
read committed, each as it is when it is read, and `isolation` says so. Nothing can be written: a view has no way to.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any

from fetcher.engines._names import Schemas
from fetcher.engines._sqlserver.catalog import discovered, filtered, masked
from fetcher.engines._sqlserver.errors import HIDDEN, MASKED, explained
from fetcher.engines._sqlserver.opening import Opened, Way, has_snapshots, opened, prepared
from fetcher.engines._sqlserver.rows import Rows, Statement
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import RefusedError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

BEGIN = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION"
CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0

WORKING = """
SELECT CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 0 THEN 1
 WHEN EXISTS (SELECT 1 FROM sys.dm_exec_requests r WHERE r.session_id = {number}
  AND ISNULL(r.wait_type, '') <> 'ASYNC_NETWORK_IO') THEN 1 ELSE 0 END
"""
"""Without the right to see its other sessions a user is told nothing: then a server that answers is taken to work."""

NAMING = Schemas("dbo")

log = logging.getLogger(__name__)


class SQLServerSession:
    """A `Session`: names are always qualified, and values rendered by the server."""

    isolation = "read committed"

    def __init__(self, session: Opened, watchdog: Watchdog, schema: str, way: Way) -> None:
        self._session = session
        self._way = way
        self._rows: Rows | None = None
        self._beside: Watchdog | None = None
        self._watchdog = watchdog
        self._schema = schema
        self._to_begin = False
        self._filtered: frozenset[tuple[str, ...]] = frozenset()
        self._masked: dict[tuple[str, ...], frozenset[str]] = {}
        self._cursor: Any = None
        self._closing = Lock()

    def settle(self) -> None:
        """Choose snapshots where the database allows them."""
        with self._watchdog.waiting(explained):
            self._to_begin = has_snapshots(self._session)
        if self._to_begin:
            self.isolation = "snapshot"

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of these schemas in four queries; system schemas are skipped."""
        schemas = tuple(scope) or (self._schema,)
        with self._asking() as connection:
            catalog = discovered(connection, schemas)
            self._filtered |= filtered(connection, schemas)
            self._masked.update(masked(connection, schemas))
        return catalog

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """Give the session's connection, or one beside it while that is full of rows: it takes no question then.

        The second one has a few seconds: what waits for our rows to end may keep the catalog from answering.
        """
        if self._rows is None or self._rows.ended:
            with self._watchdog.waiting(explained):
                yield self._session.connection
            return
        with Watchdog(min(PROBE_SECONDS, self._watchdog.left())) as self._beside:
            other = prepared(self._way, self._beside)
            try:
                with self._beside.waiting(explained):
                    yield other.connection
            finally:
                other.close()

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rendered rows; a read that is left half-way drops the connection, undrained.

        A table whose rows a policy filters is refused, as far as the user may see that: half of it is not the table.
        So is one of which masks would be delivered, or a key that is sent as masks.
        """
        self._check_hidden(query)
        self._rows = rows = Rows(query, self._watchdog)
        try:
            with self._watchdog.waiting(explained):
                statement = Statement(query, after)
                self._begin()
                self._cursor = self._session.connection.cursor()
                rows.start(self._cursor, statement)
            while (page := self._next(rows)) is not None:
                yield page
        finally:
            if not rows.ended:
                self._session.wire.drop()

    def _check_hidden(self, query: Query) -> None:
        if query.path in self._filtered:
            raise RefusedError(HIDDEN)
        if self._masked.get(query.path, frozenset()).intersection(each.name for each in (*query.columns, *query.key)):
            raise RefusedError(MASKED)

    def _begin(self) -> None:
        if self._to_begin:
            self._session.connection.execute(BEGIN)
            self._to_begin = False

    def _next(self, rows: Rows) -> Page | None:
        with self._watchdog.waiting(explained):
            return rows.page()

    def cancel(self) -> None:
        """Ask the server over the same wire, then drop the socket whatever it answered."""
        self._watchdog.note("canceled")
        if self._beside is not None:
            self._beside.end("canceled")
        asking = Thread(target=self._ask_to_stop, name="cancel", daemon=True)
        asking.start()
        asking.join(CANCEL_SECONDS)
        self._watchdog.end("canceled")

    def close(self) -> None:
        """Drop the socket, which ends a cancel that still waits, and only then free what that uses."""
        self._session.wire.drop()
        with self._closing:
            self._cursor = None
            self._session.close()

    def _ask_to_stop(self) -> None:
        try:
            with self._closing:
                if self._cursor is not None:
                    self._cursor.cancel()
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[SQLServerSession]:
    """Open a session from parts, at the checked address; the host's name is what a certificate must show."""
    way = Way.to(to, secret, application)
    probe = _Probe(way)
    with Watchdog(seconds, working=probe) as watchdog:
        opened_session = prepared(way, watchdog)
        probe.number = opened_session.number
        session = SQLServerSession(opened_session, watchdog, to.schema or NAMING.default, way)
        try:
            session.settle()
            yield session
        finally:
            session.close()


class _Probe:
    """Asks over a connection of its own whether the server computes for the session, or waits for us."""

    def __init__(self, way: Way) -> None:
        self.number = 0
        self._way = way

    def __call__(self) -> bool:
        if not self.number:
            return False
        with suppress(Exception), Watchdog(PROBE_SECONDS) as watchdog:
            other = opened(self._way, watchdog)
            try:
                return bool(other.value(WORKING.format(number=self.number)))
            finally:
                other.close()
        return False
