"""Memory is O(page), whatever the size of a table or of its rows; measured in a process of its own."""

import os
import subprocess
import sys

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
