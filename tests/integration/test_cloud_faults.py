"""Every operation of AWS fails in every way, and no job is lost: the same end, the same bytes, one event.

The list of what the handlers call (`tests.cloudcases`) is compared with what a run behind the proxy
records, so an operation without a case fails the suite.
"""

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fetcher.core.document import CHUNK
from fetcher.core.faults import Point
from fetcher.core.lifecycle import TABLE
from fetcher.model import Query
from fetcher.settings import load
from infra.local.places import ROOT
from tests.cloud import EVENTS, Cloud, expiring, objects_of, of_one_request, receives
from tests.cloudcases import (
    COMMON,
    LATE,
    OPERATIONS,
    SPECIAL,
    Case,
    Spot,
    chosen,
    every_fault,
    every_spot,
    some_faults,
    writes,
)
from tests.cloudproxy import Fault, Kind
from tests.metrics import FAILURES, written
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, http_event
from tests.scenarios import HOURLY, WAYS, Way, clouded, played, posted, with_hourly
from tests.stack import Stack
from tests.template import deployed

pytestmark = pytest.mark.stack

LEAVE_AN_UPLOAD = (
    "s3:CreateMultipartUpload results",
    "s3:AbortMultipartUpload results",
    "dynamodb:UpdateItem note an upload",
)
"""Where an id can get lost, or an abort fail: what is left ends by the bucket's rule."""

LEAVE_A_SLOT = (
    "dynamodb:Query SOURCE/SLOT",
    "dynamodb:UpdateItem free a slot",
    "dynamodb:UpdateItem free an ended job's slot",
)
"""Where giving back can fail: what is left is free when its lease is over."""

KEPT = ("secretsmanager:GetSecretValue",)
"""What a process asks for once in minutes."""

SMALL_JOB = (ROOT / "docs" / "operations.md").read_text().partition("**A small job**")[2].partition("A large one")[0]
COSTS = re.compile(r"(\d+|two)\s(writes of one item|transactions|reads|messages|objects|calls of KMS|event)\b")
SPELLED = {"two": "2"}

ASKED_TWICE = {
    "dataRequest": {"mappedFields": {"my_postgres": {"public.accounts": ["id"]}}},
    "metadata": {"source": "payments", "correlationId": "asked twice"},
}

Faults = Mapping[str, Sequence[Fault]]


