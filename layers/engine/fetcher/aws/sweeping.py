"""What the sweeper and the dead-letter consumer decide about one extraction (`design.md` §4, §6 o and p)."""

from enum import StrEnum

from fetcher.core.clock import from_rfc3339
from fetcher.core.extraction import Extraction
from fetcher.core.lifecycle import STALLED_LIMIT
from fetcher.errors import CanceledError, FetcherError, TimedOutError


class Action(StrEnum):
    """What to do with an overdue extraction."""

    WAIT = "wait"
    SEND = "send"
    FAIL = "fail"


def decide(extraction: Extraction, now: int, max_queued_ms: int) -> tuple[Action, FetcherError | None]:
    """Decide by the stored record alone. Times in milliseconds since the epoch."""
    if extraction.terminal or extraction.claimed_at(now):
        return Action.WAIT, None
    if extraction.cancel_requested_at:
        return Action.FAIL, CanceledError("the job was canceled")
    if extraction.stalled >= STALLED_LIMIT:
        return Action.FAIL, stalled_error()
    queued = now - from_rfc3339(extraction.created_at)
    if extraction.claim is None and queued > max_queued_ms:
        return Action.FAIL, TimedOutError("the job waited too long for a worker")
    return Action.SEND, None


def stalled_error() -> FetcherError:
    """The end of an extraction that five workers did not get further with."""
    return FetcherError("the job was tried five times without getting further")
