"""How a connection begins: the checked address, TLS before any credential, and a session that renders exactly."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, TypeAlias

import pymysql

from fetcher.engines._mysql.errors import explained, number, refused
from fetcher.engines._mysql.tls import contexts
from fetcher.engines._tls import no_socket_left
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Connection, Secret

Opened: TypeAlias = "pymysql.Connection[Any]"
"""The driver's connection, as this package sets it up: every value that comes out of it is bytes."""

CONNECT_SECONDS = 10.0
NO_TLS_OFFERED = 2026

MODE = "NO_BACKSLASH_ESCAPES"
"""Zero dates compare, CHAR is not padded, literals are standard SQL."""

SETTINGS: Mapping[str, str] = {
    "sql_mode": f"'{MODE}'",
    "time_zone": "'+00:00'",
    "sql_auto_is_null": "0",
    "sql_big_selects": "1",
    "sql_buffer_result": "0",
    "sql_select_limit": "18446744073709551615",  # a lower one of the server would cut tables short, in silence
    "max_sort_length": "65536",  # more than any key an index can hold: a sort compares no less than the index does
}

SOMEWHERE = {
    "max_execution_time": "{0}",
    "max_statement_time": "{0} / 1000",
    "system_versioning_asof": "DEFAULT",  # now, whatever the server's own value is
}
"""Variables that only MySQL or only MariaDB has, and their values for a number of milliseconds."""
WHICH = f"SHOW VARIABLES WHERE Variable_name IN {tuple(SOMEWHERE)}"
REPEATABLE_READ = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"


@dataclass(frozen=True, slots=True, repr=False)
class Way:
    """Everything that opens another connection to the same server. No `repr`: it holds the password."""

    address: tuple[str, int]
    tls: tuple[SSLContext | None, ...]
    parameters: Mapping[str, Any]

    @classmethod
    def to(cls, to: Connection, secret: Secret, application: str) -> "Way":
        """Take parts, never a DSN; the host's name is what certificates are checked against."""
        parameters = {
            "host": to.host,
            "port": to.port,
            "user": to.user,
            "password": secret.password.encode(),  # text would be sent as latin1
            "database": to.database,
            "program_name": application,
            "charset": "utf8mb4",
            "use_unicode": False,
            "conv": {},
            "autocommit": None,
        }
        return cls((to.address or to.host, to.port), contexts(to, secret), parameters)


def opened(way: Way, watchdog: Watchdog) -> Opened:
    """Connect and log in, within 10 seconds and the watchdog's time. Raises what the driver raises."""
    *preferred, last = way.tls
    for context in preferred:
        try:
            return _greeted(way, context, watchdog)
        except pymysql.OperationalError as error:
            if number(error) != NO_TLS_OFFERED:
                raise
    return _greeted(way, last, watchdog)


def _greeted(way: Way, context: SSLContext | None, watchdog: Watchdog) -> Opened:
    """The driver has no limit for the handshake as a whole, so another watchdog ends it."""
    # Without one of these two the driver would try TLS by itself, and go on in clear text.
    tls = {"ssl_disabled": True} if context is None else {"ssl": context}
    connection: Opened = pymysql.Connection(**way.parameters, **tls, defer_connect=True)
    with Watchdog(min(CONNECT_SECONDS, watchdog.left())) as patience:
        wire = socket.create_connection(way.address, timeout=max(0.001, patience.left()))
        for each in (watchdog, patience):
            each.guard(wire.fileno())
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with no_socket_left():
            connection.connect(wire)
    return connection


def closed(connection: Opened) -> None:
    """Close without waiting for anything; a connection that is closed already stays so."""
    if connection.open:
        connection.close()


def thread(connection: Opened) -> int:
    """Return the server's number for a connection."""
    return int(connection.thread_id())  # type: ignore[no-untyped-call]


def prepared(way: Way, watchdog: Watchdog) -> Opened:
    """Open the session's connection and pin every setting that shapes a value or a wait."""
    with watchdog.waiting(refused):
        connection = opened(way, watchdog)
    try:
        with watchdog.waiting(explained):
            _settle(connection, watchdog.left())
    except BaseException:
        closed(connection)
        raise
    return connection


def _settle(connection: Opened, seconds: float) -> None:
    patience = dict.fromkeys(("net_write_timeout", "wait_timeout", "lock_wait_timeout"), max(60, round(seconds)))
    with connection.cursor() as cursor:
        cursor.execute(WHICH)
        known = [bytes(row[0]).decode() for row in cursor]
        limits = {name: SOMEWHERE[name].format(max(1, int(seconds * 1000))) for name in known}
        assigned = {**SETTINGS, **patience, **limits}
        cursor.execute("SET SESSION " + ", ".join(f"{name} = {value}" for name, value in assigned.items()))
        cursor.execute(REPEATABLE_READ)
