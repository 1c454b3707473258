"""Every operation of AWS fails in every way, and no job is lost: the same end, the same bytes, one event.

`OPERATIONS` is the list of what the handlers call, each in the scenario that shows it first. It is
compared with what a run behind the proxy records, so an operation without a case fails the suite.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, zip_longest
from typing import Any

import pytest

from tests.cloud import EVENTS, Cloud, expiring
from tests.cloudproxy import Fault, Kind
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER
from tests.scenarios import WAYS, Way, clouded, played
from tests.stack import Stack

pytestmark = pytest.mark.stack

OPERATIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "small": {
        SUBMIT: (
            "dynamodb:GetItem CONNECTION/META",
            "dynamodb:GetItem CONNECTIONNAME/UNIQUE",
            "dynamodb:GetItem HASH/LOCK",
            "dynamodb:TransactWriteItems accept",
            "dynamodb:UpdateItem dispatch",
            "kms:Decrypt",
            "sqs:SendMessage work",
        ),
        SWEEPER: (
            "dynamodb:GetItem EXTRACTION/META",
            "dynamodb:GetItem EXTRACTION/OUTBOX",
            "dynamodb:Query GSI2",
            "dynamodb:UpdateItem EXTRACTION/OUTBOX",
            "dynamodb:UpdateItem sweep",
            "sqs:SendMessage notifications",
            "sqs:SendMessage work",
        ),
        EXTRACT: (
            "dynamodb:GetItem CONNECTION/META",
            "dynamodb:GetItem EXTRACTION/META",
            "dynamodb:GetItem EXTRACTION/REQUEST",
            "dynamodb:PutItem SOURCE/SCHEMA",
            "dynamodb:TransactWriteItems finish",
            "dynamodb:UpdateItem begin an upload",
            "dynamodb:UpdateItem claim",
            "dynamodb:UpdateItem seal",
            "kms:Decrypt",
            "s3:PutObject manifests",
            "s3:PutObject results",
            "secretsmanager:GetSecretValue",
            "sqs:SendMessage notifications",
        ),
        NOTIFY: (
            "dynamodb:GetItem EXTRACTION/OUTBOX",
            "dynamodb:UpdateItem EXTRACTION/OUTBOX",
            "events:PutEvents",
        ),
    },
    "large body": {
        SUBMIT: ("s3:GetObject requests", "s3:PutObject requests"),
        EXTRACT: ("s3:GetObject requests",),
    },
    "parts": {
        EXTRACT: (
            "dynamodb:UpdateItem checkpoint",
            "dynamodb:UpdateItem note an upload",
            "s3:CompleteMultipartUpload results",
            "s3:CreateMultipartUpload results",
            "s3:UploadPart results",
        ),
    },
    "killed": {
        EXTRACT: (
            "dynamodb:UpdateItem go on with an upload",
            "dynamodb:UpdateItem take over",
            "s3:GetObject results",
        ),
    },
    "handed over": {
        EXTRACT: (
            "dynamodb:UpdateItem hand over",
            "sqs:SendMessage work",
        ),
    },
    "released": {
        EXTRACT: (
            "dynamodb:UpdateItem release",
            "s3:DeleteObject results",
            "s3:HeadObject results",
            "sqs:ChangeMessageVisibility work",
        ),
    },
    "over": {
        EXTRACT: (
            "dynamodb:TransactWriteItems fail",
            "s3:AbortMultipartUpload results",
        ),
    },
    "canceled": {
        SUBMIT: (
            "dynamodb:GetItem EXTRACTION/META",
            "dynamodb:GetItem EXTRACTION/REQUEST",
            "dynamodb:TransactWriteItems fail unclaimed canceled",
            "dynamodb:UpdateItem cancel",
            "sqs:SendMessage notifications",
        ),
    },
    "canceled, sealed": {
        SUBMIT: (
            "s3:AbortMultipartUpload results",
            "s3:DeleteObject results",
            "s3:ListObjectsV2 manifests",
        ),
    },
    "canceled, swept": {
        SWEEPER: (
            "dynamodb:GetItem EXTRACTION/REQUEST",
            "dynamodb:TransactWriteItems fail unclaimed canceled",
            "s3:AbortMultipartUpload results",
            "s3:DeleteObject results",
            "s3:ListObjectsV2 manifests",
        ),
    },
    "canceled, claimed": {
        EXTRACT: (
            "dynamodb:TransactWriteItems fail canceled",
            "s3:ListObjectsV2 manifests",
        ),
    },
    "poison": {
        DEAD_LETTER: (
            "dynamodb:GetItem EXTRACTION/META",
            "dynamodb:GetItem EXTRACTION/REQUEST",
            "dynamodb:TransactWriteItems fail unclaimed",
            "s3:AbortMultipartUpload results",
            "s3:DeleteObject results",
            "s3:ListObjectsV2 manifests",
            "sqs:SendMessage notifications",
        ),
    },
    "stalled": {
        SWEEPER: ("dynamodb:TransactWriteItems fail unclaimed",),
    },
    "erased": {
        SUBMIT: (
            "dynamodb:Query GSI1",
            "dynamodb:UpdateItem EXTRACTION/META",
            "s3:DeleteObject manifests",
            "s3:GetObject manifests",
            "s3:HeadObject results",
        ),
    },
    "slow": {
        EXTRACT: ("dynamodb:UpdateItem beat",),
    },
}

LEAVE_AN_UPLOAD = (
    "s3:CreateMultipartUpload results",
    "s3:AbortMultipartUpload results",
    "dynamodb:UpdateItem note an upload",
)
"""Where an id can get lost, or an abort fail: what is left ends by the bucket's rule."""

