"""Tables that change while a job reads them: what one snapshot saw, exactly, and what a resumed read promises."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from fetcher.core.faults import Point
from tests.databases import KINDS, NAMES, Database
from tests.faultproxy import faulty
from tests.integration.test_crashes import finished, killed
from tests.rig import EXTRACT, Rig, until, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

ROWS = 25_000
WIDTH = 400
FIELDS = ["id", "version", "note"]
"""Wide enough that a first part of 8 MiB is stored well before the end."""
Contents = dict[int, int]
"""Version by id."""


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, service: Rig, stack: Stack) -> Database:
    found = Database.of(stack, request.param)
    if found.kind == "mysql" and found.kind not in _registered:
        found.register(service, NAMES[found.kind], found.at["port"])
        _registered.add(found.kind)
    return found


_registered: set[str] = set()

one_kind = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
"""Plans and their digests are the same code for every kind."""


class Writer:
    """Commits without a pause: each time an insert, an update and a delete, with the commit's number in row 0."""

    def __init__(self, database: Database) -> None:
        self.log: list[dict[int, int | None]] = []
        self._database = database
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        until(lambda: self.log, "the first commit")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

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
        with closing(self._database.connection()) as connection, connection.cursor() as cursor:
            for number in range(1, ROWS // 2):
                if self._ended.is_set():
                    return
                new, changed, gone = ROWS + number, 2 * number, ROWS - 2 * number + 1
                cursor.execute(f"INSERT INTO changing VALUES ({new}, {number}, 'new')")
                cursor.execute(f"UPDATE changing SET version = {number} WHERE id IN (0, {changed})")
                cursor.execute(f"DELETE FROM changing WHERE id = {gone}")
                connection.commit()
                self.log.append({new: number, 0: number, changed: number, gone: None})


@contextmanager
def late(database: Database) -> Iterator[Any]:
    """A row that was written before the read, and is committed by the caller."""
    with closing(database.connection()) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO changing VALUES (-1, 1, 'late')")
        yield connection


def posted(service: Rig, database: Database, name: str, correlation: str, fields: list[str]) -> str:
    table = "public.changing" if database.kind == "postgresql" else "changing"
    answer = service.post(
        {
            "dataRequest": {"mappedFields": {name: {table: fields}}},
            "metadata": {"source": "payments", "correlationId": f"{correlation} {database.kind}"},
        }
    )
    assert answer.status == 202, answer
    return str(answer.json()["jobId"])


def rows_of(body: bytes) -> list[Mapping[str, Any]]:
    ((table,),) = (tables.values() for tables in json.loads(body).values())
    return list(table)


def datasource(service: Rig, job_id: str) -> Any:
    return service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()["datasources"][0]


def test_the_result_is_what_one_snapshot_saw(service: Rig, database: Database) -> None:
    """R-002-1, R-002-87: the table after exactly so many commits, of a writer that never pauses; nothing of a
    transaction that was open when the read began and committed during it.
    """
    database.fill("changing", ROWS, WIDTH)
    database.run("INSERT INTO changing VALUES (0, 0, 'commits')")
    name = f"changing_{database.kind}"
    with faulty(database.at["host"], database.at["port"]) as proxy, Writer(database) as writer, late(database) as other:
        database.register(service, name, proxy.port)
        job_id = posted(service, database, name, "snapshot", FIELDS)
        worker = threading.Thread(target=service.invoke, args=(EXTRACT, work_event(job_id)))
        proxy.rate, before = 8_000_000, proxy.passed
        worker.start()
        until(lambda: proxy.passed - before > 1_000_000, "a part of the rows", 60)
        other.commit()
        worker.join()
    rows = rows_of(service.result(service.job(job_id)))
    seen = {row["id"]: row["version"] for row in rows}
    commits = seen[0]
    assert len(seen) == len(rows)
    assert [row["id"] for row in rows] == sorted(seen)
    assert 0 < commits < len(writer.log)
    assert seen == writer.state(commits)
    assert database.run("SELECT count(*) FROM changing WHERE id = -1")[0][0] == 1
    manifest = datasource(service, job_id)
    assert (manifest["snapshots"], manifest["isolation"]) == (1, "repeatable read")


def stopped(service: Rig, database: Database, correlation: str, fields: list[str]) -> tuple[str, int]:
    """Let a worker die behind its first part; return the job and the key at which the next one goes on."""
    job_id = posted(service, database, NAMES[database.kind], correlation, fields)
    killed(service, job_id, Point.PART_STORED)
    item = next(item for item in service.items() if item.get("extractionId") == {"S": job_id} and "checkpoint" in item)
    ((pair),) = item["checkpoint"]["M"]["mark"]["M"]["position"]["L"]
    return job_id, int(pair["L"][1]["S"])


def test_a_resumed_read_has_each_row_behind_its_position_once(service: Rig, database: Database) -> None:
    """R-002-2, R-002-3, R-002-19: rows before the position as the first snapshot saw them, rows behind it as the
    second does; the manifest says that there were two.
    """
    database.fill("changing", ROWS, WIDTH)
    job_id, at = stopped(service, database, "resumed", FIELDS)
    assert 10 < at < ROWS - 10
    database.run(
        "INSERT INTO changing VALUES (-5, 9, 'before')",
        f"UPDATE changing SET version = 9 WHERE id IN ({at - 3}, {at}, {at + 1}, {at + 7})",
        f"DELETE FROM changing WHERE id IN ({at - 2}, {at + 2})",
        f"UPDATE changing SET id = {2 * ROWS} WHERE id = {at - 4}",
        f"UPDATE changing SET id = -6 WHERE id = {at + 4}",
        f"INSERT INTO changing VALUES ({2 * ROWS + 1}, 9, 'behind')",
    )
    rows = rows_of(finished(service, job_id))
    expected = dict.fromkeys(range(1, ROWS + 1), 0)
    expected |= {at + 1: 9, at + 7: 9, 2 * ROWS: 0, 2 * ROWS + 1: 9}
    del expected[at + 2], expected[at + 4]
    assert [(row["id"], row["version"]) for row in rows] == sorted(expected.items())
    assert datasource(service, job_id)["snapshots"] == 2


@one_kind
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("ALTER TABLE changing ADD COLUMN extra integer", ["*"]),
        ("ALTER TABLE changing DROP CONSTRAINT changing_pkey", FIELDS),
    ],
    ids=["a column more", "no key"],
)
def test_a_table_of_another_shape_is_read_from_the_beginning(
    service: Rig, database: Database, change: str, fields: list[str]
) -> None:
    """R-002-13: another plan has another digest, and the old checkpoint is not used."""
    database.fill("changing", ROWS, WIDTH)
    job_id, _ = stopped(service, database, change, fields)
    database.run(change, "UPDATE changing SET version = 9 WHERE id = 1")
    rows = rows_of(finished(service, job_id))
    assert sorted((row["id"], row["version"]) for row in rows)[:2] == [(1, 9), (2, 0)]
    assert len(rows) == ROWS
    assert datasource(service, job_id)["snapshots"] == 1


