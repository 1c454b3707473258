"""Which operations of AWS there are, how each can fail, and which of these faults come together in one run.

`OPERATIONS` is the list of what the handlers call, each in the scenarios (`tests.scenarios`) that show it
first or that it means something of its own in.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest

from tests.cloudproxy import Fault, Kind
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER

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
            "dynamodb:GetItem SOURCE/GATE",
            "dynamodb:PutItem SOURCE/SCHEMA",
            "dynamodb:Query SOURCE/SLOT",
            "dynamodb:TransactWriteItems finish",
            "dynamodb:UpdateItem begin an upload",
            "dynamodb:UpdateItem claim",
            "dynamodb:UpdateItem free an ended job's slot",
            "dynamodb:UpdateItem seal",
            "dynamodb:UpdateItem take a slot",
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
            "dynamodb:UpdateItem free a slot",
            "dynamodb:UpdateItem hand over",
            "sqs:SendMessage work",
        ),
    },
    "released": {
        EXTRACT: (
            "dynamodb:UpdateItem free a slot",
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
            "dynamodb:Query SOURCE/SLOT",
            "dynamodb:TransactWriteItems fail unclaimed canceled",
            "dynamodb:UpdateItem cancel",
            "sqs:SendMessage notifications",
        ),
    },
    "canceled, sealed": {
        SUBMIT: (
            "dynamodb:UpdateItem free an ended job's slot",
            "s3:AbortMultipartUpload results",
            "s3:DeleteObject results",
            "s3:ListObjectsV2 manifests",
        ),
    },
    "canceled, swept": {
        SWEEPER: (
            "dynamodb:GetItem EXTRACTION/REQUEST",
            "dynamodb:Query SOURCE/SLOT",
            "dynamodb:TransactWriteItems fail unclaimed canceled",
            "dynamodb:UpdateItem free an ended job's slot",
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
            "dynamodb:Query SOURCE/SLOT",
            "dynamodb:TransactWriteItems fail unclaimed",
            "dynamodb:UpdateItem free an ended job's slot",
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
            "s3:ListObjectsV2 results",
        ),
    },
    "slow": {
        EXTRACT: ("dynamodb:UpdateItem beat",),
    },
    "renewed": {
        EXTRACT: ("dynamodb:UpdateItem renew a slot",),
    },
    "waited for a slot": {
        EXTRACT: (
            "dynamodb:UpdateItem wait",
            "sqs:SendMessage work",
        ),
    },
    "waited for the source": {
        EXTRACT: (
            "dynamodb:UpdateItem close a gate",
            "dynamodb:UpdateItem free a slot",
            "dynamodb:UpdateItem try again",
            "dynamodb:UpdateItem wait",
        ),
    },
    "tried again": {
        SUBMIT: ("dynamodb:GetItem EXTRACTION/META",),
    },
}

COMMON: tuple[Kind, ...] = ("throttled", "broken", "lost", "unheard")
"""What every operation can answer."""

SPECIAL = ("partial", "precondition", "busy key", "no such upload", "invalid part")
"""What only some can: always among what `make test` runs."""

LATE = (
    "dynamodb:TransactWriteItems accept",
    "dynamodb:TransactWriteItems finish",
    "dynamodb:UpdateItem beat",
    "dynamodb:UpdateItem claim",
    "dynamodb:UpdateItem renew a slot",
    "events:PutEvents",
    "s3:CompleteMultipartUpload results",
    "sqs:SendMessage work",
)
"""What takes effect and then never answers, each time: a job's turns. Other writes do so in the full product."""

Case = tuple[str, Mapping[str, Sequence[Fault]]]


