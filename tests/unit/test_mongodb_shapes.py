"""The fast way through documents gives the bytes of the exact one, whatever the documents are."""

from collections.abc import Sequence
from typing import Any

import bson
import pytest
from bson import Code, Decimal128, Int64, ObjectId
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._mongodb.columns import MisfitError
from fetcher.engines._mongodb.cursor import Batch
from fetcher.engines._mongodb.documents import Writer
from fetcher.engines._mongodb.errors import explained
from fetcher.engines._mongodb.names import OPEN, REST
from fetcher.engines._mongodb.shapes import Shape
from fetcher.engines._mongodb.values import whole
from fetcher.errors import UnavailableError
from fetcher.model import UNSAMPLED, Column, Encoding
from tests.unit.test_mongodb_values import DATES, DOCUMENTS, INT64, TEXTS, VALUES

WILDCARD = (Column(REST, OPEN, Encoding.DOCUMENT),)


def batch_of(documents: Sequence[bytes]) -> Batch:
    """Documents behind one another, with the header of an array's element before each."""
    data = b"".join(b"\x03%d\0" % at + each for at, each in enumerate(documents))
    return Batch(b"before" + data + b"behind", 6, 6 + len(data))


def cut_whole(shape: Shape, batch: Batch) -> bool:
    cut = shape.cut(batch)
    return cut is not None and not cut.missed


def columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, UNSAMPLED, Encoding.DOCUMENT) for name in names)


def both(documents: Sequence[bytes], wanted: tuple[Column, ...] = WILDCARD) -> list[bytes]:
    """Write a batch both ways, compare, and return the rows."""
    batch = batch_of(documents)
    exact = Writer(wanted)
    exact._shape = None
    quick = Writer(wanted)
    first, second = quick.rows(batch), quick.rows(batch)
    assert first == second == exact.rows(batch)
    assert first[1] == batch.starts()
    return first[0]


def alike(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({}, optional=fields), max_size=12)


COMMON = alike(
    _id=st.binary(min_size=12, max_size=12).map(ObjectId),
    n=st.integers(-(2**31), 2**31 - 1) | INT64.map(Int64) | st.floats(),
    flag=st.booleans() | st.none(),
    text=TEXTS | st.none(),
    price=st.binary(min_size=16, max_size=16).map(Decimal128.from_bid),
    at=DATES,
    ref=st.builds(Binary, st.binary(min_size=16, max_size=16), st.sampled_from([3, 4])),
    nested=st.fixed_dictionaries({"a%b": TEXTS}, optional={"deep": st.fixed_dictionaries({"x": st.floats()})}),
    tags=st.lists(TEXTS | st.integers(0, 9) | st.dictionaries(st.sampled_from("pq"), TEXTS), max_size=3),
    odd=VALUES,
)


@given(COMMON)
def test_documents_that_look_alike_give_the_same_bytes_both_ways(documents: list[dict[str, Any]]) -> None:
    both([bson.encode(each) for each in documents])
    both([bson.encode(each) for each in documents], columns("text", "none", "nested", "n", "_id"))


@given(st.lists(DOCUMENTS, max_size=5))
def test_documents_of_any_kind_do_too(documents: list[dict[str, Any]]) -> None:
    both([bson.encode(each) for each in documents])


def test_a_shape_is_found_and_used() -> None:
    """Else all these tests would compare the exact way with itself."""
    documents = [
        {"_id": 1, "o": {"p%q": [1, {"x": "y"}], "r": 1.5}, "s": "a"},
        {"_id": 2, "o": {"p%q": [], "r": 2.5}, "s": None},
        {"_id": Int64(3), "o": {"p%q": [Decimal128("1")], "r": float("nan")}, "new": True},
    ]
    raw = [bson.encode(each) for each in documents]
    batch = batch_of(raw)
    shape = Shape()
    assert shape.cut(batch) is None
    shape.learn(batch.data, batch.starts())
    assert cut_whole(shape, batch)
    assert both(raw) == [whole(each, 0)[0] for each in raw]


def test_a_text_that_looks_like_more_fields_is_only_a_text() -> None:
    """A NUL is a character of BSON's strings: the lengths say where they really end."""
    honest = bson.encode({"a": "x", "admin": False})
    evil = bson.encode({"a": "x\0\x08admin\0\1", "admin": False})
    array = bson.encode({"a": ["x\0\0"], "admin": False})
    assert both([honest, evil, honest])[1] == rb'{"a":"x\u0000\badmin\u0000\u0001","admin":false}'
    assert both([array, bson.encode({"a": ["x"], "admin": False})])[0] == rb'{"a":["x\u0000\u0000"],"admin":false}'


@pytest.mark.parametrize(
    ("learned", "evil"),
    [
        (
            [{"a": "x", "t": ObjectId()}, {"a": "x", "u": Decimal128("1")}],
            {"a": "x\0\x13u\0", "t": ObjectId()},
        ),
        (
            [{"a": ["x"], "abcdefgh": 1}, {"a": ["x"], "u": Decimal128("1")}],
            {"a": ["x\0\0\x13u\0"], "abcdefgh": 1},
        ),
    ],
)
def test_a_text_that_fits_the_pattern_to_the_last_byte_is_found_out(
    learned: list[dict[str, Any]], evil: dict[str, Any]
) -> None:
    """Without the check of lengths, the rest of the document would have become a field that it has not."""
    raw = [bson.encode(each) for each in [*learned * 5, evil]]
    batch = batch_of(raw)
    shape = Shape()
    shape.learn(batch.data, batch.starts()[:-1])
    cut = shape.cut(batch)
    assert cut is not None
    assert not cut.missed
    with pytest.raises(MisfitError):
        shape.rows(cut, None)
    assert both(raw)[-1] == whole(raw[-1], 0)[0]


