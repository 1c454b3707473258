"""PostgreSQL 12 and later, by psycopg: one read-only, repeatable-read snapshot for each session."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from traceback import clear_frames
from typing import Any, LiteralString

import psycopg
from psycopg import IsolationLevel

from fetcher.engines._names import Schemas
from fetcher.engines._postgresql.catalog import discovered
from fetcher.engines._postgresql.errors import explained, refused
from fetcher.engines._postgresql.reading import Reading
from fetcher.engines._postgresql.tls import tls
from fetcher.engines._postgresql.values import DIALECT
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError, UnavailableError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",  # types are known by their names as they are
    "array_nulls": "on",  # off, a NULL in an array's text is the text "NULL"
    "gin_fuzzy_search_limit": "0",  # any other lets a GIN index find some of the rows, and say nothing
    "search_path": "pg_catalog,pg_temp",
    "default_transaction_read_only": "on",
    "synchronize_seqscans": "off",  # on, a scan begins where another one is: the same rows in another order
    "row_security": "off",  # a policy that would hide rows is an error: a read is complete, or there is none
    "jit": "off",  # compiling the expression of a wide row takes longer than most reads
}

SEND_LIMIT = "SELECT pg_catalog.set_config('tcp_user_timeout', %s, false)"
"""What bounds a backend that waits to send, which no statement timeout does: the kernel gives the connection up."""

CHECK_CLIENT = "SELECT pg_catalog.set_config('client_connection_check_interval', '2s', false)"
"""From version 14 a server notices by itself that a client has gone, even while it computes."""

WORKING = """SELECT state = 'active' AND wait_event IS DISTINCT FROM 'ClientWrite'
 FROM pg_catalog.pg_stat_activity WHERE pid = %s"""

END = """SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
 WHERE pid = %s AND application_name = pg_catalog.current_setting('application_name')"""
"""A backend that waits to send feels no cancel and no missing client. Its number may be another's a moment later."""

LOCKABLE = """SELECT c.relkind IN ('r', 'p', 'v') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s"""

HELD = "SAVEPOINT held", "ROLLBACK TO held"
REWRITTEN = """SELECT FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
 WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND (c.oid IS NULL
   OR c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_catalog.pg_relation_filenode(c.oid))"""
"""The row is of the snapshot, lock and function tell of now: they differ when a table was emptied or replaced since.
What is locked is the table that was asked, the partitions of one, or whatever a view reads."""
REPLACED = "a table was emptied or replaced in this moment; try later"

CHECK_CLIENT_SINCE = 140_000
CONNECT_SECONDS = 10.0
CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0

NAMING = Schemas("public")

log = logging.getLogger(__name__)


