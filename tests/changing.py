"""A table that changes while it is read: who changes it, what it was after each commit, and what a resume owes.

The SQL is what every SQL kind, and what stands in for one, understands.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fetcher.core.faults import Point
from tests.faultproxy import FaultProxy
from tests.integration.test_crashes import killed
from tests.rig import EXTRACT, Rig, until, work_event

ROWS = 25_000
WIDTH = 400
FIELDS = ["id", "version", "note"]
"""Wide enough that a first part of 8 MiB is stored well before the end."""
TABLE, LAST = "changing", "changing_last"
"""`changing_last` is read last; its one row has the number of the last commit, as row 0 of `changing` has."""

Contents = dict[int, int]
"""Version by id."""
Commit = Callable[[Sequence[str]], None]
"""Run statements in one transaction."""


class Writer:
    """Commits without a pause: each time an insert, an update and a delete, with the commit's number in row 0.

    `commits` opens a connection for the writer's thread.
    """

    def __init__(self, commits: Callable[[], AbstractContextManager[Commit]]) -> None:
        self.log: list[dict[int, int | None]] = []
        self._commits = commits
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def goes_on(self, commits: int = 1) -> None:
        """Wait for so many more commits."""
        before = len(self.log)
        until(lambda: len(self.log) >= before + commits, f"{commits} commits")

    def state(self, commits: int) -> Contents:
        """Return the table as it was after so many commits."""
        contents: Contents = {0: 0, **dict.fromkeys(range(1, ROWS + 1), 0)}
        for changes in self.log[:commits]:
            for key, version in changes.items():
                if version is None:
                    del contents[key]
                else:
                    contents[key] = version
        return contents

    def _write(self) -> None:
        with self._commits() as commit:
            for number in range(1, ROWS // 2):
                if self._ended.is_set():
                    return
                new, changed, gone = ROWS + number, 2 * number, ROWS - 2 * number + 1
                commit(
                    [
                        f"INSERT INTO {TABLE} VALUES ({new}, {number}, 'new')",
                        f"UPDATE {TABLE} SET version = {number} WHERE id IN (0, {changed})",
                        f"DELETE FROM {TABLE} WHERE id = {gone}",
                        f"UPDATE {LAST} SET version = {number}",
                    ]
                )
                self.log.append({new: number, 0: number, changed: number, gone: None})


COUNTED = (
    f"INSERT INTO {TABLE} VALUES (0, 0, 'commits')",
    f"DROP TABLE IF EXISTS {LAST}",
    f"CREATE TABLE {LAST} (id bigint NOT NULL PRIMARY KEY, version int NOT NULL)",
    f"INSERT INTO {LAST} VALUES (1, 0)",
)
"""What a writer needs beside the table."""


BEFORE, BEHIND = -1, 2 * ROWS + 2
LATE = (
    f"INSERT INTO {TABLE} VALUES ({BEFORE}, 1, 'late')",
    f"INSERT INTO {TABLE} VALUES ({BEHIND}, 1, 'late')",
)
"""What a transaction has written that is open when a read begins, and commits during it: before all rows and behind."""


def is_one_moment(writer: Writer, rows: Sequence[Mapping[str, Any]], last: Sequence[Mapping[str, Any]]) -> None:
    """Check that both tables are as they were after exactly so many commits, of which there were others later."""
    seen = {row["id"]: row["version"] for row in rows}
    commits = seen[0]
    assert len(seen) == len(rows)
    assert [row["id"] for row in rows] == sorted(seen)
    assert 0 < commits < len(writer.log)
    assert seen == writer.state(commits)
    assert [row["version"] for row in last] == [commits]


def changes(at: int) -> list[str]:
    """Change rows before and behind the position of a read that stopped at the key `at`, and that key's own."""
    return [
        f"INSERT INTO {TABLE} VALUES (-5, 9, 'before')",
        f"UPDATE {TABLE} SET version = 9 WHERE id IN ({at - 3}, {at}, {at + 1}, {at + 7})",
        f"DELETE FROM {TABLE} WHERE id IN ({at - 2}, {at + 2})",
        f"UPDATE {TABLE} SET id = {2 * ROWS} WHERE id = {at - 4}",
        f"UPDATE {TABLE} SET id = -6 WHERE id = {at + 4}",
        f"INSERT INTO {TABLE} VALUES ({2 * ROWS + 1}, 9, 'behind')",
    ]


def owed(at: int) -> list[tuple[int, int]]:
    """What a resumed read delivers after these changes: what it had, and each row behind its position once."""
    expected = dict.fromkeys(range(1, ROWS + 1), 0)
    expected |= {at + 1: 9, at + 7: 9, 2 * ROWS: 0, 2 * ROWS + 1: 9}
    del expected[at + 2], expected[at + 4]
    return sorted(expected.items())


# --- through the service


@contextmanager
def slowly(service: Rig, job_id: str, proxy: FaultProxy) -> Iterator[None]:
    """Let a worker read at 8 MB a second; go on when it has a part of the rows, and wait for its end."""
    worker = threading.Thread(target=service.invoke, args=(EXTRACT, work_event(job_id)))
    proxy.rate, before = 8_000_000, proxy.passed
    worker.start()
    until(lambda: proxy.passed - before > 1_000_000, "a part of the rows", 60)
    yield
    worker.join()


def stopped(service: Rig, job_id: str) -> tuple[str, int]:
    """Let a worker die behind its first part; return the key's text at which the next one goes on, and its rows."""
    killed(service, job_id, Point.PART_STORED)
    item = next(item for item in service.items() if item.get("extractionId") == {"S": job_id} and "checkpoint" in item)
    mark = item["checkpoint"]["M"]["mark"]["M"]
    ((pair),) = mark["position"]["L"]
    return pair["L"][1]["S"], sum(int(rows["N"]) for rows in mark["rows"]["L"])


def tables_of(body: bytes) -> list[list[Mapping[str, Any]]]:
    """Return the rows of each table, in the order of the result."""
    (tables,) = json.loads(body).values()
    return list(tables.values())


def datasource(service: Rig, job_id: str) -> Any:
    """Return what the manifest says of the job's datasource."""
    return service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()["datasources"][0]
