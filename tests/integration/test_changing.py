"""Tables that change while a job reads them: what one snapshot saw, exactly, and what a resumed read promises.

PostgreSQL and MySQL. The other kinds are in `test_changing_emulated.py` and `test_changing_mongodb.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import pytest

from tests.changing import (
    BEHIND,
    COUNTED,
    FIELDS,
    LAST,
    LATE,
    ROWS,
    TABLE,
    WIDTH,
    Commit,
    Writer,
    changes,
    datasource,
    is_one_moment,
    owed,
    slowly,
    stopped,
    tables_of,
)
from tests.databases import KINDS, NAMES, Database
from tests.faultproxy import faulty
from tests.integration.test_crashes import finished
from tests.rig import Rig, until
from tests.stack import Stack

pytestmark = pytest.mark.stack


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


def commits(database: Database) -> Callable[[], AbstractContextManager[Commit]]:
    """Open a connection of a writer's own."""

    @contextmanager
    def opened() -> Iterator[Commit]:
        with closing(database.connection()) as connection, connection.cursor() as cursor:

            def commit(statements: Sequence[str]) -> None:
                for statement in statements:
                    cursor.execute(statement)
                connection.commit()

            yield commit

    return opened


@contextmanager
def late(database: Database) -> Iterator[Any]:
    """Rows that were written before the read, and are committed by the caller."""
    with closing(database.connection()) as connection, connection.cursor() as cursor:
        for statement in LATE:
            cursor.execute(statement)
        yield connection


def asked(database: Database, fields: list[str]) -> dict[str, list[str]]:
    """The table as a request names it."""
    return {f"{'public.' if database.kind == 'postgresql' else ''}{TABLE}": fields}


def begun(service: Rig, database: Database, correlation: str, fields: list[str]) -> tuple[str, int]:
    """Let a worker die behind its first part; return the job and the key at which the next one goes on."""
    job_id = service.posted({NAMES[database.kind]: asked(database, fields)}, f"{correlation} {database.kind}")
    key, _ = stopped(service, job_id)
    return job_id, int(key)


def test_the_result_is_what_one_snapshot_saw(service: Rig, database: Database) -> None:
    """R-002-1, R-002-87: two tables after exactly so many commits, of a writer that never pauses; nothing of a
    transaction that was open when the read began and committed during it.
    """
    database.fill(TABLE, ROWS, WIDTH)
    database.run(*COUNTED)
    name = f"changing_{database.kind}"
    with (
        faulty(database.at["host"], database.at["port"]) as proxy,
        Writer(commits(database)) as writer,
        late(database) as other,
    ):
        database.register(service, name, proxy.port)
        job_id = service.posted({name: {TABLE: FIELDS, LAST: ["version"]}}, f"snapshot {name}")
        with slowly(service, job_id, proxy):
            other.commit()
            writer.goes_on()
    is_one_moment(writer, *tables_of(service.result(service.job(job_id))))
    assert database.run("SELECT count(*) FROM changing WHERE note = 'late'")[0][0] == len(LATE)
    manifest = datasource(service, job_id)
    assert (manifest["snapshots"], manifest["isolation"]) == (1, "repeatable read")


def test_a_resumed_read_has_each_row_behind_its_position_once(service: Rig, database: Database) -> None:
    """R-002-2, R-002-3, R-002-19: rows before the position as the first snapshot saw them, rows behind it as the
    second does, those of a transaction that was open meanwhile too; the manifest says that there were two.
    """
    database.fill(TABLE, ROWS, WIDTH)
    with late(database) as other:
        job_id, at = begun(service, database, "resumed", FIELDS)
        other.commit()
    assert 10 < at < ROWS - 10
    database.run(*changes(at))
    (rows,) = tables_of(finished(service, job_id))
    assert [(row["id"], row["version"]) for row in rows] == [*owed(at), (BEHIND, 1)]
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
    job_id, _ = begun(service, database, change, fields)
    database.run(change, "UPDATE changing SET version = 9 WHERE id = 1")
    rows = tables_of(finished(service, job_id))[0]
    assert sorted((row["id"], row["version"]) for row in rows)[:2] == [(1, 9), (2, 0)]
    assert len(rows) == ROWS
    assert datasource(service, job_id)["snapshots"] == 1


@one_kind
def test_a_table_that_was_emptied_gives_nothing_more(service: Rig, database: Database) -> None:
    """R-002-10: TRUNCATE changes rows and no plan; what was stored stays, as one of two moments in the manifest."""
    database.fill("changing", ROWS, WIDTH)
    job_id, at = begun(service, database, "emptied", FIELDS)
    database.run("TRUNCATE TABLE changing", f"INSERT INTO changing VALUES ({at}, 0, 'again'), ({at + 1}, 0, 'new')")
    assert [row["id"] for row in tables_of(finished(service, job_id))[0]] == list(range(1, at + 2))
    assert datasource(service, job_id)["snapshots"] == 2


@one_kind
@pytest.mark.parametrize("change", ["DROP TABLE changing", "ALTER TABLE changing DROP COLUMN version"])
def test_a_table_that_went_fails_the_job_as_invalid(service: Rig, database: Database, change: str) -> None:
    """R-000-21: and says which."""
    database.fill("changing", ROWS, WIDTH)
    job_id, _ = begun(service, database, change, FIELDS)
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
