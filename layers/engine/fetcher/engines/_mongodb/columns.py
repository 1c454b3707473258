"""Many BSON values of one type as JSON at once: the same text as one by one, at a fraction of the cost."""

import re
from binascii import hexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from struct import pack, unpack

import orjson

from fetcher.engines._mongodb.scalars import boolean, decimal, double, moment
from fetcher.engines._mongodb.values import ARRAY, BINARY, OBJECT, STRING, value

Column = Sequence[bytes]

NAME = rb"[^\x00]*+\x00"
TEXT = rb"[^\x00]*+\x00"
UUID = rb"\x10\x00\x00\x00[\x03\x04]"
NESTED = 3
"""Levels of a nested value that a pattern follows; a deeper one is left to `values`."""


class MisfitError(ValueError):
    """A pattern has cut values at the wrong places: the lengths that BSON keeps say something else."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one type are found, by a pattern's groups, and written."""

    pattern: bytes
    write: Callable[..., list[bytes]]
    groups: int = 1


def _numbers(code: str) -> Callable[[Column], list[bytes]]:
    def write(raw: Column) -> list[bytes]:
        return orjson.dumps(unpack(f"<{len(raw)}{code}", b"".join(raw)))[1:-1].split(b",")

    return write


def _doubles(raw: Column) -> list[bytes]:
    texts = _numbers("d")(raw)
    return [*map(double, raw)] if b"null" in texts else texts


def _dates(raw: Column) -> list[bytes]:
    return [*map(moment, unpack(f"<{len(raw)}q", b"".join(raw)))]


def _decimals(raw: Column) -> list[bytes]:
    return [*map(decimal, raw)]


def _object_ids(raw: Column) -> list[bytes]:
    return _quoted(hexlify(b"".join(raw), b",", 12))


def _quoted(listed: bytes) -> list[bytes]:
    return (b'"%b"' % listed.replace(b",", b'","')).split(b",")


def _uuids(raw: Column) -> list[bytes]:
    digits = hexlify(b"".join(raw))
    parts = unpack("8s4s4s4s12s" * len(raw), digits)
    return (b'"%b-%b-%b-%b-%b",' * len(raw) % parts)[:-1].split(b",")


def _texts(lengths: Column, raw: Column) -> list[bytes]:
    if unpack(f"<{len(raw)}I", b"".join(lengths)) != tuple(map((1).__add__, map(len, raw))):
        raise MisfitError
    listed = orjson.dumps(b"\0".join(raw).decode().split("\0"), option=orjson.OPT_INDENT_2)
    return listed[len(b"[\n  ") : -len(b"\n]")].split(b",\n  ")  # within a string, a line break is escaped


def _objects(raw: Column) -> list[bytes]:
    _check(raw)
    return [value(OBJECT, each, 0)[0] for each in raw]


def _arrays(raw: Column) -> list[bytes]:
    """Write lists of one scalar type by their members' column."""
    _check(raw)
    kinds = {each[4] for each in raw} - {0}
    pattern = LISTS.get(kinds.pop()) if len(kinds) == 1 else None
    if pattern is None or not all(map(pattern.whole.fullmatch, raw)):
        return [value(ARRAY, each, 0)[0] for each in raw]
    lists = [pattern.member.findall(each, 4) for each in raw]
    members = [*chain.from_iterable(lists)]
    written = iter(pattern.kind.write(*(zip(*members, strict=True) if pattern.kind.groups > 1 else [members])))
    return [b"[%b]" % b",".join(islice(written, len(each))) for each in lists]


def _check(raw: Column) -> None:
    if b"".join([each[:4] for each in raw]) != pack(f"<{len(raw)}I", *map(len, raw)):
        raise MisfitError


def _constants(text: bytes) -> Callable[[Column], list[bytes]]:
    return lambda raw: [text] * len(raw)


def _fixed(size: int) -> bytes:
    return rb"(.{%d})" % size


def _any_document(levels: int) -> bytes:
    """Match a document or array, whatever its fields, as deep as a pattern may go."""
    sizes = {0x01: 8, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x12: 8, 0x13: 16}
    elements = [rb"\x%02x" % kind + NAME + rb".{%d}" % size for kind, size in sizes.items()]
    elements += [rb"\x02" + NAME + rb".{4}" + TEXT, rb"\x05" + NAME + UUID + rb".{16}"]
    if levels:
        elements.append(rb"[\x03\x04]" + NAME + _any_document(levels - 1))
    return rb".{4}(?:" + b"|".join(elements) + rb")*+\x00"


ANY = b"(" + _any_document(NESTED) + b")"

KINDS: Mapping[int, Kind] = {
    0x01: Kind(_fixed(8), _doubles),
    STRING: Kind(rb"(.{4})([^\x00]*+)\x00", _texts, 2),
    OBJECT: Kind(ANY, _objects),
    ARRAY: Kind(ANY, _arrays),
    BINARY: Kind(UUID + _fixed(16), _uuids),
    0x07: Kind(_fixed(12), _object_ids),
    0x08: Kind(rb"([\x00\x01])", lambda raw: [*map(boolean, raw)]),
    0x09: Kind(_fixed(8), _dates),
    0x0A: Kind(rb"()", _constants(b"null")),
    0x10: Kind(_fixed(4), _numbers("i")),
    0x12: Kind(_fixed(8), _numbers("q")),
    0x13: Kind(_fixed(16), _decimals),
}
"""By type byte. Other types are rare, or of no size that a pattern could know."""


@dataclass(frozen=True, slots=True)
class List:
    """An array whose members are all of one kind."""

    kind: Kind
    member: re.Pattern[bytes]
    whole: re.Pattern[bytes]


def _list(byte: int, kind: Kind) -> List:
    member = rb"\x%02x[0-9]+\x00" % byte + kind.pattern
    return List(kind, re.compile(b"(?s:%b)" % member), re.compile(rb"(?s:.{4}(?:%b)*+\x00)" % member))


LISTS = {byte: _list(byte, kind) for byte, kind in KINDS.items() if kind.pattern != ANY}
