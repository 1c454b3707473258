"""A table whose definition changes while a job has its plan and has not read it: the job reads again, whole."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cloud import Cloud
from tests.cloudproxy import Fault
from tests.databases import Database
from tests.rig import EXTRACT, work_event
from tests.scenarios import clouded
from tests.stack import Stack

pytestmark = pytest.mark.stack

TABLE, NAME, ROWS = "replanned", "my_mariadb", 60_000
"""Of more than 8 MiB, so that a first part and its checkpoint are stored before the session looks again."""

TO_TEXT = (f"ALTER TABLE {TABLE} MODIFY version varchar(99)", f"UPDATE {TABLE} SET version = '1}},{{\"id\":99'")
BACK = (f"UPDATE {TABLE} SET version = '0'", f"ALTER TABLE {TABLE} MODIFY version integer")


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("changed")) as made:
        database = Database.of(stack, "mysql")
        database.register(made, NAME, database.at["port"])
        yield made


@pytest.mark.parametrize(("changes", "version"), [((TO_TEXT,), '1},{"id":99'), ((TO_TEXT, BACK), 0)])
def test_a_table_that_changes_between_plan_and_read_is_read_anew(
    at: Cloud, stack: Stack, changes: Sequence[Sequence[str]], version: Any
) -> None:
    """R-000-21, R-002-1: nothing of the false plan stays, not even when that plan is true again at the next try."""
    database = Database.of(stack, "mysql")
    database.fill(TABLE, ROWS, width=150)
    body = {
        "dataRequest": {"mappedFields": {NAME: {TABLE: ["id", "version", "note"]}}},
        "metadata": {"source": "payments", "correlationId": f"changed {len(changes)}"},
    }
    job_id = at.post(body).json()["jobId"]
    proxy = at.proxies[EXTRACT]
    at.arm({EXTRACT: (Fault("dynamodb:UpdateItem begin an upload", "held"),)})
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(at.invoke, EXTRACT, work_event(job_id))
        try:
            for change in changes:
                assert proxy.held.wait(120)
                database.run(*change)
                proxy.release.set()
                if change is not changes[-1]:
                    proxy.arm(Fault("dynamodb:UpdateItem try again", "held"))
        finally:
            proxy.release.set()
        assert working.result().payload == {"batchItemFailures": []}
    job = at.job(job_id)
    assert (job["status"], job["rowCount"]) == ("completed", ROWS), job
    rows = json.loads(at.result(job))[NAME][TABLE]
    assert [row["id"] for row in rows] == list(range(1, ROWS + 1))
    assert {row["version"] for row in rows} == {version}
    assert at.record(job_id)["retries"] == {"N": "1"}
