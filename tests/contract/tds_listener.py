"""A listener that speaks as much of TDS as it takes to read a login of the real driver, in clear, and to refuse it.

Layouts: MS-TDS 2.2.3 (packet), 2.2.6.4 (LOGIN7), 2.2.6.5 (PRELOGIN), 2.2.7.10 (ERROR).
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import pack, unpack_from

from tests.contract.serving import served

REPLY, LAST, HEADER = 4, 1, 8
VERSION, ENCRYPTION, END, NOT_SUPPORTED = 0, 1, 0xFF, 2
FIRST_FIELD = 36
FIELDS = ("host", "user", "password", "application", "server", "extension", "library", "language", "database")
"""Of each: where it begins, in bytes of the message, and how many UTF-16 units it has."""
LOGIN_FAILED = 18456


@dataclass(frozen=True, slots=True)
class Login:
    """What a client has said of itself."""

    user: str
    password: str
    database: str
    application: str
    server: str


@contextmanager
def logins() -> Iterator[tuple[int, list[Login]]]:
    """Listen on a free port of 127.0.0.1; every login goes to the list, and is refused as a wrong password is."""
    seen: list[Login] = []

    def answer(wire: socket.socket) -> None:
        if not _message(wire):
            return
        offsets = pack(">BHHBHHB", VERSION, 11, 6, ENCRYPTION, 17, 1, END)
        _send(wire, offsets + bytes([16, 0, 0, 0, 0, 0, NOT_SUPPORTED]))
        seen.append(_login(_message(wire)))
        _send(wire, _refusal())

    with served(answer) as port:
        yield port, seen


def _message(wire: socket.socket) -> bytes:
    """Join the packets of one message; nothing when the client has gone."""
    body, status = b"", 0
    while not status & LAST:
        head = wire.recv(HEADER, socket.MSG_WAITALL)
        if not head:
            return b""
        status, length = unpack_from(">xBH", head)
        body += wire.recv(length - HEADER, socket.MSG_WAITALL)
    return body


def _login(message: bytes) -> Login:
    fields = {}
    for at, name in enumerate(FIELDS):
        start, units = unpack_from("<HH", message, FIRST_FIELD + 4 * at)
        fields[name] = message[start : start + 2 * units]
    fields["password"] = bytes(_swapped(byte ^ 0xA5) for byte in fields["password"])
    return Login(**{name: fields[name].decode("utf-16-le") for name in Login.__dataclass_fields__})


def _swapped(byte: int) -> int:
    """Exchange the upper and the lower half."""
    return byte >> 4 | (byte & 0x0F) << 4


def _send(wire: socket.socket, body: bytes) -> None:
    wire.sendall(pack(">BBHHBB", REPLY, LAST, HEADER + len(body), 0, 1, 0) + body)


def _refusal() -> bytes:
    text = "Login failed.".encode("utf-16-le")
    error = pack("<IBBH", LOGIN_FAILED, 1, 14, len(text) // 2) + text + b"\0\0" + pack("<I", 1)
    return b"\xaa" + pack("<H", len(error)) + error + pack("<BHHQ", 0xFD, 2, 0, 0)
