"""BSON as JSON, from raw bytes: against the driver's own decoder, and for what no server here can store."""

import base64
import json
import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._mongodb.keys import CODEC
from fetcher.engines._mongodb.scalars import FIXED
from fetcher.engines._mongodb.values import elements, whole

FOUR_CENTURIES = 146_097 * 86_400_000
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DATES = st.one_of(st.integers(-(10**11), 10**13), INT64).map(DatetimeMS)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    INT64.map(Int64),
    st.floats(),
    TEXTS,
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.binary(min_size=16, max_size=16).map(Decimal128.from_bid),
    st.builds(Binary, st.binary(max_size=20), st.sampled_from([0, 2, 3, 4, 5, 128])),
    st.builds(Binary, st.binary(min_size=16, max_size=16), st.sampled_from([3, 4])),
    DATES,
    st.builds(Timestamp, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.builds(Regex, NAMES, st.sampled_from([0, 2, 8, 10])),
    TEXTS.map(Code),
    st.just(MinKey()),
    st.just(MaxKey()),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=8)


def written(raw: bytes) -> str:
    body, end = whole(raw, 0)
    assert end == len(raw)
    return body.decode()


def expected(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line a type
    """Say `design.md` §7.2 in other words."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Code():
            return {"$code": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case Timestamp():
            return {"$timestamp": {"t": value.time, "i": value.inc}}
        case Regex():
            options = "".join(letter for letter, flag in (("i", 2), ("m", 8)) if value.flags & flag)
            return {"$regularExpression": {"pattern": value.pattern, "options": options}}
        case MinKey():
            return {"$minKey": 1}
        case MaxKey():
            return {"$maxKey": 1}
        case DatetimeMS():
            return moment(int(value))
        case Binary() if value.subtype in {3, 4} and len(value) == 16:
            text = value.hex()
            return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])
        case bytes():
            return base64.b64encode(value).decode()
        case ObjectId() | Decimal128():
            return str(value)
        case list():
            return [expected(each) for each in value]
        case _:
            return {name: expected(each) for name, each in value.items()}


def moment(milliseconds: int) -> str:
    cycles = (milliseconds - 946_684_800_000) // FOUR_CENTURIES
    within = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds - cycles * FOUR_CENTURIES)
    year = within.year + 400 * cycles
    written_year = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    return written_year + within.strftime("-%m-%dT%H:%M:%S.") + f"{within.microsecond // 1000:03d}Z"


@given(DOCUMENTS)
def test_any_document_is_what_the_drivers_own_decoder_says(document: dict[str, Any]) -> None:
    """R-000-101: nothing lost, every name and value in its place."""
    raw = bson.encode(document)
    decoded = json.loads(written(raw))
    assert decoded == expected(bson.decode(raw, CODEC))
    assert list(decoded) == list(document)


@given(st.binary(min_size=16, max_size=16))
def test_any_decimal_has_the_text_of_its_digits(raw: bytes) -> None:
    """Also those encodings that no arithmetic produces."""
    assert FIXED[0x13][1](raw).decode() == f'"{Decimal128.from_bid(raw)}"'


@given(DOCUMENTS, st.data())
def test_damaged_bytes_never_hang_and_are_never_taken_for_something_else(
    document: dict[str, Any], data: st.DataObject
) -> None:
    """A broken wire raises one of two errors, or the damage is inside of a value."""
    raw = bytearray(bson.encode(document))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3))
    with suppress(InvalidBSON, UnicodeDecodeError):
        whole(bytes(raw[: len(raw) - cut]), 0)[0].decode()


def document(kind: int, payload: bytes) -> bytes:
    body = bytes([kind]) + b"v\0" + payload + b"\0"
    return (4 + len(body)).to_bytes(4, "little") + body


def text(value: bytes) -> bytes:
    return (len(value) + 1).to_bytes(4, "little") + value + b"\0"


SCOPE = bson.encode({"x": Int64(1)})
ODD: list[tuple[int, bytes, str]] = [
    (0x06, b"", '{"$undefined":true}'),
    (0x0E, text(b'a"b'), r'{"$symbol":"a\"b"}'),
    (0x0C, text(b"shop.c") + bytes(12), '{"$dbPointer":{"$ref":"shop.c","$id":{"$oid":"000000000000000000000000"}}}'),
    (0x0F, (4 + 7 + len(SCOPE)).to_bytes(4, "little") + text(b"f()")[:8] + SCOPE, '{"$code":"f()","$scope":{"x":1}}'),
    (0x09, (-62135596800000).to_bytes(8, "little", signed=True), '"0001-01-01T00:00:00.000Z"'),
    (0x09, (253402300799999).to_bytes(8, "little"), '"9999-12-31T23:59:59.999Z"'),
    (0x09, (253402300800000).to_bytes(8, "little"), '"+010000-01-01T00:00:00.000Z"'),
    (0x09, (-62167219200001).to_bytes(8, "little", signed=True), '"-000001-12-31T23:59:59.999Z"'),
    (0x09, (2**63 - 1).to_bytes(8, "little"), '"+292278994-08-17T07:12:55.807Z"'),
    (0x09, (-(2**63)).to_bytes(8, "little", signed=True), '"-292275055-05-16T16:47:04.192Z"'),
    (0x01, b"\0\0\0\0\0\0\0\x80", "-0.0"),
    (0x01, b"\1\0\0\0\0\0\0\0", "5e-324"),
    (0x01, b"\xff\xff\xff\xff\xff\xff\xff\xff", '"NaN"'),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), ODD)
def test_what_only_old_drivers_wrote_is_exact_too(kind: int, payload: bytes, expected: str) -> None:
    assert written(document(kind, payload)) == f'{{"v":{expected}}}'
    json.loads(expected)


def test_two_fields_of_one_name_are_both_there() -> None:
    """A dictionary would have lost one."""
    twice = b"\x10a\0\1\0\0\0\x10a\0\2\0\0\0\0"
    raw = (4 + len(twice)).to_bytes(4, "little") + twice
    assert written(raw) == '{"a":1,"a":2}'
    assert len(list(elements(raw, 0))) == 2


@pytest.mark.parametrize("raw", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b'"\xff'])
def test_text_that_is_not_utf8_is_an_error(raw: bytes) -> None:
    """Never replaced, never dropped."""
    with pytest.raises(UnicodeDecodeError):
        written(document(0x02, text(raw)))


@pytest.mark.parametrize(
    "raw",
    [
        document(0x77, b""),
        document(0x08, b"\2"),
        document(0x02, b"\xff\xff\xff\xff"),
        document(0x02, b"\2\0\0\0ab"),
        document(0x10, b"\0\0"),
        document(0x03, b"\5\0\0\0"),
        document(0x13, bytes(15)),
        b"\5\0\0\0",
        b"\x10\0\0\0\0",
    ],
)
def test_bytes_that_are_no_bson_are_an_error(raw: bytes) -> None:
    with pytest.raises(InvalidBSON):
        written(raw)
