"""A read of any collection, stopped anywhere and resumed, gives each document once, in BSON's order (R-002-19)."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any

import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp, json_util
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.json_util import CANONICAL_JSON_OPTIONS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetcher.engines import engine
from fetcher.engines._mongodb.keys import BRACKETS
from fetcher.errors import InvalidRequestError
from fetcher.model import Position, Query, TypedCondition
from fetcher.ports import Session
from tests.contract.kinds import Source

IDS: Sequence[Any] = [
    MinKey(),
    None,
    float("nan"),
    float("-inf"),
    Decimal128("-1.50"),
    -1,
    0,
    Decimal128("0.25"),
    0.1,
    1.5,
    Int64(2**53 + 1),
    Decimal128("9007199254740993.5"),
    Decimal128("1E+40"),
    float("inf"),
    "",
    "A",
    "Z",
    "a",
    "a\0b",
    "b",
    "ä",
    "🎉",
    {},
    {"a": 1},
    {"a": {"$oid": "65a1b2c3d4e5f60718293a4b"}},
    {"b": 1},
    {"b": 1, "c": [1, None]},
    Binary(b"", 0),
    Binary(b"a", 0),  # the stand-in sorts by length, as MongoDB does, but compares by bytes alone: here both agree
    Binary(b"bb", 128),
    Binary(b"c" * 16, 3),
    Binary(b"d" * 16, 4),
    ObjectId("05a1b2c3d4e5f60718293a4b"),
    ObjectId("65a1b2c3d4e5f60718293a4b"),
    False,
    True,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1000, UTC),
    Timestamp(1, 2),
    Timestamp(2, 1),
    Code("f()"),
    MaxKey(),
]
"""In no order that this file would know: the server's own is the measure."""

_names = count(1)


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


@pytest.fixture(scope="module")
def session(served: Source) -> Iterator[Session]:
    with engine("mongodb").connect(served.to, served.secret, seconds=300, application="resume") as opened:
        yield opened


def filled(
    served: Source, session: Session, documents: Sequence[dict[str, Any]], page_bytes: int = 1
) -> tuple[Query, list[int]]:
    """Put documents into a new collection.

    Return its query, and the indexes of the documents that the server took: equal numbers of different types
    are one key to it.
    """
    name = f"resumed {next(_names)}"
    command = {"insert": name, "documents": [*documents], "ordered": False} if documents else {"create": name}
    (answer,) = served.run(json_util.dumps(command, json_options=CANONICAL_JSON_OPTIONS))
    doubled = {error["index"] for error in dict(answer).get("writeErrors", ())}
    table = session.discover([name]).tables[(name,)]
    key = table.column("_id")
    assert key is not None
    query = Query(name, table.path, table.columns, (key,), page_bytes=page_bytes)
    return query, [at for at in range(len(documents)) if at not in doubled]


def numbers(pages: Sequence[Any]) -> list[int]:
    return [row["n"] for page in pages for row in json.loads(b"[" + page.body + b"]")]


def test_a_read_resumes_behind_an_id_of_any_type(served: Source, session: Session) -> None:
    """Design §8: over all types of BSON, in one collection, from each of its documents."""
    query, stored = filled(served, session, [{"_id": each, "n": n} for n, each in enumerate(IDS)])
    assert len(stored) == len(IDS)
    pages = list(session.read(query, None))
    order = numbers(pages)
    assert sorted(order) == list(range(len(IDS)))
    types = [page.position.values[0][0] for page in pages if page.position]
    brackets = [next(at for at, names in enumerate(BRACKETS) if name in names) for name in types]
    assert brackets == sorted(brackets)
    for done, page in enumerate(pages, 1):
        assert numbers(list(session.read(query, page.position))) == order[done:], page.position


def test_a_resumed_read_keeps_its_filters(served: Source, session: Session) -> None:
    """The position is one more term beside them."""
    query, stored = filled(served, session, [{"_id": each, "n": n} for n, each in enumerate(IDS)])
    assert len(stored) == len(IDS)
    column = session.discover([query.name]).tables[query.path].column("n")
    assert column is not None
    query = Query(
        query.name, query.path, query.columns, query.key, (TypedCondition(column, "gte", (20,)),), page_bytes=1
    )
    pages = list(session.read(query, None))
    assert all(n >= 20 for n in numbers(pages))
    assert numbers(list(session.read(query, pages[3].position))) == numbers(pages)[4:]


@pytest.mark.parametrize(
    "values",
    [
        (),
        (("objectId", '{"$oid": "65a1b2c3d4e5f60718293a4b"}'), ("int", "1")),
        (("int", '"text"'),),
        (("int", "{"),),
        (("int", 'bson:"'),),
        (("integer", "1"),),
        (("text; drop", "1"),),
    ],
)
def test_a_position_that_is_none_of_ours_is_refused(
    served: Source, session: Session, values: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(InvalidRequestError, match="position"):
        list(session.read(filled(served, session, [])[0], Position(values)))


KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(width=16),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-100, max_value=100).map(Decimal128),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.binary(min_size=3, max_size=3),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
    st.integers(-62_135_000_000_000, 253_402_000_000_000).map(DatetimeMS),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(KEYS, max_size=25),
    extra=st.dictionaries(st.sampled_from("xyz"), KEYS, max_size=3),
    stops=st.lists(st.integers(1, 5), max_size=6),
    page_bytes=st.integers(1, 120),
)
def test_random_documents_stopped_at_random_are_all_there_once(
    served: Source, session: Session, keys: list[Any], extra: dict[str, Any], stops: list[int], page_bytes: int
) -> None:
    """The property that a resumable read stands for."""
    documents = [{"_id": key, "n": n, **extra} for n, key in enumerate(keys)]
    query, stored = filled(served, session, documents, page_bytes)
    whole = b",".join(page.body for page in session.read(query, None))
    bodies, position = [], None
    for stop in [*stops, None]:
        for page in islice(session.read(query, position), stop):
            bodies.append(page.body)
            position = page.position
    assert b",".join(bodies) == whole
    assert sorted(row["n"] for row in json.loads(b"[" + whole + b"]")) == stored
