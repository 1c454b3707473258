"""Oracle Database 19c and later, by oracledb in thin mode: one read-only snapshot for each session.

The snapshot begins with the first read. Rows are fetched in round trips, so a server does nothing between two
batches, and a read that is left half-way leaves nothing behind. What is assumed of a real server: `docs/oracle.md`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

import oracledb

from fetcher.engines._oracle.catalog import discovered, narrowed
from fetcher.engines._oracle.errors import HIDDEN, code, explained
from fetcher.engines._oracle.names import Owners, owner, spellings
from fetcher.engines._oracle.opening import Way, bounded, closed, opened, prepared
from fetcher.engines._oracle.rows import Rows
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import RefusedError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

BEGIN = "SET TRANSACTION READ ONLY"
CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0

WORKING = "SELECT s.status, s.event FROM sys.v_$session s WHERE s.sid = :1 AND s.serial# = :2"
SENDING = "SQL*Net more data to client"
NOT_ALLOWED = frozenset({"ORA-00942", "ORA-01031", "ORA-41900"})

NAMING = Owners()

log = logging.getLogger(__name__)


class OracleSession:
    """A `Session`: names are always qualified by their owner; values are rendered by the server, or framed here."""

    isolation = "read only"

    def __init__(self, connection: oracledb.Connection, watchdog: Watchdog, default: str) -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._default = default
        self._begun = False
        self._narrowed: frozenset[tuple[str, ...]] = frozenset()

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of these owners in three queries; Oracle's own owners are skipped."""
        owners = tuple(scope) or spellings(self._default)
        with self._watchdog.waiting(explained):
            catalog = discovered(self._connection, owners)
            self._narrowed |= narrowed(self._connection, owners)
        return catalog

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rendered rows; of a table that a policy narrows for this user, none."""
        if query.path in self._narrowed:
            raise RefusedError(HIDDEN)
        rows = Rows(query, after, self._watchdog)
        try:
            with self._watchdog.waiting(explained):
                self._begin()
                rows.start(self._connection)
            while (page := self._next(rows)) is not None:
                yield page
        finally:
            with suppress(Exception):
                rows.close()

    def _begin(self) -> None:
        """Begin the one transaction of the session, which must be told before its first statement."""
        bounded(self._connection, self._watchdog)
        if not self._begun:
            with self._connection.cursor() as cursor:
                cursor.execute(BEGIN)
            self._begun = True

    def _next(self, rows: Rows) -> Page | None:
        with self._watchdog.waiting(explained):
            bounded(self._connection, self._watchdog)
            return rows.page()

    def cancel(self) -> None:
        """Ask the server to break off, for at most two seconds, then drop the socket whatever it answered."""
        self._watchdog.note("canceled")
        asking = Thread(target=self._break, name="cancel", daemon=True)
        asking.start()
        asking.join(CANCEL_SECONDS)
        self._watchdog.end("canceled")

    def _break(self) -> None:
        try:
            self._connection.cancel()
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[OracleSession]:
    """Open a session from parts, at the checked address; the host's name is what a certificate must show."""
    way = Way.to(to, secret, application)
    probe = _Probe(way)
    with Watchdog(seconds, working=probe) as watchdog:
        connection = prepared(way, watchdog)
        try:
            probe.session = (connection.session_id, connection.serial_num)
            yield OracleSession(connection, watchdog, owner(to))
        finally:
            closed(connection)


class _Probe:
    """Asks over a connection of its own whether the session's server computes, or waits for us.

    Few users may look at the list of sessions; without that right, a server that lets us in counts as working.
    """

    def __init__(self, way: Way) -> None:
        self.session: tuple[int, int] | None = None
        self._way = way

    def __call__(self) -> bool:
        if self.session is None:
            return False
        try:
            return self._is_active(*self.session)
        except Exception as error:
            return code(error) in NOT_ALLOWED

    def _is_active(self, *session: int) -> bool:
        with Watchdog(PROBE_SECONDS) as watchdog:
            connection = opened(self._way, watchdog)
            try:
                with connection.cursor() as cursor:
                    row = cursor.execute(WORKING, list(session)).fetchone()
            finally:
                closed(connection)
        return row is not None and row[0] == "ACTIVE" and row[1] != SENDING
