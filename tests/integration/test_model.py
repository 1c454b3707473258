"""An extraction's life as a model beside the real table: after each step, both hold the same item.

The model is the in-memory reading of the very rules that DynamoDB is sent (`fetcher.core.rules`), so a new
event joins by being in the table of `fetcher.core.lifecycle`. Sweeper, worker's end and cancel are the
deployed code, with a clock of the test's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fetcher.aws import dynamo, records, sweeping
from fetcher.aws.dynamo import Refused
from fetcher.aws.extractions import Extractions
from fetcher.aws.outboxes import Outboxes
from fetcher.aws.records import Accepted, Completed, Failed, key, outbox_item
from fetcher.aws.sweeping import Action, Overdue, decide, stalled_error
from fetcher.core.checkpoint import Checkpoint, Mark, to_item
from fetcher.core.clock import rfc3339
from fetcher.core.extraction import Extraction, event_detail, from_item
from fetcher.core.lifecycle import STALLED_LIMIT, TABLE, TERMINAL, Event, Status
from fetcher.core.rules import Equal, Of, Rule, applied, holds
from fetcher.errors import CanceledError, FetcherError, LostClaimError
from fetcher.model import Position
from tests.rig import Rig
from tests.unit.test_lifecycle import LEGAL

pytestmark = pytest.mark.stack

LEASE, WINDOW, DISPATCH, MAX_QUEUED, START = 60_000, 300_000, 30_000, 86_400_000, 1_900_000_000_000
WORKERS = ("w1", "w2", "w3", "w4")
CANCELED = CanceledError("the job was canceled")
OTHERWISE = FetcherError("it failed")
ONLY_UP = ("generation", "attempts", "retries", "waits")
"""Counts that nothing sets back, in the manifest or in the messages; `stalled` and `tries` a checkpoint sets to 0."""

ENDING = {event for event, found in TABLE.items() if any(w.attribute == "completedAt" for w in found.writes)}
"""The events after which an extraction is over: each comes with its outbox item, in one transaction."""


def fenced(found: Rule) -> bool:
    """Whether a rule asks for the claim: only its holder may make this event happen."""
    return Equal("claimToken", Of("claim")) in _terms(found.when)


def _terms(condition: Any) -> Iterator[Any]:
    yield condition
    for term in getattr(condition, "terms", ()):
        yield from _terms(term)


ATTEMPTS = st.tuples(
    st.sampled_from(list(Event)),
    st.sampled_from(WORKERS),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.sampled_from([0, 0, 1]),
)
"""An event, who tries it, how old the message is in generations, and how old the index row."""

FENCED = [event for event, found in TABLE.items() if fenced(found)]


class Life(RuleBasedStateMachine):
    """One extraction among workers, sweepers, cancels and a clock that all of them read."""

    client: Any
    table: str

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.id = uuid4().hex
        self.accepted_cancel = False
        self.end: dict[str, Any] | None = None
        self.extractions = Extractions(
            self.client, self.table, lambda: self.now, lease_ms=LEASE, window_ms=WINDOW, dispatch_ms=DISPATCH
        )
        self.overdue = Overdue(self.client, self.table, lambda: self.now)
        self.item: dict[str, Any] = {}

    # --- what is there

    @initialize(claimed=st.sampled_from([True, True, False]), canceled=st.booleans())
    def accept(self, claimed: bool, canceled: bool) -> None:
        """A job is accepted, and most often claimed at once, and maybe asked to end while it is read."""
        connections = {"pg": f"c-{self.id}"}
        job = Accepted("t", self.id, "payments", self.id, connections, 1, '{"source":"payments"}', "{}", None, self.now)
        assert isinstance(self.extractions.accept(job, None), Extraction)
        self.item = self.stored()
        if claimed:
            self.claim("w1")
        if claimed and canceled:
            self.cancel()

    def stored(self) -> dict[str, Any]:
        """The item as DynamoDB holds it."""
        return self.items()["META"]

    def items(self) -> dict[str, dict[str, Any]]:
        """All items of the extraction, by sort key."""
        answer = self.client.query(
            TableName=self.table,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues=dynamo.marshal({":pk": key("t", self.id)["PK"]}),
            ConsistentRead=True,
        )
        return {item["SK"]: item for item in map(dynamo.unmarshal, answer["Items"])}

    @property
    def extraction(self) -> Extraction:
        """The model's item as the code sees it."""
        return from_item(self.item)

    # --- steps

    @rule(passed=st.sampled_from([1, 1_000, DISPATCH, LEASE - 1, LEASE, LEASE + 1, 15 * 60_000, MAX_QUEUED + 1]))
    def wait(self, passed: int) -> None:
        """Time passes."""
        self.now += passed

    @precondition(lambda self: "claimToken" in self.item and self.end is None)
    @rule(events=st.lists(st.sampled_from(FENCED), min_size=1, max_size=4))
    def work(self, events: list[Event]) -> None:
        """Whoever holds the claim does something with it, in time or too late."""
        worker = self.item["claimToken"]
        for event in events:
            self.happen_to(event, worker, 0, 0)

    @rule(attempts=st.lists(ATTEMPTS, min_size=1, max_size=4))
    def happen(self, attempts: list[tuple[Event, str, int, int]]) -> None:
        """Anything is tried by anyone, with a message or an index row of any age."""
        for attempt in attempts:
            self.happen_to(*attempt)

    def happen_to(self, event: Event, worker: str, age: int, late: int) -> None:
        """Let the rule decide in the model and in the table."""
        given = self.given(worker, age, late)
        expected = applied(TABLE[event], self.item, given) if holds(TABLE[event].when, self.item, given) else None
        if expected is None:
            with pytest.raises(Refused) as refused:
                self.sent(event, given)
            assert refused.value.item == self.item
            return
        self.sent(event, given)
        self.judged(event, worker, expected, late=age != 0)

    def given(self, worker: str, age: int, late: int) -> dict[str, Any]:
        """Everything an event may ask for, as the deployed code would fill it in."""
        mark = Mark(0, Position((("int", str(self.now)),)), (1,))
        return {
            "now": self.now,
            "time": rfc3339(self.now),
            "claim": worker,
            "generation": self.item["generation"] - age,
            "retries": self.item.get("retries", 0) - age,
            "writer": self.item.get("writer", 0) - age,
            "seen": self.item.get("lookAt", 0) - late,
            "leaseUntil": self.now + LEASE,
            "lookAt": self.now + DISPATCH,
            "progress": {"rows": self.now % 1000, "bytes": 0, "tables": {"done": 0, "total": 1}},
            "spentMs": self.now - START,
            "checkpoint": to_item(Checkpoint("k", "results/t/k", versions={}, mark=mark)),
            "sealed": {"parts": [], "planDigest": worker, "datasources": []},
            "result": {"path": worker},
            "error": OTHERWISE.public(),
            "expiresAt": self.now // 1000,
        }

    def sent(self, event: Event, given: Mapping[str, Any]) -> None:
        """Ask DynamoDB for an event: an end in one transaction with its outbox item, all else as one update."""
        if event not in ENDING:
            dynamo.update(self.client, self.table, key("t", self.id), TABLE[event], given)
            return
        canceled = event in {Event.FAIL_CANCELED, Event.FAIL_UNCLAIMED_CANCELED}
        if canceled:
            given = {**given, "error": CANCELED.public()}
        result = given["result"] if event is Event.FINISH else None
        error = None if event is Event.FINISH else given["error"]
        detail = event_detail(self.extraction, {}, given["time"], result=result, error=error)
        actions = [
            dynamo.update_action(self.table, key("t", self.id), TABLE[event], given),
            dynamo.put_action(self.table, outbox_item(self.extraction, detail, self.now, self.now + DISPATCH)),
        ]
        dynamo.transact(self.client, actions, dynamo.token(self.id, str(event), str(self.now), uuid4().hex))

    def judged(self, event: Event, worker: str, expected: Mapping[str, Any], *, late: bool) -> None:
        """What happened was allowed, and is what the model says."""
        before, after = self.item, self.stored()
        canceling = event in {Event.FAIL_CANCELED, Event.FAIL_UNCLAIMED_CANCELED}
        assert after == ({**expected, "error": CANCELED.public()} if canceling else expected)
        if fenced(TABLE[event]):
            assert before["claimToken"] == worker
        if event in {Event.FAIL_UNCLAIMED, Event.FAIL_UNCLAIMED_CANCELED, Event.CLAIM, Event.TAKE_OVER}:
            assert "claimToken" not in before or before["leaseUntil"] < self.now, "a live worker lost its job"
            assert not late, "an old message had an effect"
        self.moved(after)

    def moved(self, after: dict[str, Any]) -> None:
        """Take over the new state, if it may follow the old one."""
        assert (self.item["status"], after["status"]) in LEGAL | {(str(s), str(s)) for s in TERMINAL}
        assert all(self.item.get(name, 0) <= after.get(name, 0) <= self.item.get(name, 0) + 1 for name in ONLY_UP)
        self.accepted_cancel |= "cancelRequestedAt" in after
        if after["status"] in TERMINAL and self.end is None:
            self.end = after
        self.item = after

    # --- the deployed code

    @rule(worker=st.sampled_from(WORKERS))
    def claim(self, worker: str) -> None:
        """A worker has the job's message."""
        free = "claimToken" not in self.item or self.item.get("leaseUntil", 0) < self.now
        mine = self.item.get("claimToken") == worker
        taken = self.extractions.claim("t", self.id, self.item["generation"], worker)
        if self.end is None or not mine:
            assert (taken is not None) == (self.end is None and (free or mine))
        self.moved(self.stored())

    @rule(worker=st.sampled_from(["the holder", *WORKERS]), well=st.booleans())
    def end_by_worker(self, worker: str, well: bool) -> None:
        """A worker, in possession of the job or not, comes to an end with it."""
        worker = self.item.get("claimToken", worker) if worker == "the holder" else worker
        mine = self.end is None and self.item.get("claimToken") == worker
        outcome = Completed({"path": worker}) if well else Failed(OTHERWISE)
        held = replace(self.extraction, claim=worker)
        try:
            ended = self.extractions.terminate(held, outcome, claimed=True)
        except LostClaimError:
            assert not mine
        else:
            assert mine or (self.end is not None and self.end.get("claimToken") == worker)
            assert ended.terminal
        self.moved(self.stored())

    @rule()
    def cancel(self) -> None:
        """A client cancels, by both halves of the route."""
        accepted = self.extractions.cancel("t", self.id)
        assert accepted == (self.end is None)
        self.moved(self.stored())
        if accepted:
            self.end_by_others(Failed(CANCELED))

    @rule()
    def dead_letter(self) -> None:
        """The job's message was received five times."""
        if self.end is None:
            self.end_by_others(Failed(stalled_error(self.extraction)))

    def end_by_others(self, outcome: Failed) -> None:
        works = self.extraction.claimed_at(self.now)
        try:
            self.extractions.terminate(self.extraction, outcome, claimed=False)
        except LostClaimError:
            assert works
        else:
            assert not works
        self.moved(self.stored())

    @rule(able=st.booleans())
    def sweep(self, able: bool) -> None:
        """The sweeper runs at any moment, maybe in vain, while nothing can be sent: then what was due is due."""
        before = self.item
        self.swept(able=able)
        assert able or self.item == before

    def swept(self, *, able: bool = True) -> Action | None:
        """Sweep what is due of this job; what was decided, or None when nothing was due."""
        for due in self.overdue.rows():
            if due.key["PK"] != key("t", self.id)["PK"] or due.key["SK"] != "META":
                continue
            found = self.overdue.item(due)
            assert isinstance(found, Extraction)
            action, error = decide(found, self.now, MAX_QUEUED)
            until = None if action is Action.WAIT else self.overdue.take(due)
            if until is None:
                return Action.WAIT
            self.moved(self.stored())
            if not able:
                self.overdue.give_back(due, until)
                self.moved(self.stored())
            elif error is not None:
                self.end_by_others(Failed(error))
            return action
        return None

    @precondition(lambda self: self.end is not None)
    @rule()
    def publish(self) -> None:
        """Notify marks the event; a second mark has no effect."""
        outboxes = Outboxes(self.client, self.table, lambda: self.now, dispatch_ms=DISPATCH)
        found = outboxes.get("t", self.id)
        assert found is not None
        assert outboxes.published(found) == (found.published_at is None)

    # --- what is always so

    @invariant()
    def both_agree(self) -> None:
        """R-000-63, R-000-73: model and table hold the same; an end never changes and has exactly its event."""
        if not self.item:
            return
        items = self.items()
        assert items["META"] == self.item
        assert sorted(items) == ["META", *(["OUTBOX#TERMINAL"] if self.end else []), "REQUEST"]
        if self.end is None:
            return
        assert self.item == self.end
        assert items["OUTBOX#TERMINAL"]["eventId"] == f"fetcher.job.{self.end['status']}.{self.id}"
        if self.accepted_cancel:
            assert self.end["status"] == str(Status.FAILED)
            assert self.end["error"]["family"] == "canceled"

    @invariant()
    def nothing_is_lost(self) -> None:
        """Design §4: whatever has not ended is in the sweeper's index, and only that."""
        if self.item:
            assert ("GSI2PK" in self.item) == ("lookAt" in self.item) == (self.end is None)

    def teardown(self) -> None:
        """Whatever happened, the sweeper alone brings it to an end, with workers that only ever die."""
        if not self.item:
            return
        for number in range(2 * STALLED_LIMIT + 4):
            if self.end is not None:
                break
            assert "lookAt" in self.item
            self.now = max(self.now, self.item["lookAt"], self.item.get("leaseUntil", 0)) + MAX_QUEUED
            action = self.swept()
            assert action is not None, "not due, though its time has passed"
            if action is Action.SEND:
                self.extractions.claim("t", self.id, self.item["generation"], f"dying {number}")
                self.moved(self.stored())
        assert self.end is not None, self.item
        self.both_agree()
        for where in (key("t", self.id), {**key("t", self.id), "SK": "OUTBOX#TERMINAL"}):
            self.client.delete_item(TableName=self.table, Key=dynamo.marshal(where))


