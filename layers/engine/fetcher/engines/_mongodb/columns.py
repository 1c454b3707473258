"""Many BSON values of one type as JSON at once: the same text as one by one, at a fraction of the cost.

Work is done by C, a column a call: the driver's decoder where JSON has the type, and else `struct`, `hexlify`, `orjson`
and `replace`. Every text given here is valid UTF-8.
"""

from binascii import hexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, repeat
from operator import add, itemgetter
from struct import Struct, pack, unpack
from types import NoneType
from typing import Any

import bson
import orjson
from bson.errors import InvalidBSON
from bson.int64 import Int64

from fetcher.engines._mongodb.scalars import decimal, double, form, moment
from fetcher.engines._mongodb.values import ARRAY, BINARY, DATE, OBJECT, STRING, value

Column = Sequence[bytes]

NAME = rb"[^\x00]*+\x00"
LENGTH = Struct("<I")
TEXT = rb"[^\x00]*+\x00"
UUID = rb"\x10\x00\x00\x00[\x03\x04]"
NESTED = 3
"""Levels of a nested value that a pattern follows; a deeper one is left to `values`."""

UTC = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
MICROSECOND = timedelta(microseconds=1)
UUID_TEXT = b"........-....-....-....-............,"
UUID_PLACES = [at for at, byte in enumerate(UUID_TEXT) if byte == ord(".")]
LARGEST = 10**14
"""A decimal's digits below it, and one more, are 15 at most."""
LENGTHS = tuple(pack("<I", length) for length in range(4096))
"""How BSON writes the lengths that most texts and lists have."""
PLAIN_TYPES = frozenset({str, int, Int64, float, bool, NoneType})
"""What the driver makes of the types that JSON has too."""


class MisfitError(ValueError):
    """A pattern has cut values at the wrong places: the lengths that BSON keeps say something else."""


Texts = tuple[bytes, bytes]
"""The values of a column as JSON, in one, and what parts them, which is in none of them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one type are found, by a pattern's groups behind the field's name, and written."""

    pattern: bytes
    write: Callable[..., Texts]
    groups: int = 1
    quote: bytes = b""

    def cells(self, cut: Sequence[Column], before: bytes = b"", after: bytes = b"") -> list[bytes]:
        """Write values, each with the constants around it; JSON as it is written here has no line breaks."""
        texts, between = self.write(*cut)
        before, after = before + self.quote, self.quote + after
        return (before + texts.replace(between, after + b"\n" + before) + after).split(b"\n")


def _numbers(code: str) -> Callable[[Column], Texts]:
    return lambda raw: (orjson.dumps(unpack(f"<{len(raw)}{code}", b"".join(raw)))[1:-1], b",")


def _doubles(raw: Column) -> Texts:
    texts, between = _numbers("d")(raw)
    return between.join(map(double, raw)) if b"null" in texts else texts, between


def _booleans(raw: Column) -> Texts:
    return b"".join(raw).replace(b"\0", b"false,").replace(b"\1", b"true,")[:-1], b","


def _nulls(raw: Column) -> Texts:
    return b",".join([b"null"] * len(raw)), b","


def _dates(raw: Column) -> Texts:
    """Write all fractions with six digits, as one more microsecond makes them, and cut the last three off."""
    try:
        moments = _decoded(DATE, raw)
    except InvalidBSON:  # a year that Python's dates do not have
        return b",".join(map(moment, unpack(f"<{len(raw)}q", b"".join(raw)))), b","
    return orjson.dumps([*map(add, moments, repeat(MICROSECOND))], option=UTC)[1:-1].replace(b'001Z"', b'Z"'), b","


def _decoded(kind: int, raw: Column) -> list[Any]:
    """Let the driver decode values of one type, as the elements of an array, whose names mean nothing."""
    start = bytes((kind, 0))
    elements = start + start.join(raw)
    array = pack("<I", len(elements) + 5) + elements + b"\0"
    found: list[Any] = bson.decode(pack("<I", len(array) + 8) + b"\x04a\0" + array + b"\0")["a"]
    return found


def _decimals(raw: Column) -> Texts:
    """Write numbers of one sign and scale as doubles with one digit more, a 1, that is cut off again.

    With 15 digits at most, a double's shortest text has just them, and the 1 keeps zeros at the end.
    """
    halves = unpack(f"<{2 * len(raw)}Q", b"".join(raw))
    found = form(halves[1]) if halves[1::2].count(halves[1]) == len(raw) else None
    if found is None or max(halves[::2]) >= LARGEST:
        return b",".join(map(decimal, raw)), b","
    power, start, end = 10 * found[0], *found[1].split(b"%d", 1)[:1], b'"'
    texts = orjson.dumps([(low * 10 + 1) / power for low in halves[::2]])
    if b"e" in texts:
        return b",".join(map(decimal, raw)), b","
    return start + texts[1:-2].replace(b"1,", end + b"," + start) + end, b","


