"""A listener that speaks as much of TNS as it takes to turn a client away, for the real driver."""

import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from struct import pack, unpack_from
from typing import BinaryIO

from tests.contract.serving import served

CONNECT, REFUSE, REDIRECT, DATA = 1, 4, 5, 6
HEADER, DATA_FLAGS, CONNECT_DATA = 8, 2, 24

Answer = Callable[[socket.socket], None]


def refusing(number: int, heard: list[bytes] | None = None) -> Answer:
    """Refuse the service with this ORA number, and keep what was asked for."""
    data = f"(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR={number})(ERROR_STACK=(ERROR=(CODE={number})(EMFI=4))))".encode()
    return _answering(_packet(REFUSE, pack(">BBH", 0, 0, len(data)) + data), heard)


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


def _described(words: BinaryIO) -> bytes:
    """Read what a client connects to: a text at the end of its first packet, or, if it is longer, in a second one."""
    head = words.read(HEADER)
    if head[2:5] != bytes([0, 0, CONNECT]):  # another protocol's greeting, or nobody
        return head
    (length,) = unpack_from(">H", head)
    body = head + words.read(length - HEADER)
    size, at = unpack_from(">HH", body, CONNECT_DATA)
    return body[at:] or words.read(HEADER + DATA_FLAGS + size)[HEADER + DATA_FLAGS :]


def _answering(packets: bytes, heard: list[bytes] | None = None) -> Answer:
    def answer(wire: socket.socket) -> None:
        with wire.makefile("rb") as words:
            described = _described(words)
        if heard is not None:
            heard.append(described)
        wire.sendall(packets)
        silent(wire)

    return answer


def listening(answer: Answer, tls: ssl.SSLContext | None = None) -> AbstractContextManager[int]:
    """Answer every client on a free port of 127.0.0.1, behind TLS if there is a context."""

    def serve(wire: socket.socket) -> None:
        with tls.wrap_socket(wire, server_side=True) if tls else wire as spoken:
            answer(spoken)

    return served(serve)
