"""Whatever the table, the pages and the stops: what every kind delivers is its table, in its own order, once."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetcher.engines import engine
from fetcher.model import Position
from tests.contract.conftest import Reader
from tests.contract.kinds import Source, shown
from tests.contract.strategies import tables


def read_with_stops(source: Source, name: str, page_bytes: int, stops: Sequence[int]) -> list[dict[str, Any]]:
    """Read in as many sessions as there are stops, each left after some pages and resumed by the next."""
    bodies: list[bytes] = []
    position: Position | None = None
    for stop in [*stops, None]:
        with engine(source.to.kind).connect(source.to, source.secret, seconds=60, application="property") as session:
            query = Reader(session, source).plan(name, page_bytes=page_bytes)
            for page in islice(session.read(query, position), stop):
                bodies.append(page.body)
                position = page.position
    rows: list[dict[str, Any]] = json.loads(b"[" + b",".join(bodies) + b"]")
    return rows


def flat(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Bring the values of a row to text, by their columns' small names; members of a document are columns too."""
    nested = {name: value for each in row.values() if isinstance(each, dict) for name, value in each.items()}
    plain = {name.lower(): value for name, value in row.items() if not isinstance(value, dict)}
    return {name: shown(value) for name, value in {**plain, **nested}.items()}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), page_bytes=st.integers(1, 400), stops=st.lists(st.integers(1, 4), max_size=3))
def test_delivered_rows_are_the_table(source: Source, data: st.DataObject, page_bytes: int, stops: list[int]) -> None:
    """R-002-11, 18..22: ties, composite keys, NULLs and odd values; any page size, stopped and resumed anywhere."""
    types, keys, rows = data.draw(tables(import_module(f"tests.contract.kinds.{source.to.kind}").RANDOM))
    names = [f"c{at}" for at in range(len(types))]
    source.create("random", dict(zip(names, types, strict=True)), names[:keys], rows)
    stored = [tuple(map(shown, row[: len(names)])) for row in source.stored("random", names[:keys])]
    delivered = [flat(row) for row in read_with_stops(source, "random", page_bytes, stops)]
    assert [tuple(row.get(name) for name in names) for row in delivered] == stored
    assert bool(stored) == bool(rows)
