"""Whatever the table, the pages and the stops: what MySQL delivers is the table, in the order of its own collation."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.engines import engine
from fetcher.model import Position, Query
from tests.contract.kinds import Source

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["a", "A", "ä", "a ", "\\", "'"]
)
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "varchar(9)": WORDS,
    "varchar(9) COLLATE utf8mb4_bin": WORDS,
    "varchar(9) COLLATE utf8mb4_unicode_ci": WORDS,
    "decimal(13,3)": st.decimals(-(10**9), 10**9, allow_nan=False, places=3),
    "date": st.dates(),
    "varbinary(9)": st.binary(max_size=4),
    "enum('z','a','m')": st.sampled_from("zam"),
    "bit(5)": st.integers(0, 31),
}
PLAIN = {"bit(5)": "LPAD(BIN({0} + 0), 5, '0')", "varbinary(9)": "TO_BASE64({0})"}

Rows = list[tuple[Any, ...]]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], int, Rows]:
    """Draw column types, how many of the first columns are the key, and rows."""
    keys = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    others = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=3))
    values = [TYPES[name] for name in keys] + [TYPES[name] | st.none() for name in others]
    return [*keys, *others], len(keys), draw(st.lists(st.tuples(*values), max_size=25))


def literal(value: Any) -> str:
    match value:
        case None | int():
            return "NULL" if value is None else str(value)
        case bytes():
            return f"X'{value.hex()}'"
        case _:
            return f"_utf8mb4 X'{str(value).encode().hex()}'"


def create(source: Source, types: Sequence[str], keys: int, rows: Rows) -> None:
    """Let the server drop the rows whose keys its collation takes for one."""
    columns = ", ".join(f"c{at} {declared}" for at, declared in enumerate(types))
    key = ", ".join(f"c{at}" for at in range(keys))
    source.run(f"CREATE OR REPLACE TABLE random ({columns}, PRIMARY KEY ({key}))")
    if rows:
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
        source.run(f"INSERT IGNORE INTO random VALUES {values}")


def read_with_stops(source: Source, page_bytes: int, stops: Sequence[int]) -> bytes:
    """Read in as many sessions as there are stops, each left after some pages and resumed by the next."""
    bodies: list[bytes] = []
    position: Position | None = None
    for stop in [*stops, 10**6]:
        with engine("mysql").connect(source.to, source.secret, seconds=60, application="property") as session:
            table = session.discover(()).tables["random",]
            columns = {column.name: column for column in table.columns}
            key = tuple(map(columns.__getitem__, table.key))
            query = Query("random", table.path, table.columns, key, page_bytes=page_bytes)
            for count, page in enumerate(session.read(query, position), 1):
                bodies.append(page.body)
                position = page.position
                if count == stop:
                    break
    return b"[" + b",".join(bodies) + b"]"


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mysql")


@settings(max_examples=40, deadline=None)
@given(table=tables(), page_bytes=st.integers(1, 400), stops=st.lists(st.integers(1, 4), max_size=3))
def test_delivered_rows_are_the_table(
    served: Source, table: tuple[list[str], int, Rows], page_bytes: int, stops: list[int]
) -> None:
    """R-002-18..22: composite keys, NULLs and odd values; any page size, stopped and resumed anywhere."""
    types, keys, rows = table
    create(served, types, keys, rows)
    delivered = json.loads(read_with_stops(served, page_bytes, stops))
    listed = ", ".join(PLAIN.get(declared, "CONCAT({0})").format(f"c{at}") for at, declared in enumerate(types))
    order = ", ".join(f"c{at}" for at in range(keys))
    expected = served.run(f"SELECT {listed} FROM random ORDER BY {order}")
    shown = [tuple(None if value is None else str(value) for value in row.values()) for row in delivered]
    assert shown == [tuple(row) for row in expected]