@one_kind
def test_a_table_that_was_emptied_gives_nothing_more(service: Rig, database: Database) -> None:
    """R-002-10: TRUNCATE changes rows and no plan; what was stored stays, as one of two moments in the manifest."""
    database.fill("changing", ROWS, WIDTH)
    job_id, at = stopped(service, database, "emptied", FIELDS)
    database.run("TRUNCATE TABLE changing", f"INSERT INTO changing VALUES ({at}, 0, 'again'), ({at + 1}, 0, 'new')")
    assert [row["id"] for row in rows_of(finished(service, job_id))] == list(range(1, at + 2))
    assert datasource(service, job_id)["snapshots"] == 2


@one_kind
@pytest.mark.parametrize("change", ["DROP TABLE changing", "ALTER TABLE changing DROP COLUMN version"])
def test_a_table_that_went_fails_the_job_as_invalid(service: Rig, database: Database, change: str) -> None:
    """R-000-21: and says which."""
    database.fill("changing", ROWS, WIDTH)
    job_id, _ = stopped(service, database, change, FIELDS)
    database.run(change)

    def failed() -> Any:
        service.sweep()
        service.work()
        job = service.job(job_id)
        assert job["status"] != "completed", job
        return job if job["status"] == "failed" else None

    error = until(failed, "the end", 40)["error"]
    assert (error["family"], error["datasource"]) == ("invalid", NAMES[database.kind])
    assert not [key for key in [*service.objects(), *service.uploads()] if job_id in key]
