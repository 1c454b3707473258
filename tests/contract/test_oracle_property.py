"""The property of the shared suite in Oracle's words: whatever the table and the stops, each row comes once."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetcher.engines.oracle import connect
from fetcher.model import Column, Position, Query, Table
from tests.contract.kinds import Source
from tests.contract.kinds.oracle import DSN

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4)
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "varchar": WORDS | st.sampled_from(["NULL", "\\", '"', "%s", ":1", "a", "A", "ä", "\n", "a "]),
    "decimal(18, 3)": st.decimals(places=3, min_value=-(10**9), max_value=10**9),
    "timestamp": st.datetimes(),
    "timestamp_s": st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
}
"""On the fake; a text is never empty, as in Oracle, and `timestamp_s` stands for DATE."""

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
    columns = ", ".join(f'"c{at}" {declared}' for at, declared in enumerate(types))
    key = ", ".join(f'"c{at}"' for at in range(keys))
    source.run(f'DROP TABLE IF EXISTS "RANDOM"; CREATE TABLE "RANDOM" ({columns}, PRIMARY KEY ({key}))')
    if rows:
        values = ", ".join(f"({', '.join(map(literal, row, types))})" for row in rows)
        source.run(f'INSERT INTO "RANDOM" VALUES {values} ON CONFLICT DO NOTHING')


def plain(value: Any, declared: str) -> str | None:
    """Bring what DuckDB returns to the form of the result."""
    if value is None:
        return None
    if declared.startswith("timestamp"):
        return str(value.isoformat(timespec="microseconds" if declared == "timestamp" else "seconds"))
    return str(value)


@pytest.fixture
def oracle(sources: Callable[[str], Source]) -> Source:
    if DSN:
        pytest.skip("oracle: makes its tables in the fake")
    return sources("oracle")


def query_of(table: Table, page_bytes: int) -> Query:
    by_name: dict[str, Column] = {column.name: column for column in table.columns}
    return Query("r", table.path, table.columns, tuple(by_name[name] for name in table.key), page_bytes=page_bytes)


def read_with_stops(source: Source, page_bytes: int, stops: Sequence[int]) -> list[bytes]:
    """Read in as many sessions as there are stops, each left after some pages and resumed by the next."""
    bodies: list[bytes] = []
    position: Position | None = None
    for stop in [*stops, 10**6]:
        with connect(source.to, source.secret, seconds=60, application="property") as session:
            query = query_of(session.discover(()).tables["CONTRACT", "RANDOM"], page_bytes)
            for _, page in zip(range(stop), session.read(query, position), strict=False):
                bodies.append(page.body)
                position = page.position
    return bodies


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), page_bytes=st.integers(1, 400), stops=st.lists(st.integers(1, 4), max_size=2))
def test_delivered_rows_are_the_table(
    oracle: Source, table: tuple[list[str], int, Rows], page_bytes: int, stops: list[int]
) -> None:
    """R-002-18..22: ties, composite keys, NULLs and odd values; any page size, stopped and resumed anywhere."""
    types, keys, rows = table
    create(oracle, types, keys, rows)
    delivered = json.loads(b"[" + b",".join(read_with_stops(oracle, page_bytes, stops)) + b"]")
    order = ", ".join(f'"c{at}"' for at in range(keys))
    expected = oracle.run(f'SELECT * FROM "RANDOM" ORDER BY {order}')
    shown = [tuple(None if value is None else str(value) for value in row.values()) for row in delivered]
    assert shown == [tuple(map(plain, row, types)) for row in expected]
