"""What a router of shards may deliver: documents with one `_id`, of which a read that goes on must lose none.

No sharded cluster can be had here: the driver talks over the wire to a few commands that answer as `mongos` does.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId

from fetcher.core.manifest import DatasourceEntry, Part, TableEntry, not_proven, proven
from fetcher.engines import engine
from fetcher.engines._mongodb.keys import apart
from fetcher.model import Column, Encoding, Query, Secret, TypedCondition
from fetcher.ports import Repeating
from tests.contract.conftest import Reader
from tests.contract.mongo_wire import ROUTER, Wire, collection, serving, source

NUMBERS: Sequence[Any] = [
    *(number for number in range(40) for _ in "AB"),
    *(kind(number) for number in range(40, 60) for kind in (int, float, Int64)),
    *range(60, 100),
]
"""Twins all along, from two shards or three, which the server takes for equal in the same bytes and in other ones."""


def stored(keys: Sequence[Any]) -> list[bytes]:
    return [bson.encode({"_id": key, "n": n}) for n, key in enumerate(keys)]


def router(keys: Sequence[Any] = NUMBERS, **described: Any) -> Wire:
    return Wire({"twins": stored(keys)}, [collection("twins", 1, **described)], ROUTER)


@contextmanager
def reading(wire: Wire) -> Iterator[Reader]:
    """Open a session and yield the suite's reader, which needs no more of a source than where it is."""
    with serving(wire) as to, engine("mongodb").connect(to, Secret(""), seconds=60, application="sharded") as session:
        yield Reader(session, source(to))


def numbers(pages: Any) -> list[int]:
    return [row["n"] for page in pages for row in json.loads(b"[%b]" % page.body)]


@pytest.mark.parametrize("page_bytes", [1, 60, 300])
def test_a_read_that_goes_on_loses_no_twin(page_bytes: int) -> None:
    """R-002-19: behind no position is there another document with its `_id`; some places are still positions."""
    with reading(router()) as reader:
        query = reader.plan("twins", page_bytes=page_bytes)
        pages = reader.pages(query)
        assert numbers(pages) == [*range(len(NUMBERS))]
        places = [at for at, page in enumerate(pages, 1) if page.position]
        assert len(places) > 3
        for at in places:
            assert numbers(reader.pages(query, pages[at - 1].position)) == numbers(pages[at:])


def test_what_is_no_router_has_a_position_behind_every_page() -> None:
    """The rule costs nothing where `_id` is unique."""
    wire = Wire({"twins": stored(range(100))}, [collection("twins", 1)])
    with reading(wire) as reader:
        assert all(page.position for page in reader.pages(reader.plan("twins", page_bytes=1)))
        assert reader.session.isolation == "read concern local"


@pytest.mark.parametrize(
    ("wire", "key"),
    [
        (router(), ["_id"]),
        (router(collation={"locale": "de", "strength": 1}), []),
        (Wire({"twins": stored(NUMBERS)}, [collection("twins", 1)], ROUTER, may_list=False), []),
        (Wire({"twins": stored(NUMBERS)}, [collection("twins", 1, collation={"locale": "de"})]), ["_id"]),
    ],
    ids=["router", "router and collation", "router and no right to know", "no router"],
)
def test_texts_in_an_order_of_their_own_are_no_key_through_a_router(wire: Wire, key: list[str]) -> None:
    """Two texts that are not the same may be one `_id` there, and who may not list is not told so."""
    with reading(wire) as reader:
        query = reader.plan("twins", page_bytes=60)
        assert [column.name for column in query.key] == key
        assert numbers(reader.pages(query)) == [*range(len(NUMBERS))]


FILTER = TypedCondition(Column("n", "int", Encoding.INTEGER), "gt", (5,))


@pytest.mark.parametrize(
    ("hello", "conditions", "claimed"), [({}, (), True), (ROUTER, (), False), ({}, (FILTER,), False)]
)
def test_unique_keys_are_claimed_only_where_each_comes_once(hello: Any, conditions: Any, claimed: bool) -> None:
    """R-002-20: not through a router; nor by an index of a field that changes, by which a document is met twice."""
    with reading(Wire({"twins": stored(range(9))}, [collection("twins", 1)], hello)) as reader:
        planned = reader.plan("twins")
        query = Query("twins", planned.path, planned.columns, planned.key, conditions)
        assert isinstance(reader.session, Repeating)
        entry = TableEntry(query, (Part(9),), repeats=reader.session.repeats(query))
    datasource = DatasourceEntry("my", "mongodb", reader.session.isolation, (entry,))
    assert ("unique_rows" in [claim.code for claim in proven([datasource])]) is claimed
    assert ("unique_rows" in [claim.code for claim in not_proven([datasource])]) is not claimed


VALUES: Sequence[tuple[Any, Any, bool]] = [
    (1, 2, True),
    (1, 1.0, False),
    (1, Int64(2), False),
    (1.5, 2.5, False),
    (0.0, -0.0, False),
    (Decimal128("1.0"), Decimal128("1.00"), False),
    ("a", "b", True),
    ("a", "a", False),
    ("a", 1, True),
    (None, 1, True),
    (ObjectId("0" * 24), ObjectId("1" * 24), True),
    ({"a": 1}, {"a": 1.0}, False),
    (b"a", b"b", True),
    (True, False, True),
]


@pytest.mark.parametrize(("one", "other", "sure"), VALUES)
def test_two_ids_are_apart_only_if_they_surely_are(one: Any, other: Any, sure: bool) -> None:
    """In doubt there is no position, and the part that ends there counts with a later one."""
    for pair in ((one, other), (other, one)):
        first, second = (bson.encode({"": value}) for value in pair)
        assert apart((first[4], first[6:-1]), (second[4], second[6:-1])) is sure
