"""A worker that is frozen, loses its job to another one and wakes up: it changes nothing."""

import io
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

from fetcher.core.audit import verify_manifest
from tests.cloud import Cloud
from tests.cloudproxy import Fault
from tests.envelope import Envelope
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, VERIFY_KEY, Rig, work_event
from tests.scenarios import WAYS, clouded, posted
from tests.stack import Stack

pytestmark = pytest.mark.stack

POINTS = {
    "before it takes its slot": ("parts", "dynamodb:UpdateItem take a slot"),
    "before its upload is noted": ("parts", "dynamodb:UpdateItem begin an upload"),
    "in the middle of reading": ("parts", "s3:UploadPart results"),
    "before a checkpoint": ("parts", "dynamodb:UpdateItem checkpoint"),
    "before the seal": ("parts", "dynamodb:UpdateItem seal"),
    "before its upload is completed": ("parts", "s3:CompleteMultipartUpload results"),
    "before a small object is there": ("small", "s3:PutObject results"),
    "before the manifest": ("parts", "s3:PutObject manifests"),
    "before the end": ("parts", "dynamodb:TransactWriteItems finish"),
    "before a small one's end": ("small", "dynamodb:TransactWriteItems finish"),
}
"""Where a worker is stopped, with that very request on its way."""


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("frozen")) as made:
        yield made


@pytest.fixture(scope="module")
def first(at: Cloud) -> Iterator[Envelope]:
    """The worker that is frozen; its own clock says that its lease of a minute lives."""
    with at.envelope(EXTRACT) as envelope:
        yield envelope


@pytest.fixture(scope="module")
def second(at: Cloud) -> Iterator[Envelope]:
    """The worker that takes over; its way to AWS is clear."""
    with Rig.envelope(at, EXTRACT) as envelope:
        yield envelope


def published(at: Cloud, job_id: str) -> tuple[Any, ...]:
    """All that others can see of a job: its items, its manifest and its result."""
    record = at.items_of(job_id)
    manifest = at.http("GET", f"/v1/fetcher/{job_id}/manifest")
    body = at.result({"resultPath": record["META"]["result"]["M"]["path"]["S"]})
    return record, manifest.status, manifest.text, sha256(body).hexdigest()


@pytest.mark.parametrize("point", POINTS)
def test_a_frozen_worker_that_wakes_changes_nothing(at: Cloud, first: Envelope, second: Envelope, point: str) -> None:
    """R-000-69, R-002-12: no checkpoint, no status, no outbox item, and not the result that others have."""
    way, operation = POINTS[point]
    proxy = at.proxies[EXTRACT]
    job_id = posted(at, WAYS[way])
    proxy.arm(Fault(operation, "held"))
    with ThreadPoolExecutor(1) as threads:
        frozen = threads.submit(first.invoke, work_event(job_id))
        assert proxy.held.wait(60), point
        first.signal(signal.SIGSTOP)
        try:
            at.pass_time(job_id)
            assert second.invoke(work_event(job_id)).payload == {"batchItemFailures": []}
            before = published(at, job_id)
        finally:
            first.signal(signal.SIGCONT)
            proxy.release.set()
        report = frozen.result()
    assert report.payload == {"batchItemFailures": []}, report
    assert "the claim was lost" in report.log
    assert published(at, job_id) == before
    assert not at.held(job_id)
    record, status, text, _ = before
    assert (record["META"]["status"]["S"], record["META"]["attempts"]["N"], status) == ("completed", "2", 200)
    body = at.result({"resultPath": record["META"]["result"]["M"]["path"]["S"]})
    assert verify_manifest(text.encode(), io.BytesIO(body), VERIFY_KEY) == []
    assert set(at.drive(job_id)) == {f"fetcher.job.completed.{job_id}"}


@pytest.mark.parametrize(
    "point",
    ["before it takes its slot", "before a checkpoint", "before the seal", "before the manifest", "before the end"],
)
def test_a_frozen_worker_that_wakes_while_another_works_changes_nothing(at: Cloud, first: Envelope, point: str) -> None:
    """R-000-69, R-002-12: the job is being worked on, so only the claim can tell who may write."""
    way, operation = POINTS[point]
    job_id = posted(at, WAYS[way])
    proxy, its = at.proxies[EXTRACT], at.proxies[NOTIFY]
    proxy.arm(Fault(operation, "held"))
    its.arm(Fault("kms:Decrypt", "held"))
    with ThreadPoolExecutor(2) as threads, Rig.envelope(at, EXTRACT, {"AWS_ENDPOINT_URL": its.url}) as other:
        frozen = threads.submit(first.invoke, work_event(job_id))
        assert proxy.held.wait(60), point
        first.signal(signal.SIGSTOP)
        try:
            at.pass_time(job_id)
            working = threads.submit(other.invoke, work_event(job_id))
            assert its.held.wait(60)
            before, slots = owned(at, job_id), slots_of(at, job_id)
            first.signal(signal.SIGCONT)
            proxy.release.set()
            report = frozen.result()
            assert owned(at, job_id) == before
            assert slots_of(at, job_id) == slots
        finally:
            first.signal(signal.SIGCONT)
            proxy.release.set()
            its.release.set()
        assert working.result().payload == report.payload == {"batchItemFailures": []}
    assert "the claim was lost" in report.log
    assert (before["status"]["S"], before["attempts"]["N"]) == ("processing", "2")
    assert published(at, job_id)[1] == 200
    assert at.items_of(job_id)["META"]["attempts"]["N"] == "2"
    assert set(at.drive(job_id)) == {f"fetcher.job.completed.{job_id}"}


def owned(at: Cloud, job_id: str) -> dict[str, Any]:
    """The record, but for what the owner's own heartbeat renews."""
    renewed = {"leaseUntil", "lookAt", "progress", "spentMs"}
    return {name: value for name, value in at.items_of(job_id)["META"].items() if name not in renewed}


def slots_of(at: Cloud, job_id: str) -> list[tuple[str, str]]:
    """The slots that a job holds, each with the claim of the attempt that has it; there is one."""
    found = [(item["SK"]["S"], item["attempt"]["S"]) for item in at.held(job_id)]
    assert len(found) == 1
    return found


def test_a_frozen_worker_whose_job_was_ended_leaves_it_so(at: Cloud, first: Envelope) -> None:
    """R-000-63, R-000-69: canceled and cleaned up meanwhile, it stays failed, without a result or an upload."""
    proxy = at.proxies[EXTRACT]
    job_id = posted(at, WAYS["parts"])
    proxy.arm(Fault("dynamodb:TransactWriteItems finish", "held"))
    with ThreadPoolExecutor(1) as threads:
        frozen = threads.submit(first.invoke, work_event(job_id))
        assert proxy.held.wait(60)
        first.signal(signal.SIGSTOP)
        try:
            at.pass_time(job_id)
            at.invoke(DEAD_LETTER, work_event(job_id))
            before = at.items_of(job_id)
        finally:
            first.signal(signal.SIGCONT)
            proxy.release.set()
        assert frozen.result().payload == {"batchItemFailures": []}
    assert before["META"]["status"]["S"] == "failed"
    assert at.items_of(job_id) == before
    assert at.http("GET", f"/v1/fetcher/{job_id}/manifest").status == 409
    assert not [key for key in at.objects() + at.uploads() if job_id in key]
    assert set(at.drive(job_id)) == {f"fetcher.job.failed.{job_id}"}