class PostgreSQLSession:
    """A `Session`: names are always qualified, and values rendered by the server."""

    isolation = "repeatable read"

    def __init__(self, connection: psycopg.Connection, watchdog: Watchdog, schema: str, other: "_Other") -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._other = other
        self._schema = schema
        self._unheld: set[tuple[str, ...]] = set()

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of these schemas in one query; system schemas are skipped."""
        with self._watchdog.waiting(explained):
            return discovered(self._connection, tuple(scope) or (self._schema,))

    def hold(self, paths: Sequence[tuple[str, ...]]) -> None:
        """Lock against TRUNCATE, ALTER, DROP and DETACH, which a snapshot does not see; then fix a new snapshot.

        LOCK takes no snapshot, so the first query after it begins the one that is read. Only tables and views can be
        locked so, and only with the right to read all of them. The others are locked by a query, which begins the
        snapshot first: what was emptied or replaced in between is unavailable.
        """
        self._unheld.clear()
        with self._watchdog.waiting(explained):
            lockable = [path for path in paths if self._connection.execute(LOCKABLE, path).fetchone() == (True,)]
            self._connection.rollback()
            if lockable:
                names = ", ".join(DIALECT.name(*path) for path in lockable)
                self._connection.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
            for path in paths:
                if path not in lockable:
                    self._hold_by_query(path)

    def _hold_by_query(self, path: tuple[str, ...]) -> None:
        """What cannot be asked at all is refused by its read, which says why; what is not had in time is not held."""
        begin, undo = HELD
        self._connection.execute(begin.encode())
        try:
            self._asked(path)
        except psycopg.Error as error:
            if not isinstance(explained(error), RefusedError | InvalidRequestError):
                raise
            self._connection.execute(undo.encode())
            self._unheld.add(path)
            return
        if self._connection.execute(REWRITTEN).fetchone() is not None:
            raise UnavailableError(REPLACED)

    def _asked(self, path: tuple[str, ...]) -> None:
        self._connection.execute(f"SELECT FROM {DIALECT.name(*path)} LIMIT 0".encode())

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rendered rows; a read that is left half-way drops the connection, undrained."""
        if query.path in self._unheld:
            self._refuse(query.path)
        reading = Reading(self._connection, self._watchdog, query, after)
        try:
            while (page := self._next(reading)) is not None:
                yield page
        finally:
            if not reading.ended:
                self._connection.close()

    def _refuse(self, path: tuple[str, ...]) -> None:
        """Let the server say why a table was not held; if it says nothing now, another one has come behind us."""
        with self._watchdog.waiting(explained):
            self._asked(path)
            raise UnavailableError(REPLACED)

    def _next(self, reading: Reading) -> Page | None:
        with self._watchdog.waiting(explained):
            return reading.page()

    def cancel(self) -> None:
        """Ask the server, which needs no login, then drop the socket and end what is left whatever it answered."""
        self._watchdog.note("canceled")
        try:
            self._connection.cancel_safe(timeout=CANCEL_SECONDS)
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)
        self._watchdog.end("canceled")
        try:
            self._other.end()
        except Exception:
            log.debug("the backend could not be ended", exc_info=True)


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[PostgreSQLSession]:
    """Open a session from parts: a DSN that does not parse would come back in the error, password and all."""
    with ExitStack() as stack:
        parameters = {
            "host": to.host,
            "hostaddr": to.address,
            "port": to.port,
            "dbname": to.database,
            "user": to.user,
            "password": secret.password,
            "connect_timeout": max(1, round(min(CONNECT_SECONDS, seconds))),
            "application_name": application,
            "client_encoding": "UTF8",
            "gssencmode": "disable",
            "options": _options(seconds),
            **tls(to, secret, stack),
        }
        other = _Other(parameters)
        watchdog = stack.enter_context(Watchdog(seconds, working=other.working, abandon=other.end))
        connection = stack.enter_context(closing(_opened(parameters, watchdog)))
        other.backend = connection.info.backend_pid
        yield PostgreSQLSession(connection, watchdog, to.schema or NAMING.default, other)


def _options(seconds: float) -> str:
    milliseconds = _milliseconds(seconds)
    limits = {"statement_timeout": milliseconds, "idle_in_transaction_session_timeout": milliseconds}
    return " ".join(f"-c {name}={value}" for name, value in {**SETTINGS, **limits}.items())


def _milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))


def _opened(parameters: Mapping[str, Any], watchdog: Watchdog) -> psycopg.Connection:
    """Connect, begin the one transaction of the session, and give its socket to the watchdog."""
    names = parameters["user"], parameters["dbname"]
    with watchdog.waiting(lambda error: refused(error, names), blind=True):
        try:
            connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            clear_frames(error.__traceback__)  # the driver's hold a socket that timed out, in a cycle
            raise
    watchdog.guard(connection.fileno())
    try:
        with watchdog.waiting(explained):
            if connection.info.server_version >= CHECK_CLIENT_SINCE:
                with suppress(psycopg.errors.InvalidParameterValue):  # some platforms cannot
                    connection.execute(CHECK_CLIENT)
            connection.execute(SEND_LIMIT, (_milliseconds(watchdog.left()),))
            connection.autocommit = False
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
    except BaseException:
        connection.close()
        raise
    return connection


class _Other:
    """Asks and tells the server about the session's backend, over a connection of its own."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.backend: int | None = None
        self._parameters = parameters

    def working(self) -> bool:
        """Whether the backend computes, and does not wait for us."""
        try:
            return self._asked(WORKING, PROBE_SECONDS)
        except (FetcherError, psycopg.Error):
            return False

    def end(self) -> None:
        """End the backend. Raises what the connection raises."""
        self._asked(END, CANCEL_SECONDS)

    def _asked(self, sql: LiteralString, seconds: float) -> bool:
        if self.backend is None:
            return False
        with Watchdog(seconds) as watchdog, closing(_opened(self._parameters, watchdog)) as connection:
            return connection.execute(sql, (self.backend,)).fetchone() == (True,)
