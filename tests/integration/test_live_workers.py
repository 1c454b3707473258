"""A worker that is alive and kept waiting by AWS or by a source: what a cancel, the end of its time, and its
predecessor's checkpoint mean to it. Whatever keeps it waiting is held by a proxy until the test has done its part.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fetcher.core.faults import Point
from tests.cloud import Cloud
from tests.cloudproxy import Fault
from tests.faultproxy import faulty
from tests.integration.test_cancel import WITHIN, cancel, ended_canceled
from tests.rig import EXTRACT, SWEEPER, until
from tests.scenarios import WAYS, clouded, named, posted
from tests.stack import Stack

pytestmark = pytest.mark.stack

BEAT = "dynamodb:UpdateItem beat"
PART = "s3:UploadPart results"


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("live")) as made:
        assert made.register("my_second").status == 201
        yield made


@contextmanager
def held(at: Cloud, operation: str) -> Iterator[None]:
    """Let a worker take the next message, up to this operation; afterwards let it go on, and wait for its end."""
    proxy = at.proxies[EXTRACT]
    at.arm({EXTRACT: [Fault(operation, "held")]})
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(at.once, EXTRACT)
        try:
            until(lambda: proxy.held.is_set() or working.done(), operation, 60)
            assert not working.done(), "the worker never came to it"
            yield
        finally:
            proxy.release.set()
        assert working.result(60)


def beaten(at: Cloud) -> None:
    """Wait until a heartbeat has brought what is true now: with the second one from here the first was understood."""
    seen = at.proxies[EXTRACT].seen
    before = seen.count(BEAT)
    until(lambda: seen.count(BEAT) >= before + 3, "heartbeats", 60)


def rows_stored(at: Cloud, job_id: str) -> int:
    """How many rows the checkpoint of a job of one table holds."""
    [rows] = at.items_of(job_id)["META"]["checkpoint"]["M"]["mark"]["M"]["rows"]["L"]
    return int(rows["N"])


def left_by_a_dead_worker(at: Cloud, point: Point) -> str:
    """Post a job of three parts whose worker dies at this point; the next message is in the queue."""
    job_id = posted(at, WAYS["parts"])
    at.kill_next_worker(point)
    at.once(EXTRACT)
    at.forget_messages()
    at.pass_time(job_id)
    at.invoke(SWEEPER, {})
    return job_id


@pytest.mark.parametrize(
    ("way", "operation"),
    [
        ("small", "s3:PutObject results"),
        ("parts", "s3:CompleteMultipartUpload results"),
        ("parts", "s3:PutObject manifests"),
    ],
)
def test_a_cancel_while_a_live_worker_seals_ends_the_job_as_canceled(at: Cloud, way: str, operation: str) -> None:
    """Design §4, §6: what is sealed and stored after an accepted cancel becomes no result, and nothing stays."""
    job_id = posted(at, WAYS[way])
    with held(at, operation):
        assert cancel(at, job_id) == 202
        beaten(at)
        assert at.job(job_id)["status"] == "processing"
    assert ended_canceled(at, job_id)
    assert at.drive(job_id) == [f"fetcher.job.failed.{job_id}"]
    assert ended_canceled(at, job_id)


def test_a_cancel_while_what_was_spooled_is_stored_sends_no_further_part(at: Cloud) -> None:
    """Design §6, fail-fast: every row is read by then, and up to the bound of the result is still to be sent."""
    mapped = {"my_postgres": {named(at, "small"): ["*"]}, "my_second": {named(at, "parts"): ["*"]}}
    job_id = at.posted(mapped, "canceled in the copy")
    with held(at, PART):
        until(lambda: at.job(job_id)["progress"]["tables"]["done"] == 2, "the end of reading", 60)
        assert cancel(at, job_id) == 202
        beaten(at)
    assert Counter(at.proxies[EXTRACT].seen)[PART] == 1
    assert ended_canceled(at, job_id)
    assert at.drive(job_id) == [f"fetcher.job.failed.{job_id}"]


def test_a_cancel_does_not_wait_for_a_source_that_is_connected_to(at: Cloud) -> None:
    """Design §6, fail-fast: within seconds, while the login would be waited for ten."""
    database = at.stack["databases"]["my_postgres"]
    with faulty(database["host"], database["port"]) as wire:
        assert at.register("silent", port=wire.port).status == 201
        job_id = at.posted({"silent": {named(at, "small"): ["*"]}}, "canceled while connecting")
        at.arm({})
        wire.fault = "stall"
        with ThreadPoolExecutor(1) as threads:
            working = threads.submit(at.once, EXTRACT)
            assert wire.broken.wait(60)
            begun = time.monotonic()
            assert cancel(at, job_id) == 202
            assert working.result(60)
        assert time.monotonic() - begun < WITHIN
    assert ended_canceled(at, job_id)
    assert not at.slots_held(job_id)


def test_what_a_claim_cost_is_part_of_the_attempts_time(at: Cloud) -> None:
    """R-AWS-5: a second that is lost in the claim is lost to the attempt, not to the margin."""
    job_id = posted(at, WAYS["small"])
    at.hurry(EXTRACT, 5)
    with held(at, "dynamodb:UpdateItem claim"):
        time.sleep(5.5)
    assert at.items_of(job_id)["META"]["generation"]["N"] == "1"
    assert at.drive(job_id) == [f"fetcher.job.completed.{job_id}"]


def test_progress_goes_on_from_what_a_dead_worker_stored(at: Cloud) -> None:
    """R-000-77: before the next one has connected or planned, and it counts every row once."""
    job_id = left_by_a_dead_worker(at, Point.PART_STORED)
    stored = rows_stored(at, job_id)
    assert stored > 0
    at.restart(EXTRACT)
    with held(at, "kms:Decrypt"):
        beaten(at)
        shown = at.job(job_id)["progress"]
        assert shown["rows"] >= stored
        assert shown["bytes"] > 0
    assert whole(at, job_id)["attempts"] == 2


def test_progress_of_a_sealed_result_is_whole(at: Cloud) -> None:
    """R-000-77: whoever completes it reads no row, and shows all."""
    job_id = left_by_a_dead_worker(at, Point.SEALED)
    at.once(EXTRACT)
    whole(at, job_id)


def test_progress_counts_nothing_twice_when_the_read_begins_anew(at: Cloud) -> None:
    """R-000-77, R-002-13: what was stored by another version of the connection is read again."""
    job_id = left_by_a_dead_worker(at, Point.PART_STORED)
    at.touch_connection("my_postgres")
    at.once(EXTRACT)
    whole(at, job_id)


def whole(at: Cloud, job_id: str) -> Any:
    """The completed job, whose progress is every row, once."""
    job = at.job(job_id)
    assert job["status"] == "completed", job
    assert job["progress"]["rows"] == job["rowCount"]
    assert job["progress"]["tables"] == {"done": 1, "total": 1}
    return job
