"""TDS 7.4 as far as the driver and our engine use it: result sets, and the parameters of remote calls."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

LARGE = 0xFFFF
COLLATED = b"\x09\x04\xd0\x00\x34"
PROCEDURES = {10: "sp_executesql", 11: "sp_prepare", 12: "sp_execute", 13: "sp_prepexec", 15: "sp_unprepare"}
DONE, DONE_PROC, DONE_IN_PROC = 0xFD, 0xFE, 0xFF
MORE, FAILED, COUNTED, ATTENTION = 1, 2, 0x10, 0x20

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}


def done(kind: int = DONE, status: int = 0, rows: int = 0) -> bytes:
    """End a statement, a call or a batch."""
    return struct.pack("<BHHQ", kind, status, 0xC1 if status & COUNTED else 0, rows)


def returned(handle: int) -> bytes:
    """Give a prepared statement's handle back, and the call's status."""
    value = b"\xac" + struct.pack("<HB", 0, 0) + b"\x01" + struct.pack("<IH", 0, 0) + b"\x26\x04\x04"
    return b"\x79" + struct.pack("<i", 0) + (value + struct.pack("<i", handle) if handle else b"")


def columns(description: Sequence[tuple[Any, ...]]) -> tuple[bytes, Sequence[Callable[[Any], bytes]]]:
    """Describe a result's columns: whole numbers, bits, and text for everything else."""
    head = struct.pack("<BH", 0x81, len(description))
    writers: list[Callable[[Any], bytes]] = []
    for name, stored, *_ in description:
        kind, writer = _column(str(stored))
        short = name[:120]
        head += struct.pack("<IH", 0, 0x09) + kind + bytes([len(short.encode("utf-16-le")) // 2])
        head += short.encode("utf-16-le")
        writers.append(writer)
    return head, writers


def _column(stored: str) -> tuple[bytes, Callable[[Any], bytes]]:
    if stored in INTEGERS:
        return b"\x26\x08", _integer
    if stored == "BOOLEAN":
        return b"\x68\x01", _bit
    return b"\xe7" + struct.pack("<H", LARGE) + COLLATED, _text


def _integer(value: Any) -> bytes:
    return b"\0" if value is None else struct.pack("<Bq", 8, value)


def _bit(value: Any) -> bytes:
    return b"\0" if value is None else bytes([1, bool(value)])


def _text(value: Any) -> bytes:
    if value is None:
        return b"\xff" * 8
    raw = str(value).encode("utf-16-le")
    body = struct.pack("<I", len(raw)) + raw if raw else b""
    return struct.pack("<Q", len(raw)) + body + b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class Call:
    """One remote call: its procedure, and its parameters by name and value."""

    procedure: str
    parameters: Sequence[tuple[str, Any]]


class Reader:
    """Reads the calls of one message."""

    def __init__(self, payload: bytes, at: int) -> None:
        self._payload, self._at = payload, at

    def calls(self) -> list[Call]:
        """Read every call."""
        found = []
        while self._at < len(self._payload):
            found.append(self._call())
            self._at += 1
        return found

    def _take(self, size: int) -> bytes:
        taken = self._payload[self._at : self._at + size]
        self._at += size
        return bytes(taken)

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size), "little", signed=signed)

    def _call(self) -> Call:
        length = self._number(2)
        name = PROCEDURES.get(self._number(2), "?") if length == LARGE else self._take(2 * length).decode("utf-16-le")
        self._take(2)
        parameters = []
        while self._at < len(self._payload) and self._payload[self._at] not in {0x80, 0xFF}:
            named = self._take(2 * self._number(1)).decode("utf-16-le")
            self._take(1)
            parameters.append((named, self._value()))
        return Call(name.lower(), parameters)

    def _value(self) -> Any:
        match kind := self._number(1):
            case 0x26 | 0x68:
                self._take(1)
                size = self._number(1)
                return self._number(size, signed=True) if size else None
            case 0xE7 | 0xEF:
                size = self._number(2)
                self._take(5)
                raw = self._chunks() if size == LARGE else self._short()
                return None if raw is None else raw.decode("utf-16-le", "surrogatepass")
            case 0x63:
                self._take(9)
                return self._take(self._number(4)).decode("utf-16-le", "surrogatepass")
            case _:
                raise ValueError(f"a parameter of type {kind:#x}")

    def _short(self) -> bytes | None:
        size = self._number(2)
        return None if size == LARGE else self._take(size)

    def _chunks(self) -> bytes | None:
        if self._number(8) == 2**64 - 1:
            return None
        whole = b""
        while size := self._number(4):
            whole += self._take(size)
        return whole
