"""How BSON becomes JSON (`design.md` §7.2): every value by its own type, straight from the bytes of a batch.

Types that JSON lacks are relaxed extended JSON, except where §7.2 has a plainer form. Bytes are not decoded
where they are copied: whoever takes a text from here checks once that it is UTF-8.
"""

from base64 import b64encode
from binascii import hexlify
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from struct import Struct, error

import orjson
from bson.errors import InvalidBSON

from fetcher.engines._mongodb.scalars import FIXED

LENGTH = Struct("<I").unpack_from
"""Unsigned: damaged bytes must never make a reader go back."""

STRING, OBJECT, ARRAY, BINARY, DATE, SYMBOL = 0x02, 0x03, 0x04, 0x05, 0x09, 0x0E
OLD_BINARY, OLD_UUID, UUID = 2, 3, 4
UUID_BYTES = 16

PLAIN = bytes(byte for byte in range(0x20, 0x100) if byte not in b'"\\')
"""What a JSON string holds as it is."""

_SIZES = tuple(FIXED[kind][0] if kind in FIXED else -1 for kind in range(256))
_RENDER = tuple(FIXED[kind][1] if kind in FIXED else bytes for kind in range(256))

Found = tuple[bytes, int]


def walk(data: bytes, at: int) -> tuple[list[bytes], list[bytes], int]:
    """Read the document, or array, that begins at `at`: names as stored, values as JSON, and where it ends."""
    names: list[bytes] = []
    values: list[bytes] = []
    try:
        end = at + LENGTH(data, at)[0] - 1
        at += 4
        while at < end:
            kind, stop = data[at], data.index(0, at + 1)
            names.append(data[at + 1 : stop])
            at = stop + 1
            if (size := _SIZES[kind]) >= 0:
                stop = at + size
                values.append(_RENDER[kind](data[at:stop]))
                at = stop
            else:
                value, at = _OTHERS[kind](data, at)
                values.append(value)
        if at != end or data[end]:
            raise InvalidBSON("a document does not end where it says")
    except UnicodeDecodeError:
        raise
    except (KeyError, IndexError, ValueError, error) as wrong:
        raise InvalidBSON("a document of bytes that are no BSON") from wrong
    return names, values, end + 1


def whole(data: bytes, at: int) -> Found:
    """Write a document with its own members in their own order."""
    names, values, end = walk(data, at)
    return b"{%b}" % b",".join([member(name) + value for name, value in zip(names, values, strict=True)]), end


@lru_cache(4096)
def member(name: bytes) -> bytes:
    """Write a member's name and its colon."""
    return text(name) + b":"


def text(raw: bytes) -> bytes:
    """Write a string; only one that needs an escape is ever decoded."""
    return orjson.dumps(raw.decode()) if raw.translate(None, PLAIN) else b'"%b"' % raw


def value(kind: int, data: bytes, at: int) -> Found:
    """Write one value of any type, and say where it ends."""
    if kind in FIXED:
        size, render = FIXED[kind]
        return render(data[at : at + size]), at + size
    return _OTHERS[kind](data, at)


def elements(data: bytes, at: int) -> Iterator[tuple[int, bytes, int, int]]:
    """Go through a document or array: type, name, begin and end of each value."""
    end = at + LENGTH(data, at)[0] - 1
    at += 4
    while at < end:
        kind, stop = data[at], data.index(0, at + 1)
        name, start = data[at + 1 : stop], stop + 1
        _, at = value(kind, data, start)
        yield kind, name, start, at


def _string(data: bytes, at: int) -> Found:
    raw, end = string(data, at)
    return text(raw), end


def string(data: bytes, at: int) -> Found:
    """Cut out the bytes of a string."""
    end = at + 4 + LENGTH(data, at)[0]
    if data[end - 1]:
        raise InvalidBSON("a string does not end where it says")
    return data[at + 4 : end - 1], end


def _array(data: bytes, at: int) -> Found:
    _, values, end = walk(data, at)
    return b"[%b]" % b",".join(values), end


def _binary(data: bytes, at: int) -> Found:
    """A UUID has hyphens; legacy ones are written in the order of their bytes, which their driver chose."""
    subtype, start = data[at + 4], at + 5
    end = start + LENGTH(data, at)[0]
    if subtype in {OLD_UUID, UUID} and end - start == UUID_BYTES:
        digits = hexlify(data[start:end])
        return b'"%b-%b-%b-%b-%b"' % (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]), end
    if subtype == OLD_BINARY:
        start += 4  # a second length
    return b'"%b"' % b64encode(data[start:end]), end


def _regex(data: bytes, at: int) -> Found:
    middle = data.index(0, at)
    end = data.index(0, middle + 1)
    form = b'{"$regularExpression":{"pattern":%b,"options":%b}}'
    return form % (text(data[at:middle]), text(data[middle + 1 : end])), end + 1


def _pointer(data: bytes, at: int) -> Found:
    name, at = _string(data, at)
    form = b'{"$dbPointer":{"$ref":%b,"$id":{"$oid":"%b"}}}'
    return form % (name, hexlify(data[at : at + 12])), at + 12


def _code(data: bytes, at: int) -> Found:
    code, end = _string(data, at)
    return b'{"$code":%b}' % code, end


def _symbol(data: bytes, at: int) -> Found:
    symbol, end = _string(data, at)
    return b'{"$symbol":%b}' % symbol, end


def _scoped(data: bytes, at: int) -> Found:
    code, at = _string(data, at + 4)
    scope, end = whole(data, at)
    return b'{"$code":%b,"$scope":%b}' % (code, scope), end


_OTHERS: Mapping[int, Callable[[bytes, int], Found]] = {
    STRING: _string,
    OBJECT: whole,
    ARRAY: _array,
    BINARY: _binary,
    0x0B: _regex,
    0x0C: _pointer,
    0x0D: _code,
    SYMBOL: _symbol,
    0x0F: _scoped,
}
