"""Whatever the table, the pages and the stops: what is delivered is the table, in key order, once."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetcher.engines import engine
from fetcher.model import Column, Position, Query, Table
from fetcher.ports import Session
from tests.contract.kinds import Source

INTEGERS = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
DIGITS = st.decimals(allow_nan=True, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": INTEGERS,
    "text": WORDS | st.sampled_from(["", "NULL", "\\", '"', "%s", "a", "A", "ä", "\n"]),
    "numeric": DIGITS.map(lambda number: "NaN" if number.is_nan() else number),
    "boolean": st.booleans(),
    "date": st.dates(),
}

Opener = Callable[[], AbstractContextManager[Session]]
Rows = list[tuple[Any, ...]]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], int, Rows]:
    """Draw column types, how many of the first columns are the key, and rows with distinct keys."""
    keys = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    others = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=3))
    values = [TYPES[name] for name in keys] + [TYPES[name] | st.none() for name in others]
    rows: Rows = draw(st.lists(st.tuples(*values), max_size=25, unique_by=lambda row: str(row[: len(keys)])))
    return [*keys, *others], len(keys), rows


def literal(value: Any, declared: str) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + f"'::{declared}"


def create(source: Source, types: Sequence[str], keys: int, rows: Rows) -> None:
    columns = ", ".join(f"c{at} {declared}" for at, declared in enumerate(types))
    key = ", ".join(f"c{at}" for at in range(keys))
    source.run(f"DROP TABLE IF EXISTS random; CREATE UNLOGGED TABLE random ({columns}, PRIMARY KEY ({key}))")
    if rows:
        values = ", ".join(f"({', '.join(map(literal, row, types))})" for row in rows)
        source.run(f"INSERT INTO random VALUES {values} ON CONFLICT DO NOTHING")


def plain(value: Any) -> str | None:
    """Bring a JSON value to the text in which the database shows it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


@pytest.fixture(scope="module")
def opener(source: Source) -> Opener:
    return lambda: engine(source.to.kind).connect(source.to, source.secret, seconds=60, application="property")


def query_of(table: Table, page_bytes: int) -> Query:
    def column(name: str) -> Column:
        return next(column for column in table.columns if column.name == name)

    return Query("random", table.path, table.columns, tuple(map(column, table.key)), page_bytes=page_bytes)


def read_with_stops(opener: Opener, source: Source, page_bytes: int, stops: Sequence[int]) -> list[bytes]:
    """Read in as many sessions as there are stops, each left after some pages and resumed by the next."""
    bodies: list[bytes] = []
    position: Position | None = None
    for stop in [*stops, 10**6]:
        with opener() as session:
            session_pages = pages_of(session, source, page_bytes, position, stop)
        bodies += [body for body, _ in session_pages]
        position = session_pages[-1][1] if session_pages else position
    return bodies


def pages_of(
    session: Session, source: Source, page_bytes: int, after: Position | None, stop: int
) -> list[tuple[bytes, Position | None]]:
    path = (source.default_schema, "random")
    query = query_of(session.discover(()).tables[path], page_bytes)
    pages: list[tuple[bytes, Position | None]] = []
    for page in session.read(query, after):
        pages.append((page.body, page.position))
        if len(pages) == stop:
            break
    return pages


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), page_bytes=st.integers(1, 400), stops=st.lists(st.integers(1, 4), max_size=3))
def test_delivered_rows_are_the_table(
    source: Source, opener: Opener, table: tuple[list[str], int, Rows], page_bytes: int, stops: list[int]
) -> None:
    """R-002-18..22: ties, composite keys, NULLs and odd values; any page size, stopped and resumed anywhere."""
    types, keys, rows = table
    create(source, types, keys, rows)
    bodies = read_with_stops(opener, source, page_bytes, stops)
    delivered = json.loads(b"[" + b",".join(bodies) + b"]")
    listed = ", ".join(f"c{at}::text" for at in range(len(types)))
    order = ", ".join(f"random.c{at}" for at in range(keys))
    expected = source.run(f"SELECT {listed} FROM random ORDER BY {order}")
    assert [tuple(map(plain, row.values())) for row in delivered] == [tuple(row) for row in expected]
