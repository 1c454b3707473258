"""Messages that come twice, too early, too late or in the wrong order: each handler, and nothing happens twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fetcher.core.faults import ARMED, Point
from tests.cloud import Cloud
from tests.cloudproxy import Fault
from tests.envelope import Envelope
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SWEEPER, Rig, work_event
from tests.scenarios import WAYS, clouded, posted
from tests.stack import Stack

pytestmark = pytest.mark.stack

DONE: dict[str, list[Any]] = {"batchItemFailures": []}
WORKING = (
    "kms:Decrypt",
    "s3:UploadPart results",
    "s3:CompleteMultipartUpload results",
    "dynamodb:TransactWriteItems finish",
)
"""Where a worker waits while everything else is delivered again: in calls that may take their time."""


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("duplicates")) as made:
        yield made


@pytest.fixture(scope="module")
def another(at: Cloud) -> Iterator[Envelope]:
    """A second worker, whose way to AWS is clear."""
    with Rig.envelope(at, EXTRACT) as envelope:
        yield envelope


def taken(at: Cloud, handler: str, event: Any) -> None:
    """Hand an event over; it must be taken."""
    assert at.invoke(handler, event).payload == DONE


def ended_once(at: Cloud, job_id: str, status: str = "completed") -> None:
    """One end, one event, nothing left."""
    assert set(at.drive(job_id)) <= {f"fetcher.job.{status}.{job_id}"}
    job = at.items_of(job_id)["META"]
    assert job["status"]["S"] == status
    keys = [key for key in at.objects() if job_id in key]
    assert len(keys) == (2 if status == "completed" else 0), keys
    assert not [key for key in at.uploads() if job_id in key]


@pytest.mark.parametrize("operation", WORKING)
def test_everything_that_comes_while_a_worker_works_has_no_effect(at: Cloud, another: Envelope, operation: str) -> None:
    """R-000-60, R-000-68, R-AWS-10: visibility that ran out, a sweep, a dead letter and a notification just then."""
    job_id = posted(at, WAYS["parts"])
    proxy = at.proxies[EXTRACT]
    proxy.arm(Fault(operation, "held", calls=None))
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(at.invoke, EXTRACT, work_event(job_id))
        try:
            assert proxy.held.wait(60)
            assert another.invoke(work_event(job_id)).payload == DONE
            taken(at, DEAD_LETTER, work_event(job_id))
            taken(at, NOTIFY, work_event(job_id))
            at.invoke(SWEEPER, {})
            job = at.items_of(job_id)["META"]
            assert (job["status"]["S"], job["attempts"]["N"]) == ("processing", "1")
        finally:
            proxy.release.set()
        assert working.result().payload == DONE
    assert at.items_of(job_id)["META"]["attempts"]["N"] == "1"
    ended_once(at, job_id)


@pytest.mark.parametrize("operation", WORKING[1:])
def test_a_message_that_comes_again_after_the_lease_is_the_only_one_to_count(
    at: Cloud, another: Envelope, operation: str
) -> None:
    """R-000-69, R-AWS-10: the first worker works on, and the second has died meanwhile: nothing of the first counts."""
    job_id = posted(at, WAYS["parts"])
    proxy = at.proxies[EXTRACT]
    proxy.arm(Fault(operation, "held", calls=None))
    with (
        ThreadPoolExecutor(1) as threads,
        at.envelope(EXTRACT, {"FETCHER_HEARTBEAT_SECONDS": "20"}) as silent,
        Rig.envelope(at, EXTRACT, {ARMED: str(Point.CLAIMED)}) as dying,
    ):
        working = threads.submit(silent.invoke, work_event(job_id))
        try:
            assert proxy.held.wait(60)
            at.pass_time(job_id)
            assert dying.invoke(work_event(job_id)).outcome == "exited"
            taken_over = at.items_of(job_id)
        finally:
            proxy.release.set()
        assert working.result().payload == DONE
    assert at.items_of(job_id) == taken_over
    assert taken_over["META"]["attempts"]["N"] == "2"
    at.pass_time(job_id)
    assert another.invoke(work_event(job_id)).payload == DONE
    # A manifest of the first may lie in S3, which knows no claims: nobody names it, and it expires.
    assert set(at.drive(job_id)) == {f"fetcher.job.completed.{job_id}"}
    assert not [key for key in at.uploads() if job_id in key]


def test_every_handler_may_be_run_twice(at: Cloud, another: Envelope) -> None:
    """R-AWS-10: the second run of extract, notify, dead letter and sweeper changes nothing."""
    at.arm({})
    job_id = posted(at, WAYS["small"])
    taken(at, EXTRACT, work_event(job_id))
    ended = at.items_of(job_id)
    taken(at, EXTRACT, work_event(job_id))
    assert another.invoke(work_event(job_id)).payload == DONE
    taken(at, DEAD_LETTER, work_event(job_id))
    assert at.items_of(job_id) == ended
    taken(at, NOTIFY, work_event(job_id))
    marked = at.items_of(job_id)
    taken(at, NOTIFY, work_event(job_id))
    taken(at, DEAD_LETTER, work_event(job_id))
    at.invoke(SWEEPER, {})
    at.invoke(SWEEPER, {})
    assert at.items_of(job_id) == marked
    assert at.event_ids(job_id) == [f"fetcher.job.completed.{job_id}"]
    ended_once(at, job_id)


def test_a_dead_letter_that_comes_twice_fails_its_job_once(at: Cloud) -> None:
    """R-000-76, R-AWS-10: and a work message behind it finds nothing to do."""
    at.arm({})
    job_id = posted(at, WAYS["small"])
    taken(at, DEAD_LETTER, work_event(job_id))
    ended = at.items_of(job_id)
    taken(at, DEAD_LETTER, work_event(job_id))
    taken(at, EXTRACT, work_event(job_id))
    assert at.items_of(job_id) == ended
    ended_once(at, job_id, "failed")


def test_messages_in_the_wrong_order_have_the_effect_of_the_newest(at: Cloud) -> None:
    """Design §4, R-AWS-10: an older generation does nothing, nor does one that is not there yet."""
    at.arm({})
    job_id = posted(at, WAYS["small"])
    taken(at, NOTIFY, work_event(job_id))
    taken(at, EXTRACT, work_event(job_id, generation=1))
    assert at.items_of(job_id)["META"]["status"]["S"] == "pending"
    at.hurry(EXTRACT)
    taken(at, EXTRACT, work_event(job_id))
    handed = at.items_of(job_id)
    assert handed["META"]["generation"]["N"] == "1"
    taken(at, EXTRACT, work_event(job_id))
    taken(at, DEAD_LETTER, work_event(job_id))
    assert at.items_of(job_id) == handed
    taken(at, EXTRACT, work_event(job_id, generation=1))
    completed = at.items_of(job_id)
    taken(at, EXTRACT, work_event(job_id))
    taken(at, DEAD_LETTER, work_event(job_id, generation=1))
    assert at.items_of(job_id) == completed
    ended_once(at, job_id)


def test_two_sweeps_at_once_send_one_message(at: Cloud) -> None:
    """Design §4: a due item is taken by one of them, since both have seen the same time."""
    at.arm({})
    job_id = posted(at, WAYS["small"])
    with Rig.envelope(at, SWEEPER) as other, ThreadPoolExecutor(2) as threads:
        other.invoke({})  # begins the process, so that both sweep at once
        at.invoke(SWEEPER, {})
        at.sqs.purge_queue(QueueUrl=at.env["FETCHER_WORK_QUEUE_URL"])
        at.pass_time(job_id)
        swept = [threads.submit(other.invoke, {}), threads.submit(at.invoke, SWEEPER, {})]
        assert sum(report.result().payload["swept"] for report in swept) == 1
    assert at.waiting("FETCHER_WORK_QUEUE_URL") == 1
    ended_once(at, job_id)


@pytest.mark.parametrize(
    "spoilt",
    ["sqs:SendMessage work", "dynamodb:TransactWriteItems fail unclaimed", "sqs:SendMessage notifications"],
)
def test_a_sweep_that_cannot_do_it_leaves_it_to_the_next_one(at: Cloud, spoilt: str) -> None:
    """R-000-75, 81, design §4: and not to the one in a quarter of an hour, or an hour, which is for what was sent."""
    at.arm({})
    job_id = posted(at, WAYS["small"])
    if spoilt == "sqs:SendMessage notifications":
        at.drained(EXTRACT)
        at.sqs.purge_queue(QueueUrl=at.env["FETCHER_NOTIFICATIONS_QUEUE_URL"])
    if spoilt.startswith("dynamodb:"):
        at.set(at.items_of(job_id)["META"], "stalled", {"N": "5"})
    at.forget_messages()
    at.pass_time(job_id)
    due = at.items_of(job_id)
    at.proxies[SWEEPER].arm(Fault(spoilt, "broken", calls=None))
    assert at.invoke(SWEEPER, {}).outcome == "error", "so that its alarm tells of it"
    assert at.items_of(job_id) == due
    assert at.sweep() == 1
    ended_once(at, job_id, "failed" if spoilt.startswith("dynamodb:") else "completed")
