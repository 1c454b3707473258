"""Result sets in TDS 7.4: each column as SQL Server sends its type (MS-TDS 2.2.5.4 and 2.2.5.5).

Text of every type travels as nvarchar; datetimeoffset, and what DuckDB alone has, as text.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

LARGE = 0xFFFF
COLLATED = b"\x09\x04\xd0\x00\x34"
LONGEST = 4000
"""Characters of an nvarchar that is not nvarchar(max)."""
FINEST = 7
"""Digits of a second: a tick is a hundred nanoseconds."""

NOTHING, LARGE_NULL, SHORT_NULL = b"\0", b"\xff" * 8, b"\xff" * 2

Kind = tuple[bytes, bytes, Callable[[Any], bytes]]
"""How a type is described, its NULL, and how a value is written."""


def columns(names: Iterable[tuple[str, str]], lengths: Sequence[int | None]) -> tuple[bytes, Sequence[Any]]:
    """Describe columns, by their names and DuckDB's types, and return what writes a value of each.

    A length is that of a text in characters, 0 for any number of them; with None its UTF-16 is sent as bytes.
    """
    head, writers = b"", []
    for (name, stored), length in zip(names, lengths, strict=True):
        kind, null, write = _kind(stored, length)
        short = name[:120].encode("utf-16-le")
        head += struct.pack("<IH", 0, 0x09) + kind + bytes([len(short) // 2]) + short
        writers.append(_written(null, write))
    return struct.pack("<BH", 0x81, len(writers)) + head, writers


def _written(null: bytes, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda value: null if value is None else write(value)


def _kind(stored: str, length: int | None) -> Kind:
    bare, _, digits = stored.rstrip(")").partition("(")
    if bare == "DECIMAL":
        return _numeric(*map(int, digits.split(",")))
    if bare == "BLOB" or length is None:
        return b"\xa5" + struct.pack("<H", LARGE), LARGE_NULL, lambda value: _large(_bytes(value))
    if bare == "VARCHAR" and 0 < length <= LONGEST:
        return b"\xe7" + struct.pack("<H", 2 * length) + COLLATED, SHORT_NULL, _short
    return KINDS.get(
        bare, (b"\xe7" + struct.pack("<H", LARGE) + COLLATED, LARGE_NULL, lambda value: _large(_text(value)))
    )


def _numeric(precision: int, scale: int) -> Kind:
    size = next(size for size, digits in ((4, 9), (8, 19), (12, 28), (16, 38)) if precision <= digits)

    def write(value: Decimal) -> bytes:
        number = int(f"{value:f}".replace(".", ""))
        return bytes([size + 1, number >= 0]) + abs(number).to_bytes(size, "little")

    return bytes([0x6C, size + 1, precision, scale]), NOTHING, write


def _days(value: date) -> bytes:
    return (value.toordinal() - 1).to_bytes(3, "little")


def _ticks(value: time | datetime) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return ((seconds * 1_000_000 + value.microsecond) * 10).to_bytes(5, "little")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else _text(value)


def _text(value: Any) -> bytes:
    return str(value).encode("utf-16-le")


def _short(value: str) -> bytes:
    raw = _text(value)
    return struct.pack("<H", len(raw)) + raw


def _large(raw: bytes) -> bytes:
    body = struct.pack("<I", len(raw)) + raw if raw else b""
    return struct.pack("<Q", len(raw)) + body + b"\0\0\0\0"


INTEGER: Kind = (b"\x26\x08", NOTHING, lambda value: struct.pack("<Bq", 8, value))
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), INTEGER),
    "BOOLEAN": (b"\x68\x01", NOTHING, lambda value: bytes([1, bool(value)])),
    "DOUBLE": (b"\x6d\x08", NOTHING, lambda value: struct.pack("<Bd", 8, value)),
    "FLOAT": (b"\x6d\x04", NOTHING, lambda value: struct.pack("<Bf", 4, value)),
    "DATE": (b"\x28", NOTHING, lambda value: b"\x03" + _days(value)),
    "TIME": (bytes([0x29, FINEST]), NOTHING, lambda value: b"\x05" + _ticks(value)),
    "TIMESTAMP": (bytes([0x2A, FINEST]), NOTHING, lambda value: b"\x08" + _ticks(value) + _days(value)),
    "UUID": (b"\x24\x10", NOTHING, lambda value: b"\x10" + value.bytes_le),
}
