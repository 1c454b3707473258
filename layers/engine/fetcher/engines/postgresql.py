"""PostgreSQL 12 and later, by psycopg: one read-only, repeatable-read snapshot for each session."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import IsolationLevel

from fetcher.engines._names import Schemas
from fetcher.engines._postgresql.catalog import discovered
from fetcher.engines._postgresql.errors import explained, refused
from fetcher.engines._postgresql.reading import Reading
from fetcher.engines._postgresql.tls import tls
from fetcher.engines._postgresql.values import DIALECT
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import FetcherError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "search_path": "pg_catalog,pg_temp",
    "default_transaction_read_only": "on",
    "jit": "off",  # compiling the expression of a wide row takes longer than most reads
}

CHECK_CLIENT = "SELECT pg_catalog.set_config('client_connection_check_interval', '2s', false)"
"""From version 14 a server notices by itself that a client has gone, even while it computes."""

WORKING = """SELECT state = 'active' AND wait_event IS DISTINCT FROM 'ClientWrite'
 FROM pg_catalog.pg_stat_activity WHERE pid = %s"""

LOCKABLE = """SELECT c.relkind IN ('r', 'p', 'v') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s"""

CHECK_CLIENT_SINCE = 140_000
CONNECT_SECONDS = 10.0
CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0

NAMING = Schemas("public")

log = logging.getLogger(__name__)


class PostgreSQLSession:
    """A `Session`: names are always qualified, and values rendered by the server."""

    isolation = "repeatable read"

    def __init__(self, connection: psycopg.Connection, watchdog: Watchdog, schema: str) -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._schema = schema

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the tables and views of these schemas in one query; system schemas are skipped."""
        with self._watchdog.waiting(explained):
            return discovered(self._connection, tuple(scope) or (self._schema,))

    def hold(self, paths: Sequence[tuple[str, ...]]) -> None:
        """Lock against TRUNCATE, ALTER, DROP and DETACH, which a snapshot does not see; then fix a new snapshot.

        LOCK takes no snapshot, so the first query after it begins the one that is read. Only tables and views can be
        locked, and only with the right to read them; a read without it is refused anyway, or is of granted columns.
        """
        with self._watchdog.waiting(explained):
            lockable = [path for path in paths if self._connection.execute(LOCKABLE, path).fetchone() == (True,)]
            self._connection.rollback()
            if lockable:
                names = ", ".join(DIALECT.name(*path) for path in lockable)
                self._connection.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of rendered rows; a read that is left half-way drops the connection, undrained."""
        reading = Reading(self._connection, self._watchdog, query, after)
        try:
            while (page := self._next(reading)) is not None:
                yield page
        finally:
            if not reading.ended:
                self._connection.close()

    def _next(self, reading: Reading) -> Page | None:
        with self._watchdog.waiting(explained):
            return reading.page()

    def cancel(self) -> None:
        """Ask the server over a second connection, then drop the socket whatever it answered."""
        self._watchdog.note("canceled")
        try:
            self._connection.cancel_safe(timeout=CANCEL_SECONDS)
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)
        finally:
            self._watchdog.end("canceled")


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
        probe = _Probe(parameters)
        watchdog = stack.enter_context(Watchdog(seconds, working=probe))
        connection = stack.enter_context(closing(_opened(parameters, watchdog)))
        probe.backend = connection.info.backend_pid
        yield PostgreSQLSession(connection, watchdog, to.schema or NAMING.default)


def _options(seconds: float) -> str:
    milliseconds = str(max(1, int(seconds * 1000)))
    limits = {"statement_timeout": milliseconds, "idle_in_transaction_session_timeout": milliseconds}
    return " ".join(f"-c {name}={value}" for name, value in {**SETTINGS, **limits}.items())


def _opened(parameters: Mapping[str, Any], watchdog: Watchdog) -> psycopg.Connection:
    """Connect, begin the one transaction of the session, and give its socket to the watchdog."""
    with watchdog.waiting(refused):
        connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
    watchdog.guard(connection.fileno())
    try:
        with watchdog.waiting(explained):
            if connection.info.server_version >= CHECK_CLIENT_SINCE:
                with suppress(psycopg.errors.InvalidParameterValue):  # some platforms cannot
                    connection.execute(CHECK_CLIENT)
            connection.autocommit = False
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
    except BaseException:
        connection.close()
        raise
    return connection


class _Probe:
    """Asks over a connection of its own whether the session's backend computes, or waits for us."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.backend: int | None = None
        self._parameters = parameters

    def __call__(self) -> bool:
        if self.backend is None:
            return False
        try:
            with Watchdog(PROBE_SECONDS) as watchdog, closing(_opened(self._parameters, watchdog)) as connection:
                row = connection.execute(WORKING, (self.backend,)).fetchone()
        except (FetcherError, psycopg.Error):
            return False
        return row == (True,)
