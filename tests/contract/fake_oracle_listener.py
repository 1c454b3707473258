"""A listener that speaks as much of TNS as it takes to turn a client away, for the real driver."""

import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from struct import pack

from tests.contract.serving import served

REFUSE, REDIRECT, DATA = 4, 5, 6

Answer = Callable[[socket.socket], None]


def refusing(number: int) -> Answer:
    """Refuse the service with this ORA number."""
    data = f"(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR={number})(ERROR_STACK=(ERROR=(CODE={number})(EMFI=4))))".encode()
    return _answering(_packet(REFUSE, pack(">BBH", 0, 0, len(data)) + data))


def redirecting(host: str, port: int) -> Answer:
    """Send the client to another address."""
    data = f"(ADDRESS=(PROTOCOL=tcp)(HOST={host})(PORT={port}))\0(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=x)))".encode()
    return _answering(_packet(REDIRECT, pack(">H", len(data))) + _packet(DATA, b"\0\0" + data))


def silent(wire: socket.socket) -> None:
    """Take everything and say nothing, until the client goes."""
    while wire.recv(65536):
        pass


def hanging_up(wire: socket.socket) -> None:
    """Close after the client's first words."""
    wire.recv(65536)


def _packet(kind: int, body: bytes) -> bytes:
    return pack(">HHBBH", 8 + len(body), 0, kind, 0, 0) + body


def _answering(packets: bytes) -> Answer:
    def answer(wire: socket.socket) -> None:
        wire.recv(65536)
        wire.sendall(packets)
        silent(wire)

    return answer


def listening(answer: Answer, tls: ssl.SSLContext | None = None) -> AbstractContextManager[int]:
    """Answer every client on a free port of 127.0.0.1, behind TLS if there is a context."""

    def serve(wire: socket.socket) -> None:
        with tls.wrap_socket(wire, server_side=True) if tls else wire as spoken:
            answer(spoken)

    return served(serve)
