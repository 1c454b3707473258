"""TDS 7.4 as far as the driver and our engine use it: the ends of statements, and the parameters of remote calls."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LARGE = 0xFFFF
PROCEDURES = {10: "sp_executesql", 11: "sp_prepare", 12: "sp_execute", 13: "sp_prepexec", 15: "sp_unprepare"}
DONE, DONE_PROC, DONE_IN_PROC = 0xFD, 0xFE, 0xFF
MORE, FAILED, COUNTED, ATTENTION = 1, 2, 0x10, 0x20


def done(kind: int = DONE, status: int = 0, rows: int = 0) -> bytes:
    """End a statement, a call or a batch."""
    return struct.pack("<BHHQ", kind, status, 0xC1 if status & COUNTED else 0, rows)


def returned(handle: int) -> bytes:
    """Give a prepared statement's handle back, and the call's status."""
    value = b"\xac" + struct.pack("<HB", 0, 0) + b"\x01" + struct.pack("<IH", 0, 0) + b"\x26\x04\x04"
    return b"\x79" + struct.pack("<i", 0) + (value + struct.pack("<i", handle) if handle else b"")


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
