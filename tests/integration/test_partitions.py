"""A worker that AWS does not hear any more: it stops by itself before its lease ends, and another completes the job.

The proxy notes when each call came, and lets through all that is not spoilt: so what the worker would still do, it
would be seen to do.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cloud import Cloud, cloud, detailed
from tests.cloudproxy import Call, CloudProxy, Fault, between
from tests.envelope import Envelope, Report
from tests.integration.test_bounds import source
from tests.rig import EXTRACT, Rig, until, work_event
from tests.scenarios import named
from tests.stack import Stack

pytestmark = pytest.mark.stack

LEASE = 3
SAFE = LEASE * 5 / 6
"""Seconds after its last renewal in which a worker may act; at the arrival of what it did it has less."""

BEAT, RENEW = "dynamodb:UpdateItem beat", "dynamodb:UpdateItem renew a slot"
PART, WHOLE = "s3:UploadPart results", "s3:PutObject results"
TAKE, FREE = "dynamodb:UpdateItem take a slot", "dynamodb:UpdateItem free a slot"
READS = ("GetItem", "Query", "GetObject", "HeadObject", "ListObjects")

TABLES = {
    "rows": "SELECT n AS id, pg_sleep(seconds)::text AS text FROM generate_series(1, 10) n, {pace}",
    "bytes": "SELECT n AS id, repeat('x', 16384) || CASE WHEN n > 600 THEN pg_sleep(seconds / 50)::text ELSE '' END"
    " AS text FROM generate_series(1, 1100) n, {pace}",
    "silence": "SELECT n AS id, pg_sleep(seconds * 100)::text AS text FROM generate_series(1, 1) n, {pace}",
}
"""Four seconds of rows; a part at once and the next four seconds later; and nothing at all. `pace` says how fast."""


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    calm = {"FETCHER_LEASE_SECONDS": "60", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "30"}
    with cloud(stack, tmp_path_factory.mktemp("partitions"), calm) as made:
        assert made.register().status == 201
        with source(made) as database:
            database.execute(f"CREATE TABLE {named(made, 'pace')} AS SELECT 0.0::float8 AS seconds".encode())
            for name, sql in TABLES.items():
                made_of = sql.format(pace=named(made, "pace"))
                database.execute(f"CREATE VIEW {named(made, name)} AS {made_of}".encode())
        yield made


class Partitioned:
    """A worker with a lease of seconds, warm, and what came from it since its job was handed to it, by time."""

    def __init__(self, at: Cloud, proxy: CloudProxy, envelope: Envelope, came: list[tuple[float, str]]) -> None:
        self._at = at
        self._envelope = envelope
        self._came = came
        self.proxy = proxy

    @contextmanager
    def working(self, table: str, *faults: Fault) -> Iterator[tuple[str, "Future[Report]"]]:
        """Let it work on a new job over a table that is slow for it alone; the job's id, and its report."""
        job_id = job(self._at, table)
        self.proxy.arm(*faults)
        self._came.clear()
        with paced(self._at, 0.4), ThreadPoolExecutor(1) as threads:
            report = threads.submit(self._envelope.invoke, work_event(job_id))
            try:
                yield job_id, report
            finally:
                self.proxy.release.set()

    def late(self) -> set[str]:
        """What it still wrote when it should have stopped; what no fault kept from the endpoint counts.

        A heartbeat may have been on its way.
        """
        spoilt = {fault.operation for fault in self.proxy.faults}
        [taken] = [when for when, name in self._came if name == TAKE]
        names = [name for when, name in self._came if when > taken + SAFE and name not in spoilt]
        assert names.count(BEAT) <= 1
        return {name for name in names if not name.partition(":")[2].startswith(READS)} - {BEAT}


