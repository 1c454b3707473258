"""The only key of a collection is `_id`: a position in it, and the rows behind a position, over all BSON types.

A comparison of MongoDB's query language stays within the bracket of its value's type, while its sort goes
through all of them. So behind a position is what is greater in its bracket, and every later bracket.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import inf, isnan
from typing import Any

import bson
from bson import json_util
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import JSONMode, JSONOptions
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from fetcher.errors import InvalidRequestError
from fetcher.model import Position

KEY = "_id"

TYPES: Mapping[int, str] = {
    0x01: "double",
    0x02: "string",
    0x03: "object",
    0x04: "array",
    0x05: "binData",
    0x06: "undefined",
    0x07: "objectId",
    0x08: "bool",
    0x09: "date",
    0x0A: "null",
    0x0B: "regex",
    0x0C: "dbPointer",
    0x0D: "javascript",
    0x0E: "symbol",
    0x0F: "javascriptWithScope",
    0x10: "int",
    0x11: "timestamp",
    0x12: "long",
    0x13: "decimal",
    0x7F: "maxKey",
    0xFF: "minKey",
}
"""The server's own names, by type byte."""

BRACKETS = (
    ("minKey",),
    ("undefined",),
    ("null",),
    ("double", "int", "long", "decimal"),
    ("string", "symbol"),
    ("object",),
    ("array",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("regex",),
    ("dbPointer",),
    ("javascript",),
    ("javascriptWithScope",),
    ("maxKey",),
)
"""In BSON's order of comparison. Values of different types of one bracket are compared with each other."""

ONE_VALUE = frozenset({"minKey", "undefined", "null", "maxKey"})
NUMBERS = frozenset({"double", "decimal"})
BY_BYTES = frozenset({"string", "binData", "objectId", "bool", "date", "int", "timestamp", "long"})
"""Types of which two values are equal only in the same bytes; of texts, where there is no collation."""
RAW = "bson:"
"""Begins the text of a value that extended JSON would change, such as an object with a field named `$oid`."""

CODEC: CodecOptions[SON[str, Any]] = CodecOptions(
    document_class=SON[str, Any],
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
)
CANONICAL: JSONOptions = JSONOptions(
    json_mode=JSONMode.CANONICAL,
    document_class=SON[str, Any],
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
)

MISFIT = "the saved position does not fit the collection's key any more"


def position(kind: int, raw: bytes) -> Position:
    """Keep a value of `_id`, given its type and bytes, as canonical extended JSON, if that is exact."""
    value = bson.decode(_document(kind, b"", raw), CODEC)[""]
    text = json_util.dumps(value, json_options=CANONICAL)
    if _encoded(text) != (kind, raw):
        text = RAW + b64encode(raw).decode()
    return Position(((TYPES[kind], text),))


def apart(one: tuple[int, bytes], other: tuple[int, bytes]) -> bool:
    """Whether two values of `_id`, each its type and bytes, are surely not equal: `1` and `1.0` are, for the server."""
    kinds = TYPES[one[0]], TYPES[other[0]]
    if kinds[0] == kinds[1] and kinds[0] in BY_BYTES:
        return one[1] != other[1]
    return _bracket(kinds[0]) != _bracket(kinds[1])


def behind(position: Position) -> dict[str, Any]:
    """Return the condition of the documents that sort after a position."""
    kind, raw = _value(position)
    brackets = BRACKETS[_bracket(TYPES[kind]) + 1 :]
    later: dict[str, Any] = {KEY: {"$type": [name for names in brackets for name in names]}}
    if TYPES[kind] == "maxKey":
        return {KEY: {"$in": []}}
    if TYPES[kind] in ONE_VALUE:
        return later
    if TYPES[kind] in NUMBERS and _is_nan(kind, raw):
        return {"$or": [{KEY: {"$gte": -inf}}, later]}  # NaN sorts before all numbers, but compares with none
    return {"$or": [{KEY: RawBSONDocument(_document(kind, b"$gt", raw))}, later]}


def _bracket(name: str) -> int:
    return next(at for at, names in enumerate(BRACKETS) if name in names)


def _value(position: Position) -> tuple[int, bytes]:
    try:
        ((name, text),) = position.values
        kind = next(kind for kind, known in TYPES.items() if known == name)
        found = (kind, b64decode(text[len(RAW) :])) if text.startswith(RAW) else _encoded(text)
        bson.decode(_document(kind, b"", found[1]), CODEC)
    except Exception as error:
        raise InvalidRequestError(MISFIT) from error
    if found[0] != kind:
        raise InvalidRequestError(MISFIT)
    return found


def _encoded(text: str) -> tuple[int, bytes]:
    document = bson.encode(SON([("", json_util.loads(text, json_options=CANONICAL))]), codec_options=CODEC)
    return document[4], document[6:-1]


def _document(kind: int, name: bytes, raw: bytes) -> bytes:
    size = 4 + 1 + len(name) + 1 + len(raw) + 1
    return size.to_bytes(4, "little") + bytes([kind]) + name + b"\0" + raw + b"\0"


def _is_nan(kind: int, raw: bytes) -> bool:
    number = bson.decode(_document(kind, b"", raw))[""]
    return isnan(number if isinstance(number, float) else number.to_decimal())