@dataclass(frozen=True, slots=True)
class Spot:
    """A fault, in the handler and the scenario where it happens."""

    way: str
    handler: str
    fault: Fault

    @property
    def traits(self) -> tuple[str, ...]:
        """What a failure could depend on."""
        service = self.fault.operation.partition(":")[0]
        return (
            self.handler,
            service if service in {"dynamodb", "s3", "sqs"} else "another",
            "write" if writes(self.fault.operation) else "read",
            self.fault.kind,
            "once" if self.fault.calls else "whole",
        )

    @property
    def pairs(self) -> set[object]:
        """The pairs of its traits."""
        return set(combinations(enumerate(self.traits), 2))

    @property
    def fatal(self) -> bool:
        """Whether it can end the invocation, since no repeat gets past it."""
        return self.fault.calls is None or self.fault.kind in SPECIAL


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
    if operation == "s3:CompleteMultipartUpload results":
        once.append("invalid part")
    if operation == "events:PutEvents":
        once.append("partial")
    if writes(operation):
        once.append("late")
    down: list[Kind] = ["broken", "throttled", *(["lost"] if writes(operation) else [])]  # type: ignore[list-item] # Kinds
    return [Fault(operation, kind) for kind in (*once, *COMMON)] + [Fault(operation, kind, calls=None) for kind in down]


def every_spot() -> Iterator[list[Spot]]:
    """Yield all that can happen to each operation of each handler in each scenario."""
    for way, handlers in OPERATIONS.items():
        for handler, names in handlers.items():
            for name in names:
                yield [Spot(way, handler, fault) for fault in faults_of(name)]


def every_fault() -> list[Case]:
    """The full product, one fault of a handler in a run."""
    return list(packed((spot for spots in every_spot() for spot in spots), together=False))


def chosen() -> list[Spot]:
    """One fault of each operation and all that are special, so that each pair of traits which can occur does.

    Of faults that bring as many new pairs, the one whose kind is rarest so far.
    """
    seen: set[object] = set()
    used: Counter[tuple[str, ...]] = Counter()
    found: list[Spot] = []

    def take(spots: Iterable[Spot]) -> None:
        best = min(spots, key=lambda spot: (-len(spot.pairs - seen), used[spot.traits[-2:]]))
        seen.update(best.pairs)
        # A whole invocation takes a run of its own, and being throttled in all of it seconds of backoff.
        used[best.traits[-2:]] += {"once": 1, "whole": 2}[best.traits[-1]] * (
            2 if best.fault.kind == "throttled" else 1
        )
        found.append(best)

    every = list(every_spot())
    for spots in every:
        for spot in (spot for spot in spots if spot.fault.kind in SPECIAL):
            take([spot])
        late = [spot for spot in spots if spot.fault.kind == "late" and spot.fault.operation in LATE]
        take(late or [spot for spot in spots if spot.fault.kind not in SPECIAL])
    left = [spot for spots in every for spot in spots]
    while left := [spot for spot in left if not spot.pairs <= seen]:
        take(left)
    return found


def some_faults() -> list[Case]:
    """What `make test` runs: in one run of a scenario, all of its faults that a repeat gets past, or one other."""
    return list(packed(chosen(), together=True))


def packed(spots: Iterable[Spot], *, together: bool) -> Iterator[Case]:
    """Put faults into runs of their scenarios; those of different handlers share a run."""
    lanes: dict[str, dict[str, list[list[Fault]]]] = {}
    for spot in spots:
        runs = lanes.setdefault(spot.way, {}).setdefault(spot.handler, [])
        if together and not spot.fatal:
            passed = next((run for run in runs if _joins(spot, run)), None)
            if passed is not None:
                passed.append(spot.fault)
                continue
        runs.append([spot.fault])
    for way, handlers in lanes.items():
        for run in zip_longest(*handlers.values(), fillvalue=[]):
            yield way, {handler: tuple(faults) for handler, faults in zip(handlers, run, strict=True) if faults}


def _joins(spot: Spot, run: Sequence[Fault]) -> bool:
    """Whether a fault may come with these: all of them are got past, and each is of an operation of its own."""
    return all(
        not Spot(spot.way, spot.handler, fault).fatal and fault.operation != spot.fault.operation for fault in run
    )