@pytest.mark.parametrize("size", [1, 300, 70_000])
def test_documents_that_do_not_fit_may_stand_anywhere(size: int) -> None:
    """The rest of a window goes with each of them, and the next begins where it ends."""
    usual, odd = bson.encode({"a": "x" * size}), bson.encode({"a": Code("x" * size)})
    many = [usual] * (200_000 // size + 3) if size > 1 else [usual] * 20_000
    for documents in ([odd, *many, odd, odd, *many, odd], many):
        batch, writer = batch_of(documents), Writer(WILDCARD)
        assert writer.rows(batch) == ([whole(each, 0)[0] for each in documents], batch.starts())


@pytest.mark.parametrize("depth", [1, 3, 4, 5, 60])
def test_a_deep_value_is_exact_too(depth: int) -> None:
    value: Any = [1]
    for _ in range(depth):
        value = [{"v": value}]
    assert both([bson.encode({"v": value})] * 2)[0].count(b"[") == depth + 1


def test_hundreds_of_fields_are_left_to_the_exact_way() -> None:
    both([bson.encode({f"f{at}": at for at in range(400)})] * 3)


def test_a_read_learns_again_when_documents_change() -> None:
    writer = Writer(WILDCARD)
    writer.rows(batch_of([bson.encode({"a": 1})] * 20))
    writer.rows(batch_of([bson.encode({"b": "x"})] * 20))
    mixed = batch_of([bson.encode({"a": 1}), bson.encode({"b": "x"})] * 10)
    assert writer._shape is not None
    assert cut_whole(writer._shape, mixed)
    assert writer.rows(mixed)[0] == [b'{"a":1}', b'{"b":"x"}'] * 10


@pytest.mark.parametrize(
    "values",
    [
        [Decimal128(text) for text in ("0.05", "12.30", "0.00", "99999999999999999.99")],
        [Decimal128(text) for text in ("-0.000001", "-7.100000", "-0.000000")],
        [Decimal128(text) for text in ("-0.1", "0.1", "1E+3", "NaN")],
        [r"a\u0000b", "c", ""],
        ["", "ü", "\x7f\u2028"],
        [DatetimeMS(at) for at in (-62_135_596_800_000, 253_402_300_799_999, 0, -1)],
        [DatetimeMS(at) for at in (-62_135_596_800_001, 253_402_300_800_000, 2**63 - 1)],
        [[], [1, Int64(2**53 + 1), -(2**31)], [True, None, "],\n  ["], [1.5, -0.0, 1e300]],
        [[float("nan"), None], [float("inf")]],
        [["x\0"], ["y"]],
        [[[1]], [{"a": 1}], [Code("x")]],
    ],
)
def test_columns_of_borders_are_exact(values: list[Any]) -> None:
    """`design.md` §7.2: what is written by the column is what each value is alone."""
    documents = [bson.encode({"v": each, "w": at}) for at, each in enumerate(values)]
    assert both(documents) == [whole(each, 0)[0] for each in documents]


def test_a_document_that_is_longer_than_its_fields_is_never_believed() -> None:
    """The pattern alone would stop at its fields' end and take the rest for something behind it."""
    good = bson.encode({"a": 1})
    damaged = (len(good) + 2).to_bytes(4, "little") + good[4:] + b"\0\0"
    batch, writer = batch_of([good, good, damaged, good]), Writer(WILDCARD)
    with pytest.raises((InvalidBSON, KeyError)) as caught:
        writer.rows(batch)
    assert isinstance(explained(caught.value), UnavailableError)


NO_TEXT = b"\xff"


@pytest.mark.parametrize("document", [{"aa": 1}, {"o": {"aa": 1}}, {"s": "aa"}, {"l": ["aa"]}, {"l": [{"aa": 1}]}])
def test_what_is_no_utf8_is_refused_both_ways(document: dict[str, Any]) -> None:
    """`design.md` §7.2: names are constants of the fast way, so nobody checked them, and the result was no JSON."""
    damaged = bson.encode(document).replace(b"aa", NO_TEXT + b"a")
    batch = batch_of([damaged] * 3)
    for shape in (Shape(), None):
        writer = Writer(WILDCARD)
        writer._shape = shape
        with pytest.raises(UnicodeDecodeError):
            writer.rows(batch)
        with pytest.raises(UnicodeDecodeError):
            writer.rows(batch)


def test_what_is_no_utf8_does_not_matter_where_it_is_not_asked_for() -> None:
    """A name that no projection can leave out lets whole documents come."""
    documents = [bson.encode({"a": 1, "s": "aa"}), bson.encode({"a": 2, "s": "bb"})]
    assert both([each.replace(b"aa", NO_TEXT + b"a") for each in documents], columns("a")) == [b'{"a":1}', b'{"a":2}']
