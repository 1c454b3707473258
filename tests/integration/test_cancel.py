"""A cancel takes effect wherever the job is, and an accepted one always ends as canceled."""

import threading
import time
from functools import partial
from typing import Any

import pytest

from fetcher.core.faults import Point
from tests.integration.test_bounds import active_queries, view
from tests.rig import EXTRACT, Rig, until, work_event
from tests.template import written

pytestmark = pytest.mark.stack

DEPLOYED = {
    name: str(written()["Parameters"][parameter]["Default"])
    for name, parameter in {
        "FETCHER_HEARTBEAT_SECONDS": "HeartbeatSeconds",
        "FETCHER_LEASE_SECONDS": "LeaseSeconds",
    }.items()
}
"""A worker's beat as it is deployed; the rig's own is quicker."""

A_BEAT = 2.0
"""Seconds until a worker hears of a cancel, as promised (design §4)."""

AT_THE_SOURCE = 2.0
"""Seconds that a cancel has at the source. A page is not waited for: the stop ends its query."""

SLACK = 4.0
"""Seconds that a busy machine may add to the promised ones."""

WITHIN = AT_THE_SOURCE + SLACK
"""Seconds from the beat that brings the cancel; the rig's own come at once."""


def posted(service: Rig, table: str, name: str) -> str:
    """Post a job and return its id."""
    return service.posted({"my_postgres": {table: ["*"]}}, name)


def cancel(service: Rig, job_id: str) -> int:
    """Ask for the end; return the status of the answer."""
    return service.http("POST", f"/v1/fetcher/{job_id}/cancel").status


def ended_canceled(service: Rig, job_id: str) -> bool:
    """Whether the job has ended as canceled, with nothing left."""
    job = service.job(job_id)
    if job["status"] != "failed":
        return False
    assert job["error"]["family"] == "canceled"
    assert not [key for key in service.objects() + service.uploads() if job_id in key]
    return True


def _at_speed(progress: Any) -> Any:
    """The progress of a job that is being read just now."""
    return progress if progress.get("rate", {}).get("rows", 0) > 0 and progress["rate"]["bytes"] > 0 else None


def _lease(service: Rig, job_id: str) -> str:
    """Until when the job's worker has its claim."""
    return str(service.record(job_id)["leaseUntil"]["N"])


def test_a_queued_job_ends_at_once(service: Rig) -> None:
    """Also while queued; the message that comes later has no effect."""
    job_id = posted(service, "public.accounts", "queued")
    assert cancel(service, job_id) == 202
    assert ended_canceled(service, job_id)
    assert service.invoke(EXTRACT, work_event(job_id)).payload == {"batchItemFailures": []}
    assert ended_canceled(service, job_id)
    assert cancel(service, job_id) == 409


def test_a_running_job_stops_within_seconds_at_the_source_too(service: Rig) -> None:
    """Design §6, fail-fast: within a beat as deployed and two seconds at the source, in the middle of a page too."""
    view(
        service,
        "canceled",
        "SELECT n, repeat('x', 100) AS text, pg_sleep(0.001)::text AS s FROM generate_series(1, 1000000) n",
    )
    job_id = posted(service, "canceled", "running")
    worker = threading.Thread(target=service.invoke, args=(EXTRACT, work_event(job_id)), kwargs=DEPLOYED)
    worker.start()
    until(lambda: service.job(job_id)["progress"]["rows"] > 0, "the first rows")
    seen = until(lambda: _at_speed(service.job(job_id)["progress"]), "the rate")
    assert seen["current"] == "my_postgres/canceled"
    assert seen["tables"] == {"done": 0, "total": 1}
    assert active_queries(service, job_id) == 1
    before = _lease(service, job_id)
    until(lambda: _lease(service, job_id) != before, "a beat")  # now it is longest until the next one
    begun = time.monotonic()
    assert cancel(service, job_id) == 202
    worker.join(timeout=30)
    assert active_queries(service, job_id) == 0
    assert time.monotonic() - begun < A_BEAT + WITHIN
    assert ended_canceled(service, job_id)


def swept_to_its_end(service: Rig, job_id: str) -> bool:
    """Sweep, and do what was sent; whether the job ended canceled by it."""
    service.sweep()
    service.work()
    return ended_canceled(service, job_id)


def test_a_job_whose_worker_died_ends_canceled_by_whoever_comes_next(service: Rig) -> None:
    """Design §4: while a dead worker's lease lives the cancel waits; then it is the end."""
    job_id = posted(service, "public.movements", "dead worker")
    with service.envelope(EXTRACT, {"FETCHER_FAULT": Point.PART_STORED}) as envelope:
        report = envelope.invoke(work_event(job_id))
        assert report.outcome == "exited", report.log
    assert cancel(service, job_id) == 202
    until(partial(swept_to_its_end, service, job_id), "the end")


def test_a_cancel_before_finish_wins(service: Rig) -> None:
    """Design §4: finish is refused once a cancel was accepted, and the stored object is removed."""
    job_id = posted(service, "public.accounts", "sealing")
    with service.envelope(EXTRACT, {"FETCHER_FAULT": Point.MANIFEST_STORED}) as envelope:
        report = envelope.invoke(work_event(job_id))
        assert report.outcome == "exited", report.log
    assert cancel(service, job_id) == 202
    until(partial(swept_to_its_end, service, job_id), "the end")
