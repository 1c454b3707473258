"""A table whose definition changes while a job has its plan and has not read it: the job reads again, whole."""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fetcher.engines._sqlserver.driver import SETTINGS
from tests.cloud import Cloud, cloud
from tests.cloudproxy import Fault
from tests.contract.kinds import Source, sqlserver
from tests.databases import register_sqlserver
from tests.rig import EXTRACT, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

NAME, ROWS = "my_sqlserver", 60_000
"""Of more than 8 MiB, so that a first part and its checkpoint are stored before the session looks again."""


def table(kind: str, value: str) -> str:
    """Make the table anew; the stand-in's catalog does not follow an ALTER."""
    return (
        f"DROP TABLE IF EXISTS replanned; CREATE TABLE replanned (id bigint NOT NULL PRIMARY KEY, version {kind},"
        f" note nvarchar(200)); INSERT INTO replanned SELECT value, {value}, REPLICATE('x', 150)"
        f" FROM GENERATE_SERIES(1, {ROWS})"
    )


NUMBER = table("int", "0")
TEXT = table("nvarchar(99)", """'1},{"id":99'""")


@pytest.fixture(scope="module")
def served() -> Iterator[Source]:
    """A kind that cannot hold its tables: SQL Server's stand-in, by Microsoft's driver."""
    with sqlserver.serving() as source:
        yield source


@pytest.fixture(scope="module")
def at(stack: Stack, served: Source, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud(stack, tmp_path_factory.mktemp("changed"), {SETTINGS: os.environ[SETTINGS]}) as made:
        register_sqlserver(made, NAME, served)
        yield made


@pytest.mark.parametrize(("changes", "version"), [((TEXT,), '1},{"id":99'), ((TEXT, NUMBER), 0)])
def test_a_table_that_changes_between_plan_and_read_is_read_anew(
    at: Cloud, served: Source, changes: Sequence[str], version: Any
) -> None:
    """R-000-21, R-002-1: nothing of the false plan stays, not even when that plan is true again at the next try."""
    served.run(NUMBER)
    body = {
        "dataRequest": {"mappedFields": {NAME: {"replanned": ["id", "version", "note"]}}},
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
                served.run(change)
                proxy.release.set()
                if change is not changes[-1]:
                    proxy.arm(Fault("dynamodb:UpdateItem try again", "held"))
        finally:
            proxy.release.set()
        assert working.result().payload == {"batchItemFailures": []}
    job = at.job(job_id)
    assert (job["status"], job["rowCount"]) == ("completed", ROWS), job
    rows = json.loads(at.result(job))[NAME]["replanned"]
    assert [row["id"] for row in rows] == list(range(1, ROWS + 1))
    assert {row["version"] for row in rows} == {version}
    assert at.record(job_id)["retries"] == {"N": "1"}