@pytest.fixture(scope="module")
def worker(at: Cloud) -> Iterator[Partitioned]:
    came: list[tuple[float, str]] = []

    def noted(call: Call) -> str:
        name = detailed(call)
        came.append((time.monotonic(), name))
        return name

    with between(at.proxies[EXTRACT].target, noted) as proxy:
        env = {"AWS_ENDPOINT_URL": proxy.url, "FETCHER_LEASE_SECONDS": str(LEASE)}
        with Rig.envelope(at, EXTRACT, env) as envelope:
            envelope.invoke(work_event(job(at, "bytes")))  # a lease of seconds is no time to load drivers in
            yield Partitioned(at, proxy, envelope, came)


@contextmanager
def paced(at: Cloud, seconds: float) -> Iterator[None]:
    """Let the tables be slow."""
    pace = f"UPDATE {named(at, 'pace')} SET seconds = %s".encode()
    with source(at) as database:
        database.execute(pace, [seconds])
        try:
            yield
        finally:
            database.execute(pace, [0.0])


def job(at: Cloud, table: str) -> str:
    """Post a job over one of the tables."""
    return at.posted({"my_postgres": {named(at, table): ["*"]}}, f"{table} {time.monotonic()}")


def gave_up(at: Cloud, job_id: str, report: "Future[Report]") -> None:
    """It ended by itself, and left the job to whoever comes next."""
    ended = report.result(60)
    assert ended.payload == {"batchItemFailures": []}, ended
    assert "the claim was lost" in ended.log
    record = at.items_of(job_id)["META"]
    assert (record["status"]["S"], record["attempts"]["N"]) == ("processing", "1")
    assert not at.held(job_id)
    assert reading(at, job_id) == 0


def reading(at: Cloud, job_id: str) -> int:
    """How many sessions of the job compute at the source."""
    sql = b"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name = %s"
    with source(at) as database:
        return int((database.execute(sql, [f"fetcher-{job_id}"]).fetchone() or (0,))[0])


def completed_by_another(at: Cloud, job_id: str, rows: int) -> None:
    """When the lease is over, the next worker brings the job to its one end."""
    until(lambda: int(at.items_of(job_id)["META"]["leaseUntil"]["N"]) < time.time() * 1000, "the end of the lease")
    assert at.invoke(EXTRACT, work_event(job_id)).payload == {"batchItemFailures": []}
    done: Any = at.job(job_id)
    assert (done["status"], done["attempts"], done["rowCount"]) == ("completed", 2, rows)
    assert set(at.drive(job_id)) == {f"fetcher.job.completed.{job_id}"}


def test_a_worker_whose_renewals_are_unheard_does_nothing_more_and_another_completes_the_job(
    at: Cloud, worker: Partitioned
) -> None:
    """Design §6, R-000-69: by a sixth of the lease before its end it has stored nothing, and never does."""
    with worker.working("rows", *(Fault(each, "unheard", calls=None) for each in (BEAT, RENEW))) as (job_id, report):
        gave_up(at, job_id, report)
    assert worker.late() <= {FREE}
    assert WHOLE not in worker.proxy.seen
    completed_by_another(at, job_id, 10)


def test_a_worker_that_cannot_renew_its_slot_sends_no_further_part(at: Cloud, worker: Partitioned) -> None:
    """Design §6 h, j: its claim lives by heartbeats and checkpoints; the slot's lease ends all effects the same."""
    with worker.working("bytes", Fault(RENEW, "unheard", calls=None)) as (job_id, report):
        gave_up(at, job_id, report)
    assert worker.late() <= {FREE}
    assert worker.proxy.seen.count(PART) == 1
    completed_by_another(at, job_id, 1100)


def test_a_worker_that_hears_nothing_from_aws_nor_from_its_source_stops_too(at: Cloud, worker: Partitioned) -> None:
    """Design §6: long before its call to AWS would end by its own time, and with it the query at the source."""
    with worker.working("silence", Fault(BEAT, "held", first=10, calls=None)) as (job_id, report):
        until(lambda: reading(at, job_id) == 1, "the query", 60)
        assert worker.proxy.held.wait(60)
        until(lambda: reading(at, job_id) == 0, "the end of the query", 12)
        assert not report.done()
        worker.proxy.release.set()
        gave_up(at, job_id, report)
    completed_by_another(at, job_id, 1)