@pytest.fixture(autouse=True)
def where(service: Rig) -> None:
    """Let lives happen in the module's own table."""
    Life.client, Life.table = service.dynamodb, service.env["FETCHER_MAIN_TABLE"]


@pytest.mark.parametrize("canceled", [False, True])
@pytest.mark.parametrize("event", list(Event))
def test_after_any_event_the_job_can_be_ended(event: Event, canceled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-000-73..76: whatever a worker did last, the sweeper ends the job; as canceled if that was accepted."""
    monkeypatch.setattr(records, "SHARDS", 1)
    monkeypatch.setattr(sweeping, "SHARDS", 1)
    life = Life()
    life.accept(claimed=True, canceled=canceled)
    life.happen_to(event, "w1", 0, 0)
    life.both_agree()
    life.nothing_is_lost()
    life.teardown()


def lived(examples: int, steps: int) -> None:
    """Let so many lives happen; a failing one is shown step by step, as it was.

    One shard of the sweeper's index is as good as ten here, and asked ten times as fast.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SHARDS", 1)
        patch.setattr(sweeping, "SHARDS", 1)
        run_state_machine_as_test(
            Life,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            ),
        )


def test_a_life_in_the_table_is_the_life_of_the_model() -> None:
    """R-000-63, R-000-68, R-000-69, R-000-73, R-002-12."""
    lived(examples=12, steps=15)


@pytest.mark.soak
def test_many_long_lives_in_the_table() -> None:
    """The same, for minutes."""
    lived(examples=600, steps=60)
