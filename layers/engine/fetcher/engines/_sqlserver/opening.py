"""How a connection begins: one bounded login, its socket given to the watchdog, and a session that renders exactly."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from fetcher.core.pem import check
from fetcher.engines._sqlserver.address import connection_string
from fetcher.engines._sqlserver.driver import driver
from fetcher.engines._sqlserver.errors import explained, refused
from fetcher.engines._sqlserver.sockets import finding
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Connection, Secret

CONNECT_SECONDS = 10.0
CA_FILE = "SSL_CERT_FILE"

SETTINGS = """
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF; SET NOCOUNT ON; SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF;
SET LANGUAGE us_english; SET DATEFORMAT ymd; SET DATEFIRST 7; SET TEXTSIZE 2147483647; SET ROWCOUNT 0;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
"""
SNAPSHOT_STATE = "SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()"
NUMBER = "SELECT @@SPID"
ALLOWED = 1


@dataclass(frozen=True, slots=True, repr=False)
class Way:
    """Everything that opens another connection to the same server. No `repr`: it holds the password."""

    text: str
    address: tuple[str, int]
    authority: str | None

    @classmethod
    def to(cls, to: Connection, secret: Secret, application: str) -> "Way":
        """Take parts, never a string of the caller's."""
        check(secret)
        return cls(connection_string(to, secret, application), (to.address or to.host, to.port), secret.tls_ca)


class Wire:
    """A duplicate of a connection's socket, if it could be found."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def take(self, descriptor: int) -> None:
        """Keep a duplicate, in place of one of an earlier attempt."""
        self.close()
        self._socket = socket.socket(fileno=os.dup(descriptor))

    def drop(self) -> None:
        """Shut it down: the driver would take minutes to drain it, or to notice that it is dead."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the duplicate back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@dataclass(slots=True)
class Opened:
    """A connection with its wire, and the server's number for its session."""

    connection: Any
    wire: Wire
    number: int = 0

    def value(self, sql: str) -> int:
        """Ask for one number."""
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def close(self) -> None:
        """Close without waiting for anything."""
        self.wire.drop()
        with suppress(Exception):
            self.connection.close()
        self.wire.close()


def opened(way: Way, watchdog: Watchdog) -> Opened:
    """Connect and log in, within 10 seconds and the watchdog's time. Raises what the driver raises."""
    pyodbc = driver()
    wire = Wire()
    with Watchdog(min(CONNECT_SECONDS, watchdog.left())) as patience:
        # A refused port would be tried again and again until the time for the login is over.
        socket.create_connection(way.address, timeout=max(0.001, patience.left())).close()
        seconds = max(1, round(patience.left()))
        takers = (watchdog.guard, patience.guard, wire.take)
        try:
            with finding(way.address[1], takers), _trusting(way.authority):
                connection = pyodbc.connect(way.text, autocommit=True, timeout=seconds)
        except BaseException:
            wire.close()
            raise
    for kind in (pyodbc.SQL_WVARCHAR, pyodbc.SQL_WLONGVARCHAR):
        connection.add_output_converter(kind, bytes)  # UTF-16 as it came: a page is decoded at once
    return Opened(connection, wire)


def prepared(way: Way, watchdog: Watchdog) -> Opened:
    """Open the session's connection and pin every setting that shapes a value."""
    with watchdog.waiting(refused):
        session = opened(way, watchdog)
    try:
        with watchdog.waiting(explained):
            session.connection.timeout = max(1, round(watchdog.left())) + 1  # the watchdog comes first
            session.connection.execute(SETTINGS)
            session.number = session.value(NUMBER)
    except BaseException:
        session.close()
        raise
    return session


def has_snapshots(session: Opened) -> bool:
    """Say whether the database lets a transaction see one moment from its first read on."""
    return session.value(SNAPSHOT_STATE) == ALLOWED


@contextmanager
def _trusting(authority: str | None) -> Iterator[None]:
    """Let the driver's OpenSSL trust this authority as well; it reads the variable at each connect, one at a time."""
    if not authority:
        yield
        return
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".pem"))
        file.write(authority)
        file.flush()
        before = os.environ.get(CA_FILE)
        os.environ[CA_FILE] = file.name
        stack.callback(_restore, before)
        yield


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(CA_FILE, None)
    else:
        os.environ[CA_FILE] = before
