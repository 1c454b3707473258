"""The transition table as a model: random histories of workers, sweepers, cancels and clocks."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.core.lifecycle import TABLE, TERMINAL, Event, Status
from fetcher.core.rules import applied, holds

LEASE = 60_000
NEW: dict[str, Any] = {
    "PK": "T#t#EXTRACTION#x",
    "GSI2PK": "ACTIVE#1",
    "status": "pending",
    "generation": 0,
    "attempts": 0,
    "stalled": 0,
    "lookAt": 30_000,
}
LEGAL = {
    ("pending", "pending"),
    ("pending", "processing"),
    ("pending", "failed"),
    ("processing", "processing"),
    ("processing", "completed"),
    ("processing", "failed"),
}
BY_THE_CLAIM = (
    Event.BEAT,
    Event.NOTE,
    Event.CHECKPOINT,
    Event.SEAL,
    Event.BEGIN,
    Event.GO_ON,
    Event.RELEASE,
    Event.HAND_OVER,
    Event.WAIT,
    Event.RETRY,
)


def values(now: int, worker: str, item: Mapping[str, Any], *, old: bool) -> dict[str, Any]:
    """Everything any event may ask for; with `old`, as somebody knows it who saw the item before its last counts."""
    late = int(old)
    return {
        "now": now,
        "time": f"t{now}",
        "claim": worker,
        "generation": item["generation"] - late,
        "retries": item.get("retries", 0) - late,
        "writer": item.get("writer", 0) - late,
        "seen": item.get("lookAt", -1),
        "leaseUntil": now + LEASE,
        "lookAt": now + 5,
        "progress": {"rows": now},
        "spentMs": now,
        "checkpoint": {"key": worker},
        "sealed": {"size": 1},
        "result": {"path": worker},
        "error": {"code": "FET-2090"},
        "expiresAt": 1,
    }


steps = st.lists(
    st.tuples(
        st.sampled_from(list(Event)),
        st.sampled_from(["w1", "w2", "w3"]),
        st.sampled_from([0, 1, 1_000, LEASE - 1, LEASE, LEASE + 1]),
        st.booleans(),
    ),
    max_size=40,
)


def after(item: Mapping[str, Any], event: Event, worker: str, now: int, *, old_message: bool) -> dict[str, Any] | None:
    """Let an event happen; None when its condition refuses."""
    asked = values(now, worker, item, old=old_message)
    rule = TABLE[event]
    return applied(rule, item, asked) if holds(rule.when, item, asked) else None


@given(steps)
@settings(max_examples=400, deadline=None)
def test_every_history_keeps_the_promises_of_the_table(history: list[tuple[Event, str, int, bool]]) -> None:
    """R-000-63, R-000-68, R-000-69: legal statuses only, one end, and a lost claim writes nothing."""
    item, now, ended = dict(NEW), 0, 0
    for event, worker, passed, old_message in history:
        now += passed
        done = after(item, event, worker, now, old_message=old_message)
        if done is None:
            continue
        assert (item["status"], done["status"]) in LEGAL
        if event in BY_THE_CLAIM or event in (Event.FINISH, Event.FAIL, Event.FAIL_CANCELED):
            assert item["claimToken"] == worker
        if event in (Event.CLAIM, Event.TAKE_OVER):
            assert "claimToken" not in item or item["leaseUntil"] < now
            assert not old_message
        if event is Event.FINISH:
            assert "cancelRequestedAt" not in item
        ended += done["status"] in TERMINAL and item["status"] not in TERMINAL
        item = done
    assert ended <= 1
    assert ("GSI2PK" in item) == ("lookAt" in item) == (item["status"] not in TERMINAL)


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_nothing_happens_after_the_end(event: Event, status: Status) -> None:
    """R-000-63: a terminal status never changes."""
    item = {**NEW, "status": str(status), "claimToken": "w1", "leaseUntil": 0}
    assert after(item, event, "w1", LEASE, old_message=False) is None


def test_a_dead_lease_is_taken_and_counted_and_a_live_one_is_not() -> None:
    """B-03, R-000-69: only after the lease's end, and the former owner can write nothing from then on."""
    first = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert first is not None
    assert after(first, Event.TAKE_OVER, "w2", LEASE, old_message=False) is None
    second = after(first, Event.TAKE_OVER, "w2", LEASE + 1, old_message=False)
    assert second is not None
    assert (second["stalled"], second["attempts"]) == (1, 2)
    for event in (*BY_THE_CLAIM, Event.FINISH, Event.FAIL, Event.FAIL_CANCELED):
        assert after(second, event, "w1", LEASE + 2, old_message=False) is None


def test_noting_an_upload_is_no_progress() -> None:
    """Design §4: only a place to go on from sets `stalled` to 0, so a crash loop ends after five."""
    item = {**NEW, "status": "processing", "claimToken": "w1", "leaseUntil": LEASE, "stalled": 3}
    noted = after(item, Event.NOTE, "w1", 1, old_message=False)
    assert noted is not None
    assert noted["stalled"] == 3


