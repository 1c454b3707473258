"""A wire that breaks under a job, through the whole service: tried again from the checkpoint, or failed with reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.databases import KINDS, Database
from tests.faultproxy import FaultProxy, faulty
from tests.rig import Rig
from tests.stack import Stack

pytestmark = pytest.mark.stack

ROWS = 220_000
"""Of 170 bytes in the result, so that parts of 8 MiB are stored well before the wire breaks, whatever is on its way."""
BREAK = 26_000_000


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, stack: Stack) -> Database:
    return Database.of(stack, request.param)


@contextmanager
def behind_a_proxy(service: Rig, database: Database, name: str, rows: int = ROWS) -> Iterator[FaultProxy]:
    database.fill("wires", rows)
    with faulty(database.at["host"], database.at["port"]) as proxy:
        database.register(service, name, proxy.port)
        yield proxy


def post(service: Rig, database: Database, name: str, correlation: str) -> str:
    """Post a job that reads all of `wires`."""
    table = "public.wires" if database.kind == "postgresql" else "wires"
    return service.posted({name: {table: ["*"]}}, correlation)


def worked(service: Rig, job_id: str, **env: str) -> Any:
    """Let one worker take the job; return it as it is then."""
    service.work(**env)
    return service.job(job_id)


def test_a_wire_that_is_cut_inside_a_row_costs_a_try_and_no_byte(service: Rig, database: Database) -> None:
    """R-002-3, R-002-63, B-19: in the same attempt, from the checkpoint, to the same bytes."""
    name = f"cut_{database.kind}"
    with behind_a_proxy(service, database, name) as proxy:
        calm = service.result(worked(service, post(service, database, name, "calm")))
        job_id = post(service, database, name, "cut")
        proxy.alone, proxy.after, proxy.fault = True, BREAK, "rst"
        job = worked(service, job_id)
    assert proxy.broken.is_set()
    assert (job["status"], job["attempts"]) == ("completed", 1), job
    assert service.result(job) == calm
    manifest = service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()
    assert manifest["retries"] == 1
    assert manifest["datasources"][0]["snapshots"] == 2


def test_a_wire_that_stays_silent_fails_the_job_as_unavailable(service: Rig, stack: Stack) -> None:
    """R-002-63: five tries, each given up by the watchdog, then an end with its reason and nothing stored."""
    database = Database.of(stack, "mysql")
    with behind_a_proxy(service, database, "silent") as proxy:
        job_id = post(service, database, "silent", "silent")
        proxy.after, proxy.fault = BREAK, "stall"
        job = worked(service, job_id, FETCHER_STALL_SECONDS="1")
    assert (job["status"], job["error"]["family"], job["attempts"]) == ("failed", "unavailable", 1), job
    assert not [key for key in [*service.objects(), *service.uploads()] if job_id in key]


def test_the_deadline_is_a_timeout_that_nobody_tries_again(service: Rig, stack: Stack) -> None:
    """Design §6, clock: it ends the conversation on the silent wire, and with it the job."""
    database = Database.of(stack, "postgresql")
    with behind_a_proxy(service, database, "endless") as proxy:
        job_id = post(service, database, "endless", "endless")
        proxy.alone, proxy.after, proxy.fault = True, BREAK, "stall"
        report = service.work(FETCHER_EXTRACTION_SECONDS="6")
        job = service.job(job_id)
        assert report is not None
        assert (job["status"], job["error"]["family"], job["attempts"]) == ("failed", "timeout", 1), job
        assert "trying again" not in report.log
        assert service.work() is None
        active = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fetcher-{}'"
        assert database.run(active.format(job_id)) == [(0,)]
