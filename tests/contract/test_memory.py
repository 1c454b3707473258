"""Memory is O(page), whatever the size of a table or of its rows; measured in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from fetcher.engines import engine
from fetcher.errors import LimitError
from fetcher.model import Query
from tests.contract.kinds import HEAVY, MILLION, Source

SCRIPT = """
import os, resource, sys
from fetcher.engines import engine
from fetcher.model import Connection, Query, Secret

kind, host, port, database, user, name = sys.argv[1:]
to = Connection("source", kind, host, int(port), database, user)
with engine(kind).connect(to, Secret(os.environ["PASSWORD"]), seconds=120, application="memory") as session:
    table = next(table for path, table in session.discover(()).tables.items() if path[-1] == name)
    key = tuple(column for column in table.columns if column.name in table.key)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = sum(page.rows for page in session.read(Query(name, table.path, table.columns, key), None))
    print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def peak(source: Source, table: str) -> tuple[int, int]:
    """Read a table and return its rows and the growth of the peak memory, in KiB."""
    to = source.to
    command = [sys.executable, "-c", SCRIPT, to.kind, to.host, str(to.port), to.database, to.user, table]
    environment = {**os.environ, "PASSWORD": source.secret.password}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=200)
    rows, growth = map(int, done.stdout.split())
    return rows, growth


def test_memory_is_flat_over_a_million_rows(source: Source) -> None:
    """R-002-83..85."""
    rows, growth = peak(source, "million")
    assert rows == MILLION
    assert growth < 8 * 1024


def test_memory_is_bounded_by_a_few_rows_when_they_are_of_one_mebibyte(source: Source) -> None:
    """R-002-84: bounded by bytes, so a number of rows alone is no bound."""
    rows, growth = peak(source, "heavy")
    assert rows == HEAVY
    assert growth < 24 * 1024


TALL = 24
"""MiB of a row."""


def test_the_key_of_a_large_row_is_read_without_the_row(sources: Callable[[str], Source]) -> None:
    """R-002-84: parsed for its key, a row of 80 MB took a worker of 512 MB with it."""
    source = sources("postgresql")
    body = f"(SELECT repeat('x', {TALL} * 1024 * 1024))"
    source.run(f"CREATE TABLE tall (id int PRIMARY KEY, body text); INSERT INTO tall VALUES (1, {body}), (2, {body})")
    source.run("CREATE TABLE tall_keyless AS TABLE tall")
    try:
        keyless, keyed = peak(source, "tall_keyless"), peak(source, "tall")
    finally:
        source.run("DROP TABLE tall, tall_keyless")
    assert keyed[0] == keyless[0] == 2
    assert keyed[1] < keyless[1] + TALL * 1024 / 2


def test_a_row_that_no_worker_can_hold_is_a_limit(
    sources: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-000-47: with a key and without; the last that is delivered is the one before."""
    source = sources("postgresql")
    monkeypatch.setattr("fetcher.engines._postgresql.rows.LARGEST", 2**20)
    values = ", ".join(f"({n}, (SELECT repeat('x', {2**20 if n == 3 else 2**19})))" for n in range(1, 5))
    source.run(f"CREATE TABLE tall (id int PRIMARY KEY, body text); INSERT INTO tall VALUES {values}")
    try:
        with engine("postgresql").connect(source.to, source.secret, seconds=60, application="tall") as session:
            table = session.discover(()).tables["public", "tall"]
        for key in (table.columns[:1], ()):
            with engine("postgresql").connect(source.to, source.secret, seconds=60, application="tall") as session:
                pages = session.read(Query("tall", table.path, table.columns, key), None)
                assert next(pages).rows + next(pages).rows == 2
                with pytest.raises(LimitError, match="a row has 1048") as caught:
                    next(pages)
                assert "xx" not in str(caught.value)
    finally:
        source.run("DROP TABLE tall")