KEPT = ("secretsmanager:GetSecretValue",)
"""What a process asks for once in minutes."""

SPECIAL = ("partial", "precondition", "busy key", "no such upload")

Case = tuple[str, Mapping[str, Fault]]


@dataclass(slots=True)
class Calm:
    """How each way goes when nothing fails."""

    digests: dict[str, str | None] = field(default_factory=dict)
    seen: dict[str, dict[str, list[str]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("cloud")) as made:
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


def proven(at: Cloud, way: Way, job_id: str, ids: Sequence[str], faults: Mapping[str, Fault]) -> str | None:
    """Check all that must be true at the end of a way; return the digest of its result, if it has one."""
    record = at.record(job_id)
    job = record["META"]
    completed = way.ends == "completed"
    assert job["status"]["S"] == ("completed" if completed else "failed"), job.get("error")
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


def _nothing_stays(at: Cloud, job_id: str, faults: Mapping[str, Fault]) -> None:
    """Whatever the job left is its result, or expires; an upload is left only where its id could be lost."""
    prefixes, aborts = expiring()
    assert aborts
    for key in at.objects():
        assert key.startswith(tuple(prefixes)), key
    if not any(fault.operation in LEAVE_AN_UPLOAD for fault in faults.values()):
        assert not [key for key in at.uploads() if job_id in key]


# --- which faults


def writes(operation: str) -> bool:
    """Whether a lost answer hides an effect."""
    return not operation.startswith(
        ("dynamodb:Get", "dynamodb:Query", "s3:Get", "s3:Head", "s3:List", "kms:", "secretsmanager:")
    )


def faults_of(operation: str) -> list[Fault]:
    """Every way in which an operation can fail: once, or for the whole invocation."""
    once: list[Kind] = []
    if operation.startswith("dynamodb:") and writes(operation):
        once.append("conflict")
    if operation in {"s3:PutObject results", "s3:CompleteMultipartUpload results"}:
        once += ["precondition", "busy key"]
    if operation in {"s3:UploadPart results", "s3:CompleteMultipartUpload results"}:
        once.append("no such upload")
    if operation == "events:PutEvents":
        once.append("partial")
    once += ["throttled", "broken", "lost", "unheard"]
    down: list[Kind] = ["broken", "throttled", *(["lost"] if writes(operation) else [])]  # type: ignore[list-item] # Kinds
    return [Fault(operation, kind) for kind in once] + [Fault(operation, kind, calls=None) for kind in down]


def packed(chosen: Mapping[str, Mapping[str, Sequence[Fault]]]) -> list[Case]:
    """Put faults of different handlers into one run of their way."""
    cases: list[Case] = []
    for way, handlers in chosen.items():
        lanes = [[(handler, fault) for fault in faults] for handler, faults in handlers.items()]
        cases += [(way, dict(filter(None, lane))) for lane in zip_longest(*lanes)]
    return cases


def every_fault() -> list[Case]:
    """The full product."""
    return packed(
        {
            way: {
                handler: [fault for name in names for fault in faults_of(name)] for handler, names in handlers.items()
            }
            for way, handlers in OPERATIONS.items()
        }
    )


def some_faults() -> list[Case]:
    """A lost answer of every other write, and otherwise the next fault in turn: one for each operation of a handler.

    What only one service can answer is always among them.
    """
    turn: defaultdict[int, count[int]] = defaultdict(count)
    every_other = cycle([True, False])

    def some(operation: str) -> list[Fault]:
        special = [fault for fault in faults_of(operation) if fault.kind in SPECIAL]
        if writes(operation) and next(every_other):
            return [*special, Fault(operation, "lost")]
        faults = [fault for fault in faults_of(operation) if fault not in {*special, Fault(operation, "lost")}]
        return [*special, faults[next(turn[len(faults)]) % len(faults)]]

    return packed(
        {
            way: {handler: [fault for name in names for fault in some(name)] for handler, names in handlers.items()}
            for way, handlers in OPERATIONS.items()
        }
    )


def test_every_operation_has_a_case(calm: Calm) -> None:
    """A new operation, or a new event of an extraction's life, cannot escape the faults."""
    called = {(h, n) for handlers in calm.seen.values() for h, names in handlers.items() for n in names}
    listed = {(h, n) for handlers in OPERATIONS.values() for h, names in handlers.items() for n in names}
    assert called == listed
    assert {name.partition(" ")[2] for _, name in listed} >= set(EVENTS.values())


@pytest.mark.parametrize(("way", "faults"), some_faults())
def test_no_single_failure_of_aws_loses_a_job(at: Cloud, calm: Calm, way: str, faults: Mapping[str, Fault]) -> None:
    """R-000-73..76, R-002-4, R-AWS-10: whatever fails, redelivery and sweeper bring about the same end."""
    survived(at, calm, way, faults)


@pytest.mark.soak
@pytest.mark.parametrize(("way", "faults"), every_fault())
def test_no_failure_of_aws_at_all_loses_a_job(at: Cloud, calm: Calm, way: str, faults: Mapping[str, Fault]) -> None:
    """The same for every operation and every fault."""
    survived(at, calm, way, faults)


def survived(at: Cloud, calm: Calm, way: str, faults: Mapping[str, Fault]) -> None:
    """Play a way with these faults; each must have happened, and none may be seen at the end."""
    at.arm(faults)
    for handler, fault in faults.items():
        if fault.operation in KEPT:
            at.restart(handler)
    job_id, ids = played(at, WAYS[way])
    assert sorted(fault.operation for fault in at.spoilt) == sorted(fault.operation for fault in faults.values())
    assert proven(at, WAYS[way], job_id, ids, faults) == calm.digests[way]