def _object_ids(raw: Column) -> Texts:
    return hexlify(b"".join(raw), b",", 12), b","


def _uuids(raw: Column) -> Texts:
    """Put each digit into its place, of all texts at once."""
    digits, texts = hexlify(b"".join(raw)), bytearray(UUID_TEXT * len(raw))
    for at, place in enumerate(UUID_PLACES):
        texts[place :: len(UUID_TEXT)] = digits[at :: len(UUID_PLACES)]
    return bytes(texts[:-1]), b","


def _texts(lengths: Column, raw: Column) -> Texts:
    """Write texts as a single one: each ends with a NUL and has no other. Raises `MisfitError`.

    Its escape parts them again, unless a backslash could have made one that is the text's own.
    """
    if _lengths(raw) != (*lengths,):
        raise MisfitError
    joined = b"".join(raw)[:-1].decode()
    if "\\" in joined:
        return orjson.dumps(joined.split("\0"), option=orjson.OPT_INDENT_2)[5:-3], b'",\n  "'
    return orjson.dumps(joined)[1:-1], rb"\u0000"


def _objects(raw: Column) -> Texts:
    _check(raw)
    return _one_by_one(OBJECT, raw)


def _arrays(raw: Column) -> Texts:
    """Write lists of what JSON has too; the indents of the list of them show where each ends.

    Without a NUL in a text, the pattern has seen every element, and so none of a type that the driver takes for text.
    """
    _check(raw)
    try:
        lists = _decoded(ARRAY, raw)
    except InvalidBSON:  # what is wrong is said by the exact way
        return _one_by_one(ARRAY, raw)
    types = {*map(type, chain.from_iterable(lists))}
    texts = orjson.dumps(lists, option=orjson.OPT_INDENT_2) if types <= PLAIN_TYPES else b""
    if not texts or rb"\u0000" in texts or (float in types and b"null" in texts):
        return _one_by_one(ARRAY, raw)
    return texts[4:-2].replace(b"\n    ", b"").replace(b"\n  ]", b"]"), b",\n  "


def _one_by_one(kind: int, raw: Column) -> Texts:
    texts = b"\n".join([value(kind, each, 0)[0] for each in raw])
    texts.decode()
    return texts, b"\n"


def _check(raw: Column) -> None:
    if not all(map(bytes.startswith, raw, _lengths(raw))):
        raise MisfitError


def _lengths(raw: Column) -> tuple[bytes, ...]:
    """Write the length of each as BSON does."""
    lengths = [*map(len, raw)]
    if len(raw) > 1 and max(lengths) < len(LENGTHS):
        found: tuple[bytes, ...] = itemgetter(*lengths)(LENGTHS)
        return found
    return (*map(LENGTH.pack, lengths),)


def _fixed(size: int) -> bytes:
    return rb"\x00(.{%d}+)" % size


def _any_document(levels: int) -> bytes:
    """Match a document or array, whatever its fields, as deep as a pattern may go."""
    sizes = {0x01: 8, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x12: 8, 0x13: 16}
    elements = [rb"\x%02x" % kind + NAME + rb".{%d}+" % size for kind, size in sizes.items()]
    elements += [rb"\x02" + NAME + rb".{4}+" + TEXT, rb"\x05" + NAME + UUID + rb".{16}+"]
    if levels:
        elements.append(rb"[\x03\x04]" + NAME + _any_document(levels - 1))
    return rb".{4}+(?:" + b"|".join(elements) + rb")*+\x00"


ANY = rb"\x00(" + _any_document(NESTED) + b")"

KINDS: Mapping[int, Kind] = {
    0x01: Kind(_fixed(8), _doubles),
    STRING: Kind(rb"\x00(.{4}+)([^\x00]*+\x00)", _texts, groups=2, quote=b'"'),
    OBJECT: Kind(ANY, _objects),
    ARRAY: Kind(ANY, _arrays),
    BINARY: Kind(rb"\x00" + UUID + rb"(.{16}+)", _uuids, quote=b'"'),
    0x07: Kind(_fixed(12), _object_ids, quote=b'"'),
    0x08: Kind(rb"\x00([\x00\x01])", _booleans),
    DATE: Kind(_fixed(8), _dates),
    0x0A: Kind(rb"(\x00)", _nulls),
    0x10: Kind(_fixed(4), _numbers("i")),
    0x12: Kind(_fixed(8), _numbers("q")),
    0x13: Kind(_fixed(16), _decimals),
}
"""By type byte: a first group that is never empty. Other types are rare, or of no size that a pattern could know."""
