"""How a connection begins: the checked address and no other, TLS before any credential, a session pinned to UTC."""

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import oracledb

from fetcher.engines._oracle.errors import explained, refused
from fetcher.engines._oracle.tls import context
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import InvalidRequestError, RefusedError
from fetcher.model import Connection, Secret

CONNECT_SECONDS = 10.0
CLOSE_MILLISECONDS = 2000
PACKET_BYTES = 65_536
"""Asked for; the server may grant less."""
KEEPALIVE_MINUTES = 1
"""With it the kernel finds a dead wire in two minutes, whatever the user may see of the server."""
BREAK_SECONDS = 0.5
"""So long before the deadline the driver asks the server to stop; at the deadline the wire is cut."""
UNSAFE = re.compile(r"[^A-Za-z0-9 ._:-]")
"""What could end its place in the descriptor that the driver writes for the listener."""
DELIMITERS = re.compile(r"""[()=,"'\\\x00-\x1f\x7f]""")
"""What ends a value there, or begins a quoted one; no name of a service or host has them (Oracle Net, syntax rules)."""
LONGEST_NAME = 48
"""Bytes of `MODULE`, by far the shortest of the three names of a session."""

SETTINGS: Mapping[str, str] = {
    "TIME_ZONE": "+00:00",
    "NLS_CALENDAR": "GREGORIAN",
    "NLS_NUMERIC_CHARACTERS": ".,",
    "NLS_DATE_FORMAT": "SYYYY-MM-DD HH24:MI:SS",
    "NLS_TIMESTAMP_FORMAT": "SYYYY-MM-DD HH24:MI:SS.FF9",
    "NLS_TIMESTAMP_TZ_FORMAT": "SYYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM",
    "NLS_DATE_LANGUAGE": "AMERICAN",
    "NLS_SORT": "BINARY",
    "NLS_COMP": "BINARY",
}
SETTLE = "ALTER SESSION SET " + " ".join(f"{name} = '{value}'" for name, value in SETTINGS.items())


@dataclass(frozen=True, slots=True, repr=False)
class Way:
    """Everything that opens another connection to the same server. No `repr`: it holds the password."""

    address: str | None
    application: str
    parameters: Mapping[str, Any]

    @classmethod
    def to(cls, to: Connection, secret: Secret, application: str) -> "Way":
        """Take parts, never a DSN; the driver gets the checked address, the certificate is held against the name."""
        service = to.options.get("serviceName")
        if not service:
            raise InvalidRequestError("an Oracle connection needs `serviceName` in its metadata")
        for what, text in (("serviceName", service), ("host", to.address or to.host)):
            if DELIMITERS.search(text):
                raise InvalidRequestError(f"the {what} of an Oracle connection holds a character that none can have")
        tls = context(to, secret)
        parameters = {
            "user": to.user,
            "password": secret.password,
            "host": to.address or to.host,
            "port": to.port,
            "service_name": service,
            "protocol": "tcp" if tls is None else "tcps",
            "ssl_context": tls,
            "ssl_server_dn_match": False,  # the context has done that, against the host's name
            "retry_count": 0,
            "sdu": PACKET_BYTES,
            "expire_time": KEEPALIVE_MINUTES,
            "program": UNSAFE.sub("?", _named(application)),
            # What the driver would take from this machine is of no concern to the server.
            "machine": "fetcher",
            "osuser": "fetcher",
            "terminal": "fetcher",
        }
        return cls(to.address, _named(application), parameters)


def _named(application: str) -> str:
    return application.encode()[:LONGEST_NAME].decode(errors="ignore")


def opened(way: Way, watchdog: Watchdog) -> oracledb.Connection:
    """Connect and log in, within 10 seconds and the watchdog's time. Raises what the driver raises.

    The driver limits the TCP connection and nothing after it, so another watchdog ends the greeting.
    """
    with Watchdog(min(CONNECT_SECONDS, watchdog.left())) as patience, _noticed(way.address, watchdog, patience):
        seconds = max(0.001, patience.left())
        connection = oracledb.connect(**way.parameters, tcp_connect_timeout=seconds)
    connection.module = connection.client_identifier = way.application
    connection.action = "read"
    return connection


def prepared(way: Way, watchdog: Watchdog) -> oracledb.Connection:
    """Open the session's connection and pin every setting that shapes a value or a comparison."""
    with watchdog.waiting(refused):
        connection = opened(way, watchdog)
    try:
        with watchdog.waiting(explained):
            bounded(connection, watchdog)
            with connection.cursor() as cursor:
                cursor.execute(SETTLE)
    except BaseException:
        closed(connection)
        raise
    return connection


def bounded(connection: oracledb.Connection, watchdog: Watchdog) -> None:
    """Let the driver break off, at the server too, a call that would outlive the session."""
    connection.call_timeout = max(1, int((watchdog.left() - BREAK_SECONDS) * 1000))


def closed(connection: oracledb.Connection) -> None:
    """Close without waiting for long; a connection that has gone already stays so."""
    with suppress(Exception):
        connection.call_timeout = CLOSE_MILLISECONDS
    with suppress(Exception):
        connection.close()


_here = threading.local()
"""Where each thread says, while it connects, what is to happen with the sockets that it makes."""


def _on_connect(event: str, arguments: tuple[Any, ...]) -> None:
    """See every socket before it connects. The driver shows its own to nobody, and follows a listener's redirection."""
    if event == "socket.connect" and (notice := getattr(_here, "notice", None)) is not None:
        notice(*arguments)


sys.addaudithook(_on_connect)


@contextmanager
def _noticed(address: str | None, *watchdogs: Watchdog) -> Iterator[None]:
    """Give the driver's socket to the watchdogs, and let it connect to the checked address alone.

    The driver forgets to close the sockets of its failures, and those that a redirection takes the place of.
    """
    wires: list[socket.socket] = []

    def notice(wire: socket.socket, target: Any) -> None:
        abandoned = [*wires]
        wires.append(wire)
        _close(abandoned)
        if address is not None and target[0] != address:
            raise RefusedError("Oracle's listener sends its clients to another address; connect to that one")
        for each in watchdogs:
            each.guard(wire.fileno())

    previous: Callable[..., None] | None = getattr(_here, "notice", None)
    _here.notice = notice
    try:
        yield
    except BaseException:
        _close(wires)
        raise
    finally:
        _here.notice = previous


def _close(wires: Iterable[socket.socket]) -> None:
    for wire in wires:
        wire.close()