def test_others_end_a_canceled_job_as_canceled_only() -> None:
    """Design §4: an accepted cancel always ends canceled, whoever ends it."""
    item = {**NEW, "cancelRequestedAt": "t1"}
    assert after(item, Event.FAIL_UNCLAIMED, "sweeper", 1, old_message=False) is None
    assert after(item, Event.FAIL_UNCLAIMED_CANCELED, "sweeper", 1, old_message=False) is not None


def test_a_checkpoint_forgives_and_a_release_counts() -> None:
    """Design §4: `stalled` is set to 0 by a checkpoint alone."""
    claimed = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert claimed is not None
    released = after(claimed, Event.RELEASE, "w1", 1, old_message=False)
    assert released is not None
    assert released["stalled"] == 1
    again = after(released, Event.CLAIM, "w2", 2, old_message=False)
    assert again is not None
    assert again["stalled"] == 1
    saved = after(again, Event.CHECKPOINT, "w2", 3, old_message=False)
    assert saved is not None
    assert saved["stalled"] == 0


def test_a_hand_over_kills_the_old_messages() -> None:
    """Design §4: the generation grows, so a message of before claims nothing."""
    claimed = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert claimed is not None
    handed = after(claimed, Event.HAND_OVER, "w1", 1, old_message=False)
    assert handed is not None
    assert after(handed, Event.CLAIM, "w2", 2, old_message=True) is None
    assert after(handed, Event.CLAIM, "w2", 2, old_message=False) is not None


def test_a_wait_is_no_failure_and_kills_the_old_messages() -> None:
    """Design §6 j: `stalled` and `tries` untouched, the generation grows, the claim is free."""
    item = {**NEW, "status": "processing", "claimToken": "w1", "leaseUntil": LEASE, "stalled": 3, "tries": 2}
    waiting = after(item, Event.WAIT, "w1", 1, old_message=False)
    assert waiting is not None
    assert (waiting["stalled"], waiting["tries"], waiting["waits"], waiting["generation"]) == (3, 2, 1, 1)
    assert "claimToken" not in waiting
    assert after(waiting, Event.CLAIM, "w2", 2, old_message=True) is None
    assert after({**item, "cancelRequestedAt": "t"}, Event.WAIT, "w1", 1, old_message=False) is None
    canceled = after(waiting, Event.CANCEL, "anyone", 2, old_message=False)
    assert canceled is not None
    assert after(canceled, Event.FAIL_UNCLAIMED_CANCELED, "submit", 3, old_message=False) is not None


def test_tries_outlive_the_attempt_and_a_checkpoint_forgives_them() -> None:
    """Design §8: five tries over the whole extraction; a source that has answered since has five again."""
    item: dict[str, Any] | None = {**NEW}
    for event, worker in (
        (Event.CLAIM, "w1"),
        (Event.RETRY, "w1"),
        (Event.HAND_OVER, "w1"),
        (Event.CLAIM, "w2"),
        (Event.RETRY, "w2"),
        (Event.RELEASE, "w2"),
        (Event.CLAIM, "w3"),
    ):
        assert item is not None
        item = after(item, event, worker, 1, old_message=False)
    assert item is not None
    assert (item["tries"], item["retries"]) == (2, 2)
    saved = after(item, Event.CHECKPOINT, "w3", 2, old_message=False)
    assert saved is not None
    assert (saved["tries"], saved["retries"]) == (0, 2)


@pytest.mark.parametrize(("event", "count"), [(Event.RETRY, "retries"), (Event.GO_ON, "writer")])
def test_what_is_counted_is_counted_once(event: Event, count: str) -> None:
    """R-AWS-10: who sends it again after its answer was lost knows the count of before, and is refused."""
    claimed = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert claimed is not None
    counted = after(claimed, event, "w1", 1, old_message=False)
    assert counted is not None
    assert counted[count] == 1
    assert after(counted, event, "w1", 1, old_message=True) is None


def test_an_accepted_cancel_can_only_end_as_canceled() -> None:
    """Design §4: finish and an ordinary failure are refused once a cancel was accepted."""
    claimed = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert claimed is not None
    canceled = after(claimed, Event.CANCEL, "anyone", 1, old_message=False)
    assert canceled is not None
    assert after(canceled, Event.FINISH, "w1", 2, old_message=False) is None
    assert after(canceled, Event.FAIL, "w1", 2, old_message=False) is None
    assert after(canceled, Event.FAIL_CANCELED, "w1", 2, old_message=False) is not None


def test_others_never_fail_a_live_worker() -> None:
    """Design §4: the sweeper and the dead letter end only what nobody works on, in their generation."""
    claimed = after(NEW, Event.CLAIM, "w1", 0, old_message=False)
    assert claimed is not None
    assert after(claimed, Event.FAIL_UNCLAIMED, "sweeper", LEASE, old_message=False) is None
    assert after(claimed, Event.FAIL_UNCLAIMED, "sweeper", LEASE + 1, old_message=True) is None
    ended = after(claimed, Event.FAIL_UNCLAIMED, "sweeper", LEASE + 1, old_message=False)
    assert ended is not None
    assert "claimToken" not in ended