@dataclass(slots=True)
class Calm:
    """How each way goes when nothing fails."""

    digests: dict[str, str | None] = field(default_factory=dict)
    seen: dict[str, dict[str, list[str]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("cloud"), impatient=True) as made, with_hourly(made):
        yield made


@pytest.fixture(scope="module")
def calm(at: Cloud) -> Calm:
    """Play every way undisturbed, and note what it calls."""
    calm = Calm()
    for name, way in WAYS.items():
        at.arm({})
        job_id, ids = played(at, way)
        calm.seen[name] = {handler: list(dict.fromkeys(proxy.seen)) for handler, proxy in at.proxies.items()}
        calm.digests[name] = proven(at, way, job_id, ids, {})
    return calm


def proven(at: Cloud, way: Way, job_id: str, ids: Sequence[str], faults: Faults) -> str | None:
    """Check all that must be true at the end of a way; return the digest of its result, if it has one."""
    record = at.items_of(job_id)
    job = record["META"]
    completed = way.ends == "completed"
    assert job["status"]["S"] == ("completed" if completed else "failed"), job.get("error")
    assert len(of_one_request(at, job_id)) == way.jobs
    assert set(ids) == {f"fetcher.job.{job['status']['S']}.{job_id}"}
    assert sorted(record) == ["META", "OUTBOX#TERMINAL", "REQUEST"]
    assert not {"lookAt", "GSI2PK", "leaseUntil"} & set(job)
    assert not [name for name in job["connections"]["M"] if at.marked(job, name)]
    digest = _result(at, job) if completed and "deletedAt" not in job else None
    if not completed:
        assert job["error"]["M"]["family"]["S"] == way.ends
    _nothing_stays(at, job_id, faults)
    at.forget(job_id)
    return digest


def _result(at: Cloud, job: Mapping[str, Any]) -> str:
    """Read a result, which is what the job, the event and the manifest say it is."""
    said = job["result"]["M"]
    body = at.result({"resultPath": said["path"]["S"]})
    digest = hashlib.sha256(body).hexdigest()
    manifest = at.result({"resultPath": said["manifestPath"]["S"]})
    assert json.loads(manifest)["result"]["sha256"] == said["sha256"]["S"] == digest
    return digest


def _nothing_stays(at: Cloud, job_id: str, faults: Faults) -> None:
    """What the job names is there, and nothing else when nothing failed, or when the caller had it erased.

    Else, what a failure left is under a rule that lets it expire; an upload or a slot is left only where it may be.
    """
    items = at.items_of(job_id)
    prefixes, aborts = expiring()
    assert aborts
    objects, named = set(at.objects()), objects_of(items)
    assert named <= objects
    assert not {key for key in objects - named if not key.startswith(prefixes)}
    if not faults or "deletedAt" in items["META"]:
        assert not {key for key in objects - named if job_id in key}
    spoilt = {fault.operation for each in faults.values() for fault in each}
    if not spoilt & set(LEAVE_AN_UPLOAD):
        assert not [key for key in at.uploads() if job_id in key]
    if not spoilt & set(LEAVE_A_SLOT):
        assert not at.held(job_id)


def test_each_service_writes_the_metrics_that_alarms_and_dashboard_are_made_for(at: Cloud, calm: Calm) -> None:
    """B-53: after jobs of every fate, each is in the log of its own service, under its own dimensions, and no other."""
    assert at.post(ASKED_TWICE).status == 202
    assert at.post(ASKED_TWICE).status == 200
    at.drained(EXTRACT)
    found = {
        (sample.dimensions["service"].removeprefix(f"{at.name}-"), sample.name, tuple(sorted(sample.dimensions)))
        for sample in at.measured
    }
    assert found == written()
    ends = {
        (each.dimensions["service"], each.dimensions["family"]) for each in at.measured if each.name == "JobsFailed"
    }
    known = {(f"{at.name}-{service}", family) for service, families in FAILURES.items() for family in families}
    assert {(service, family) for service, family in ends if family != "canceled"} <= known
    assert {f"{at.name}-{service}" for service in FAILURES} == {service for service, _ in ends}


def test_a_small_job_makes_as_many_calls_as_the_operators_page_says(at: Cloud, calm: Calm) -> None:
    """Heartbeats come by time and are counted apart there; how many items a transaction has: test_extractions."""
    _drained(at)  # what others left
    at.arm({})
    posted(at, WAYS["small"])
    _drained(at)
    seen = [name for proxy in at.proxies.values() for name in proxy.seen if not name.endswith(" beat")]
    calls = Counter(name.partition(" ")[0].partition(":")[2] for name in seen)
    found = {
        "writes of one item": calls["UpdateItem"] + calls["PutItem"],
        "transactions": calls["TransactWriteItems"],
        "reads": calls["GetItem"] + calls["Query"],
        "messages": calls["SendMessage"],
        "objects": calls["PutObject"],
        "calls of KMS": calls["Decrypt"],
        "event": calls["PutEvents"],
    }
    assert found == {what: int(SPELLED.get(number, number)) for number, what in COSTS.findall(SMALL_JOB)}


@pytest.mark.parametrize(("way", "steps"), [("slow", 4), ("parts", 5)])
def test_progress_costs_a_write_a_heartbeat_and_one_a_part(at: Cloud, way: str, steps: int) -> None:
    """However many rows and pages there are; of a large job there are the steps that make its upload, too."""
    assert load({}).heartbeat_seconds == 2, "which is the template's, too: test_template_functions"
    _drained(at)  # what others left
    at.arm({})
    job_id = posted(at, WAYS[way])
    began = time.monotonic()
    at.drained(EXTRACT)
    seconds = time.monotonic() - began
    size = at.job(job_id)["sizeBytes"]
    parts = -(-size // CHUNK) if way == "parts" else 0
    written = Counter(name.partition(" ")[2] for name in at.proxies[EXTRACT].seen)
    written = Counter({event: number for event, number in written.items() if event in set(map(str, TABLE))})
    beats = written.pop("beat", 0)
    assert (1 if way == "slow" else 0) <= beats <= seconds / float(at.env["FETCHER_HEARTBEAT_SECONDS"])
    assert written.total() <= steps + parts, written
    assert way != "parts" or size / Query("", (), ()).page_bytes > 10 * (steps + parts)
    at.drained(NOTIFY)
    at.forget(job_id)


def test_a_message_that_no_worker_survives_becomes_a_dead_letter_whose_job_fails(at: Cloud) -> None:
    """R-000-76: the endpoint itself gives it up after as many receives as the template says, and keeps it till then."""
    _drained(at)  # what others left
    at.arm({})
    job_id = posted(at, WAYS["small"])
    for _ in range(receives(EXTRACT)):
        assert at.waiting("WORK_DEAD") == 0
        at.kill_next_worker(Point.CLAIMING)
        assert at.once(EXTRACT)
    assert not at.once(EXTRACT)
    assert (at.waiting("FETCHER_WORK_QUEUE_URL"), at.waiting("WORK_DEAD")) == (0, 1)
    assert at.job(job_id)["status"] == "pending"
    assert at.once(DEAD_LETTER)
    job = at.job(job_id)
    assert (job["status"], job["error"]["family"], job["error"]["phase"]) == ("failed", "internal", "queued")
    assert at.drive(job_id) == [f"fetcher.job.failed.{job_id}"]
    assert at.waiting("WORK_DEAD") == 0


def test_a_cold_submit_answers_while_its_caller_is_there(at: Cloud) -> None:
    """R-AWS-9: process, imports, validation, a probe of two databases, acceptance: within the function's time."""
    at.arm({})
    submit = deployed().properties("SubmitFunction")
    mapped = {"my_postgres": {"public.accounts": ["id"]}, HOURLY: {"cards": ["*"]}}
    body = {"dataRequest": {"mappedFields": mapped}, "metadata": {"source": "payments", "correlationId": "cold"}}
    with at.envelope(SUBMIT, memory_mb=int(submit["MemorySize"]), seconds=submit["Timeout"]) as cold:
        report = cold.invoke(http_event("POST", "/v1/fetcher", body))
    assert report.outcome == "response", report
    assert report.payload["statusCode"] == 202, report
    _drained(at)


def _drained(at: Cloud) -> None:
    at.drained(EXTRACT)
    at.drained(NOTIFY)


def test_every_operation_has_a_case(calm: Calm) -> None:
    """A new operation, or a new event of an extraction's life, of a slot or a gate, cannot escape the faults."""
    called = {(h, n) for handlers in calm.seen.values() for h, names in handlers.items() for n in names}
    listed = {(h, n) for handlers in OPERATIONS.values() for h, names in handlers.items() for n in names}
    assert called == listed
    assert {name.partition(" ")[2] for _, name in listed} >= set(EVENTS.values())


def test_what_runs_each_time_has_each_operation_each_kind_and_each_pair() -> None:
    """The choice is thin, not blind: what a failure could depend on meets in it, by twos, as in the full product."""
    full, some = [spot for spots in every_spot() for spot in spots], chosen()
    assert {(s.way, s.handler, s.fault.operation) for s in some} == {
        (s.way, s.handler, s.fault.operation) for s in full
    }
    assert {pair for spot in some for pair in spot.pairs} == {pair for spot in full for pair in spot.pairs}
    kinds = Counter(spot.fault.kind for spot in some)
    assert all(kinds[kind] >= 10 for kind in COMMON), kinds
    assert all(spot in some for spot in full if spot.fault.kind in SPECIAL)
    late = {spot.fault.operation for spot in full if spot.fault.kind == "late"}
    assert late == {spot.fault.operation for spot in full if writes(spot.fault.operation)}
    assert {spot for spot in full if spot.fault.kind == "late" and spot.fault.operation in LATE} <= set(some)
    assert set(LATE) <= late
    assert sorted(map(str, chosen())) == sorted(
        str(Spot(way, handler, fault)) for way, run in some_faults() for handler, each in run.items() for fault in each
    )


def identified(cases: Sequence[Case]) -> list[Any]:
    """The cases as parameters, each named by its scenario and its number."""
    return [pytest.param(way, faults, id=f"{way}: {number}") for number, (way, faults) in enumerate(cases)]


@pytest.mark.parametrize(("way", "faults"), identified(some_faults()))
def test_no_failure_of_aws_loses_a_job(at: Cloud, calm: Calm, way: str, faults: Faults) -> None:
    """R-000-73..76, R-002-4, R-AWS-10: whatever fails, redelivery and sweeper bring about the same end."""
    survived(at, calm, way, faults)


@pytest.mark.soak
@pytest.mark.parametrize(("way", "faults"), identified(every_fault()))
def test_no_failure_of_aws_at_all_loses_a_job(at: Cloud, calm: Calm, way: str, faults: Faults) -> None:
    """The same for every operation and every fault, one at a time in each handler."""
    survived(at, calm, way, faults)


@pytest.mark.parametrize("kind", ["lost", "late"])
@pytest.mark.parametrize(
    ("way", "event", "count"),
    [
        ("small", "claim", "attempts"),
        ("waited for the source", "try again", "retries"),
        ("killed", "go on with an upload", "writer"),
    ],
)
def test_no_answer_to_what_was_done_counts_nothing_twice(
    at: Cloud, calm: Calm, way: str, event: str, count: str, kind: Kind
) -> None:
    """R-AWS-10: what is sent again finds its own effect: no job is claimed twice, no source loses a try, no upload
    part numbers; whether the connection broke or the client gave up waiting.
    """
    job_id = survived(at, calm, way, {EXTRACT: [Fault(f"dynamodb:UpdateItem {event}", kind)]})
    assert at.items_of(job_id)["META"][count]["N"] == "1"


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("s3:UploadPart results", "no such upload"),
        ("s3:CompleteMultipartUpload results", "no such upload"),
        ("s3:CompleteMultipartUpload results", "invalid part"),
    ],
)
def test_an_upload_that_can_become_nothing_is_begun_again_at_once(
    at: Cloud, calm: Calm, operation: str, kind: Kind
) -> None:
    """R-002-4: in the same attempt, by the worker that found it so; nobody failed and no message comes back."""
    job = at.items_of(survived(at, calm, "parts", {EXTRACT: [Fault(operation, kind)]}))["META"]
    assert (job["attempts"]["N"], job.get("stalled", {"N": "0"})["N"]) == ("1", "0")


def survived(at: Cloud, calm: Calm, way: str, faults: Faults) -> str:
    """Play a way with these faults; each must have happened, and none may be seen at the end. Returns the job's id."""
    at.arm(faults)
    expected = sorted(fault.operation for each in faults.values() for fault in each)
    for handler, each in faults.items():
        if any(fault.operation in KEPT for fault in each):
            at.restart(handler)
    job_id, ids = played(at, WAYS[way])
    assert sorted(fault.operation for fault in at.spoilt) == expected
    assert proven(at, WAYS[way], job_id, ids, faults) == calm.digests[way]
    return job_id
