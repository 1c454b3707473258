"""MySQL 8 and MariaDB, by PyMySQL: one read-only, repeatable-read snapshot for each session.

A connection is to one database, and its tables are named without it. The snapshot begins with the first
read, not with the login: a connection that is only tested, or asked for its tables, costs the server nothing.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pymysql

from fetcher.engines._mysql.catalog import discovered, unversioned
from fetcher.engines._mysql.dialect import DIALECT
from fetcher.engines._mysql.errors import explained
from fetcher.engines._mysql.opening import Opened, Way, closed, opened, prepared, thread
from fetcher.engines._mysql.resuming import confirm
from fetcher.engines._mysql.rows import Rows, Statement
from fetcher.engines._mysql.wire import abandoned
from fetcher.engines._names import WholeNames
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import InvalidRequestError, RefusedError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
HOLD = "START TRANSACTION READ ONLY"
CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0

IDLE = frozenset({b"Sleep"})
SENDING = frozenset({b"Writing to net", b"Sending to client"})
"""What MariaDB and MySQL say of a thread that waits for us, and not we for it."""

NAMING = WholeNames()

log = logging.getLogger(__name__)


class MySQLSession:
    """A `Session` on the connected database; values are rendered by the server."""

    isolation = "repeatable read"

    def __init__(self, connection: Opened, watchdog: Watchdog, other: "_Other") -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._other = other
        self._begun = False
        self._unversioned: frozenset[tuple[str, ...]] = frozenset()

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of the connected database in a constant number of queries.

        The catalog has no snapshots, and inside a read-only transaction it hides views that use sequences.
        """
        with self._watchdog.waiting(explained):
            self._unversioned = unversioned(self._connection)
            return discovered(self._connection)

    def hold(self, paths: Sequence[tuple[str, ...]]) -> None:
        """Begin the transaction, and let what renames, empties or alters these tables wait for its end.

        A snapshot is of rows, while a name means whatever has it now: a table that was filled behind the snapshot and
        then took this name would be found empty. What cannot be asked at all is refused by its read, which says why.
        """
        with self._watchdog.waiting(explained), self._connection.cursor() as cursor:
            cursor.execute(HOLD)
            for path in paths:
                try:
                    cursor.execute(f"SELECT 1 FROM {DIALECT.name(*path)} LIMIT 0")  # noqa: S608 - quoted names only
                except pymysql.Error as error:
                    if not isinstance(explained(error), RefusedError | InvalidRequestError):
                        raise
        self._begun = True

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rendered rows; a read that is left half-way drops the connection, undrained.

        With a table whose engine has no transactions the session has no one moment any more, and says so.
        """
        if query.path in self._unversioned:
            self.isolation = "not transactional"
        rows = Rows(query, self._watchdog)
        try:
            with self._watchdog.waiting(explained):
                self._begin()
                statement = Statement.reading(query, after)
                if after is not None:
                    confirm(self._connection, query.key, after)
                rows.start(self._connection, statement)
            while (page := self._next(rows)) is not None:
                yield page
        finally:
            if not rows.ended:
                abandoned(self._connection)

    def _begin(self) -> None:
        if not self._begun:
            with self._connection.cursor() as cursor:
                cursor.execute(BEGIN)
            self._begun = True

    def _next(self, rows: Rows) -> Page | None:
        with self._watchdog.waiting(explained):
            return rows.page()

    def cancel(self) -> None:
        """End the session at the server over a second connection, then drop the socket whatever it answered."""
        self._watchdog.note("canceled")
        try:
            self._other.end()
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)
        finally:
            self._watchdog.end("canceled")


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[MySQLSession]:
    """Open a session from parts, at the checked address; the host's name is what a certificate must show."""
    way = Way.to(to, secret, application)
    other = _Other(way)
    with Watchdog(seconds, working=other.working, abandon=other.end) as watchdog:
        connection = prepared(way, watchdog)
        try:
            with watchdog.waiting(explained):
                other.thread = _Thread.listed(connection, thread(connection))
            yield MySQLSession(connection, watchdog, other)
        finally:
            closed(connection)


@contextmanager
def _beside(way: Way, seconds: float) -> Iterator[Opened]:
    """Open a second connection for a word about the first."""
    with Watchdog(seconds) as watchdog:
        connection = opened(way, watchdog)
        try:
            yield connection
        finally:
            closed(connection)


@dataclass(frozen=True, slots=True)
class _Thread:
    """What a server shows of a thread; `peer` is the client's address and port, as the server sees them."""

    number: int
    peer: bytes
    command: bytes
    state: bytes | None

    @classmethod
    def listed(cls, connection: Opened, number: int) -> "_Thread | None":
        """Look a thread up; everybody may see his own. What a proxy says is a number may be none of the server's."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            found = (row for row in cursor if int(row[0]) == number)
            return next((cls(number, row[2], row[4], row[6]) for row in found), None)

    def again(self, connection: Opened) -> "_Thread | None":
        """Find this very thread, over any connection.

        Numbers count from a server's start, and the same address may lead to another server by now, or to one that was
        started again: there, the number is somebody else's.
        """
        found = self.listed(connection, self.number)
        return found if found is not None and found.peer == self.peer else None


class _Other:
    """Asks and tells the server about the session's thread, over a connection of its own."""

    def __init__(self, way: Way) -> None:
        self.thread: _Thread | None = None
        self._way = way

    def working(self) -> bool:
        """Whether the thread computes, and does not wait for us."""
        if self.thread is not None:
            with suppress(Exception), _beside(self._way, PROBE_SECONDS) as other:
                found = self.thread.again(other)
                return found is not None and found.command not in IDLE and found.state not in SENDING
        return False

    def end(self) -> None:
        """End the thread, which knows no time limit while it sends. Raises what the connection raises."""
        if self.thread is not None:
            with _beside(self._way, CANCEL_SECONDS) as other, other.cursor() as cursor:
                if self.thread.again(other) is not None:
                    cursor.execute(f"KILL {self.thread.number}")
