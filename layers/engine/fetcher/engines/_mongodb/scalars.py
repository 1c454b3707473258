"""BSON values of a fixed size as JSON (`design.md` §7.2), from their bytes and without a Python object per value.

Dates outside the years 0 to 9999 have the form of ECMAScript and of MongoDB's own shell, `+012026-01-31T…Z`.
"""

from binascii import hexlify
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from math import isnan
from struct import Struct

import orjson
from bson import Decimal128

Render = Callable[[bytes], bytes]

INT32 = Struct("<i").unpack
INT64 = Struct("<q").unpack
DOUBLE = Struct("<d").unpack
HALVES = Struct("<QQ").unpack
TIMESTAMP = Struct("<II").unpack

DAY_MS = 86_400_000
FIRST_DAY = date(1970, 1, 1).toordinal() - 1
CYCLE_DAYS, CYCLE_YEARS = 146_097, 400
"""The Gregorian calendar repeats itself."""
MINUTES = tuple(b"%02d:%02d" % divmod(minute, 60) for minute in range(24 * 60))

BIAS = 6176
COMBINED = 3 << 61
"""Set for NaN, Infinity and coefficients that no Decimal128 has."""
COEFFICIENT = (1 << 49) - 1
PLAIN_SCALE = 6
"""Up to this scale the text of a Decimal128 never has an exponent."""


def _int32(raw: bytes) -> bytes:
    return b"%d" % INT32(raw)[0]


def _int64(raw: bytes) -> bytes:
    return b"%d" % INT64(raw)[0]


def double(raw: bytes) -> bytes:
    """Write the shortest digits that give the number again."""
    (number,) = DOUBLE(raw)
    text = orjson.dumps(number)
    return _named(number) if text == b"null" else text


def _named(number: float) -> bytes:
    """JSON has no number for these; they are strings, as everywhere."""
    if isnan(number):
        return b'"NaN"'
    return b'"Infinity"' if number > 0 else b'"-Infinity"'


def _object_id(raw: bytes) -> bytes:
    return b'"%b"' % hexlify(raw)


def boolean(raw: bytes) -> bytes:
    """Write true or false; a byte that is neither raises `KeyError`."""
    return {b"\0": b"false", b"\1": b"true"}[raw]


def _date(raw: bytes) -> bytes:
    return moment(INT64(raw)[0])


def moment(milliseconds: int) -> bytes:
    """Write an instant, counted from 1970, in UTC."""
    days, rest = divmod(milliseconds, DAY_MS)
    minute, rest = divmod(rest, 60_000)
    return b'"%bT%b:%02d.%03dZ"' % (_day(days), MINUTES[minute], *divmod(rest, 1000))


@lru_cache(4096)
def _day(days: int) -> bytes:
    """Write a day, counted from 1970, of any year."""
    cycles, within = divmod(days + FIRST_DAY, CYCLE_DAYS)
    day = date.fromordinal(within + 1)
    year = day.year + cycles * CYCLE_YEARS
    written = b"%04d" % year if 0 <= year <= 9999 else b"%+07d" % year
    return b"%b-%02d-%02d" % (written, day.month, day.day)


def decimal(raw: bytes) -> bytes:
    """Write the digits as they are stored, zeros at the end included."""
    low, high = HALVES(raw)
    if found := form(high):
        power, template = found
        return template % divmod(int(low), power)
    return b'"%b"' % str(Decimal128.from_bid(raw)).encode()


@lru_cache(256)
def form(high: int) -> tuple[int, bytes] | None:
    """Choose how to write numbers of one sign and scale, if their digits are in the lower half alone."""
    scale = BIAS - (high >> 49 & 0x3FFF)
    if high & COMBINED == COMBINED or high & COEFFICIENT or not 0 < scale <= PLAIN_SCALE:
        return None
    return 10**scale, b'"%b%%d.%%0%dd"' % (b"-" if high >> 63 else b"", scale)


def _timestamp(raw: bytes) -> bytes:
    increment, seconds = TIMESTAMP(raw)
    return b'{"$timestamp":{"t":%d,"i":%d}}' % (seconds, increment)


def _constant(text: bytes) -> Render:
    return lambda _: text


FIXED: Mapping[int, tuple[int, Render]] = {
    0x01: (8, double),
    0x06: (0, _constant(b'{"$undefined":true}')),
    0x07: (12, _object_id),
    0x08: (1, boolean),
    0x09: (8, _date),
    0x0A: (0, _constant(b"null")),
    0x10: (4, _int32),
    0x11: (8, _timestamp),
    0x12: (8, _int64),
    0x13: (16, decimal),
    0x7F: (0, _constant(b'{"$maxKey":1}')),
    0xFF: (0, _constant(b'{"$minKey":1}')),
}
"""By type byte: the size of a value, and how it is written."""
