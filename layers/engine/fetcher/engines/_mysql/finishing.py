"""What the client alone makes exact: floats, JSON that only MariaDB takes for such, and halves of surrogate pairs.

The server writes a FLOAT with six digits at most, and takes 600 ns for those of a double; here they come as their bits.
Its idea of valid JSON is wider than the standard's, so that each document is parsed here, and only parsed.

A mark stands on both sides of such a value: a byte that no text in UTF-8 has. Where there are more of them than that
all the same, a text is not what the server says it is, and nothing is delivered.

MariaDB takes half of a surrogate pair for a character, in utf8mb3 and utf8mb4 as in ucs2 and utf32. No UTF-8 has its
three bytes, and nothing in it looks like them; in JSON it is an escape, as SQL Server's are.
"""

import json
import re
from binascii import unhexlify
from collections import deque
from collections.abc import Callable, Sequence
from math import isnan
from struct import unpack

import orjson

from fetcher.engines._errors import GARBLED
from fetcher.engines._floats import shortest_single
from fetcher.engines._mysql.dialect import kind
from fetcher.model import Column, Encoding

Finish = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Makes JSON of a column's values."""

MARK = b"\xff"
LEAD = b"\xed"
HALF = re.compile(rb"\xed([\xa0-\xbf])([\x80-\xbf])")
NULL_BITS = "F" * 16
"""NULL among the bits of doubles: a NaN, which no column holds, and which orjson writes as null."""


def finish(column: Column) -> Finish | None:
    """Return what the values of a column still need; for most that is nothing."""
    match column.encoding:
        case Encoding.FLOAT:
            return _singles if kind(column) == "float" else _doubles
        case Encoding.JSON if kind(column) != "json":
            return _documents
        case _:
            return None


def finishing(columns: Sequence[Column]) -> Callable[[bytes, int], bytes]:
    """Return what makes JSON of a page of these columns and a number of rows."""
    finishes = list(filter(None, map(finish, columns)))
    step = 2 * len(finishes)

    def finished(body: bytes, rows: int) -> bytes:
        parts = body.split(MARK)
        if len(parts) != step * rows + 1:
            raise GARBLED.error()
        for at, made in enumerate(finishes):
            values = slice(2 * at + 1, None, step)
            parts[values] = made(parts[values])
        return escaped(b"".join(parts))

    return finished if finishes else lambda body, _rows: escaped(body)


def escaped(body: bytes) -> bytes:
    """Write halves of surrogate pairs as JSON does; looking whether there may be one costs almost nothing."""
    return HALF.sub(_escape, body) if LEAD in body else body


def _escape(half: re.Match[bytes]) -> bytes:
    (high,), (low,) = half.groups()
    return b"\\u%04x" % (0xD000 | (high & 0x3F) << 6 | low & 0x3F)


def _numbers(bits: Sequence[bytes]) -> Sequence[float]:
    return unpack(f"<{len(bits)}d", unhexlify(b"".join(bits)))


def _doubles(bits: Sequence[bytes]) -> Sequence[bytes]:
    """Find the shortest digits that mean each double; a whole number has none behind a point."""
    listed = orjson.dumps(_numbers(bits))[1:-1] + b","
    return listed.replace(b".0,", b",").split(b",")[:-1]


def _singles(bits: Sequence[bytes]) -> Sequence[bytes]:
    return [b"null" if isnan(number) else shortest_single(number) for number in _numbers(bits)]


def _documents(texts: Sequence[bytes]) -> Sequence[bytes]:
    """Leave JSON as it is, to the byte; what only MariaDB takes for JSON becomes a string."""
    try:
        deque(map(orjson.loads, texts), maxlen=0)
    except orjson.JSONDecodeError:
        return [text if _is_json(escaped(text)) else _string(text) for text in texts]
    return texts


def _string(text: bytes) -> bytes:
    try:
        return json.dumps(text.decode(errors="surrogatepass"), ensure_ascii=False).encode(errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise GARBLED.error() from error


def _is_json(text: bytes) -> bool:
    """Ask the fast parser first; it also refuses numbers that are only too large for it."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
