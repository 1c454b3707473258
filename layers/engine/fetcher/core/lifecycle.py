"""The life of an extraction: one table of events, each with its condition and its writes.

    pending ─claim─► processing ─finish─► completed
       │               │  ▲ └─ hand over ─► processing (claim free, generation + 1)
       └──fail──► failed ◄┘

Source: `design.md` §3 and §4. Everything that changes an extraction goes through this table; nothing
else writes its status, claim, generation or `lookAt`.

`generation` is in the message and changes only by a hand-over or a wait, so old messages die by it. `stalled`
counts claims over a dead lease and releases since the last checkpoint; five of them end the extraction.
`tries` counts what a source was asked for in vain since the last checkpoint, over all attempts; `retries`
and `waits` count for the manifest, and nothing sets them back.
"""

from enum import StrEnum

from fetcher.core.rules import (
    Absent,
    Add,
    Condition,
    Drop,
    Equal,
    Keep,
    Less,
    Of,
    Present,
    Put,
    Rule,
    either,
    every,
)

STALLED_LIMIT = 5
RELEASE_MS = 10 * 60_000
DISPATCHED_MS = 15 * 60_000
SWEPT_MS = 15 * 60_000
KEEP_SECONDS = 90 * 86_400
OUTBOX_KEEP_SECONDS = 30 * 86_400


class Status(StrEnum):
    """The four public statuses; the last two never change."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED})


class Event(StrEnum):
    """Everything that can happen to an extraction."""

    DISPATCH = "dispatch"
    CLAIM = "claim"
    TAKE_OVER = "take over"
    BEAT = "beat"
    NOTE = "note an upload"
    CHECKPOINT = "checkpoint"
    SEAL = "seal"
    BEGIN = "begin an upload"
    GO_ON = "go on with an upload"
    RETRY = "try again"
    HAND_OVER = "hand over"
    WAIT = "wait"
    RELEASE = "release"
    FINISH = "finish"
    FAIL = "fail"
    FAIL_CANCELED = "fail canceled"
    FAIL_UNCLAIMED = "fail unclaimed"
    FAIL_UNCLAIMED_CANCELED = "fail unclaimed canceled"
    CANCEL = "cancel"
    SWEEP = "sweep"


PENDING = Equal("status", Status.PENDING)
PROCESSING = Equal("status", Status.PROCESSING)
MINE = every(Equal("claimToken", Of("claim")), PROCESSING)
THIS_GENERATION = Equal("generation", Of("generation"))
NOT_CANCELED = Absent("cancelRequestedAt")
UNCLAIMED = Absent("claimToken")
DEAD_LEASE = every(PROCESSING, Present("claimToken"), Less("leaseUntil", Of("now")))
FREE = either(PENDING, every(PROCESSING, UNCLAIMED))
NOBODY_WORKS = either(FREE, DEAD_LEASE)

_LEASE = (Put("leaseUntil", Of("leaseUntil")), Put("lookAt", Of("leaseUntil")))
_CLAIMED = (
    Put("status", Status.PROCESSING),
    Put("claimToken", Of("claim")),
    Keep("startedAt", Of("time")),
    Add("attempts", 1),
    *_LEASE,
)
_BEAT = (Put("progress", Of("progress")), Put("spentMs", Of("spentMs")), *_LEASE)
_HANDED_OVER = (
    Add("generation", 1),
    Put("lookAt", Of("lookAt")),
    Put("spentMs", Of("spentMs")),
    Drop("claimToken"),
    Drop("leaseUntil"),
)
_ENDED = (
    Put("completedAt", Of("time")),
    Put("expiresAt", Of("expiresAt")),
    Put("progress", Of("progress")),
    Put("spentMs", Of("spentMs")),
    Drop("leaseUntil"),
    Drop("lookAt"),
    Drop("GSI2PK"),
)
_FAILED = (Put("status", Status.FAILED), Put("error", Of("error")), *_ENDED)


def _mine(*more: Condition) -> Condition:
    return every(MINE, *more)


def _counted(name: str) -> Condition:
    """Mine, and the count is as I know it: what is sent again after its answer was lost counts once."""
    return _mine(either(Absent(name), Equal(name, Of(name))))


TABLE: dict[Event, Rule] = {
    Event.DISPATCH: Rule(every(PENDING, THIS_GENERATION, UNCLAIMED), (Put("lookAt", Of("lookAt")),)),
    Event.CLAIM: Rule(every(THIS_GENERATION, FREE), _CLAIMED),
    Event.TAKE_OVER: Rule(every(THIS_GENERATION, DEAD_LEASE), (*_CLAIMED, Add("stalled", 1))),
    Event.BEAT: Rule(_mine(), _BEAT),
    Event.NOTE: Rule(_mine(), (*_BEAT, Put("checkpoint", Of("checkpoint")))),
    Event.CHECKPOINT: Rule(_mine(), (*_BEAT, Put("checkpoint", Of("checkpoint")), Put("stalled", 0), Put("tries", 0))),
    Event.RETRY: Rule(_counted("retries"), (*_BEAT, Add("tries", 1), Add("retries", 1))),
    Event.SEAL: Rule(_mine(), (*_BEAT, Put("phase", "seal"), Put("sealed", Of("sealed")))),
    Event.BEGIN: Rule(
        _mine(), (*_LEASE, Put("checkpoint", Of("checkpoint")), Put("writer", 0), Drop("phase"), Drop("sealed"))
    ),
    Event.GO_ON: Rule(_counted("writer"), (*_LEASE, Add("writer", 1))),
    Event.HAND_OVER: Rule(_mine(NOT_CANCELED), _HANDED_OVER),
    Event.WAIT: Rule(_mine(NOT_CANCELED), (*_HANDED_OVER, Put("progress", Of("progress")), Add("waits", 1))),
    Event.RELEASE: Rule(
        _mine(),
        (Add("stalled", 1), Put("lookAt", Of("lookAt")), Drop("claimToken"), Drop("leaseUntil")),
    ),
    Event.FINISH: Rule(_mine(NOT_CANCELED), (Put("status", Status.COMPLETED), Put("result", Of("result")), *_ENDED)),
    Event.FAIL: Rule(_mine(NOT_CANCELED), _FAILED),
    Event.FAIL_CANCELED: Rule(_mine(), _FAILED),
    Event.FAIL_UNCLAIMED: Rule(every(THIS_GENERATION, NOT_CANCELED, NOBODY_WORKS), (*_FAILED, Drop("claimToken"))),
    Event.FAIL_UNCLAIMED_CANCELED: Rule(every(THIS_GENERATION, NOBODY_WORKS), (*_FAILED, Drop("claimToken"))),
    Event.CANCEL: Rule(either(PENDING, PROCESSING), (Keep("cancelRequestedAt", Of("time")),)),
    Event.SWEEP: Rule(every(Equal("lookAt", Of("seen")), either(PENDING, PROCESSING)), (Put("lookAt", Of("lookAt")),)),
}
