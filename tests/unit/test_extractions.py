"""Accepting, claiming and ending in a table: who wins, and what the losers learn."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from fetcher.aws.extractions import Extractions
from fetcher.aws.outboxes import Outboxes
from fetcher.aws.records import Accepted, Completed, Duplicate, Failed
from fetcher.aws.sweeping import Action, Overdue, decide
from fetcher.core.canonical import dumps
from fetcher.core.clock import rfc3339
from fetcher.core.extraction import Extraction
from fetcher.core.lifecycle import Status
from fetcher.core.request import MAX_METADATA_BYTES
from fetcher.core.shapes import LONGEST
from fetcher.errors import CanceledError, FetcherError, LostClaimError, Where
from fetcher.model import Limits
from submit.accepting import INLINE_BYTES
from tests.unit.conftest import START, Clock

LEASE, WINDOW, DISPATCH = 60_000, 300_000, 30_000


@pytest.fixture
def table(client: Any, clock: Clock) -> Extractions:
    return Extractions(client, "main", clock, lease_ms=LEASE, window_ms=WINDOW, dispatch_ms=DISPATCH)


def job(name: str, clock: Clock, tenant: str = "default") -> Accepted:
    """A request that is always the same."""
    return Accepted(tenant, name, "payments", "h" * 64, {"pg": "c1"}, 1, '{"source":"payments"}', "{}", None, clock.now)


def accepted(table: Extractions, clock: Clock, name: str = "a", tenant: str = "default") -> Extraction:
    """Accept a request that nothing hinders."""
    made = table.accept(job(name, clock, tenant), None)
    assert isinstance(made, Extraction)
    return made


def answering(table: Extractions, of: Extraction) -> tuple[str | None, str | None]:
    """The job that answers for the request of a job, or else the one whose lock a new job must replace."""
    found, replaces = table.duplicate("default", of.request_hash)
    return found.id if found else None, replaces


@pytest.mark.parametrize(("age", "duplicate"), [(0, True), (299_999, True), (300_000, False), (900_000, False)])
def test_the_window_is_read_from_the_stored_time(table: Extractions, clock: Clock, age: int, duplicate: bool) -> None:
    """B-05, R-000-54: duplicate at 299.999 s, new at 300.000 s; the expiry of items has no say."""
    first = accepted(table, clock)
    clock.now += age
    assert answering(table, first) == (("a", None) if duplicate else (None, None))
    second = table.accept(job("b", clock), None)
    assert (second == Duplicate("a")) == duplicate


def test_the_same_request_of_another_tenant_is_another_job(table: Extractions, clock: Clock) -> None:
    """R-000-58: the tenant is part of every key."""
    accepted(table, clock)
    assert accepted(table, clock, "b", "other").tenant == "other"
    assert table.get("other", "a") is None


def test_exactly_one_retry_of_a_failed_job_wins(table: Extractions, clock: Clock) -> None:
    """R-000-52, R-000-56: the lock changes hands once."""
    first = accepted(table, clock)
    table.terminate(first, Failed(FetcherError("x")), claimed=False)
    assert answering(table, first) == (None, "a")
    assert isinstance(table.accept(job("b", clock), "a"), Extraction)
    assert table.accept(job("c", clock), "a") == Duplicate("b")


def test_an_erased_job_answers_for_nothing_and_one_successor_wins(table: Extractions, clock: Clock) -> None:
    """R-000-51: what a 200 would point to is gone, so the lock changes hands, once."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    ended = table.terminate(claimed, Completed({"path": "p"}), claimed=True)
    assert answering(table, ended) == ("a", None)
    table.erased(ended)
    assert answering(table, ended) == (None, "a")
    assert isinstance(table.accept(job("b", clock), "a"), Extraction)
    assert table.accept(job("c", clock), "a") == Duplicate("b")
    table.erased(ended)
    assert answering(table, ended) == ("b", None)


def test_a_job_whose_cancel_was_accepted_answers_for_nothing_though_it_still_runs(
    table: Extractions, clock: Clock
) -> None:
    """R-000-52: it can only end as failed, so who asks meanwhile would get what somebody else has stopped."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    assert table.cancel("default", "a")
    assert answering(table, claimed) == (None, "a")
    assert isinstance(table.accept(job("b", clock), "a"), Extraction)
    assert table.accept(job("c", clock), "a") == Duplicate("b")
    ended = table.terminate(claimed, Completed({"path": "p"}), claimed=True)
    assert ended.status is Status.FAILED
    assert answering(table, claimed) == ("b", None)


def test_what_a_retry_repeats_is_kept(table: Extractions, clock: Clock) -> None:
    """The hash does not know of it, the record does."""
    made = table.accept(replace(job("a", clock), retry_of="x"), None)
    assert isinstance(made, Extraction)
    found = table.get("default", "a")
    assert found is not None
    assert (made.retry_of, found.retry_of) == ("x", "x")


def test_an_unsure_acceptance_that_is_repeated_is_the_same_job(table: Extractions, clock: Clock) -> None:
    """Design §4: a failed condition whose old lock holds my id means that I won."""
    accepted(table, clock)
    again = table.accept(job("a", clock), None)
    assert isinstance(again, Extraction)
    assert again.id == "a"


def test_a_late_mark_never_overwrites_a_claim(table: Extractions, clock: Clock) -> None:
    """Design §4: dispatched is refused once somebody has claimed."""
    made = accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    table.dispatched(made)
    found = table.get("default", "a")
    assert found is not None
    assert found.look_at == claimed.lease_until == clock.now + LEASE


def test_finish_happens_once_and_a_repeat_by_the_same_worker_is_told_so(table: Extractions, clock: Clock) -> None:
    """R-000-63: unsure → repeat it; the status I wrote, with my token, means yes."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    ended = table.terminate(claimed, Completed({"path": "p"}), claimed=True)
    clock.now += 1
    assert table.terminate(claimed, Completed({"path": "p"}), claimed=True) == ended
    with pytest.raises(LostClaimError):
        table.terminate(replace(claimed, claim="w2"), Completed({"path": "q"}), claimed=True)


def test_a_cancel_turns_finish_into_canceled(table: Extractions, clock: Clock) -> None:
    """Design §4: an accepted cancel always ends canceled."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    assert table.cancel("default", "a")
    ended = table.terminate(claimed, Completed({"path": "p"}), claimed=True)
    assert (ended.status, ended.error, ended.result) == (
        Status.FAILED,
        CanceledError("the job was canceled").public(),
        None,
    )
    assert not table.cancel("default", "a")


def test_ending_frees_the_connection_and_leaves_one_event(table: Extractions, client: Any, clock: Clock) -> None:
    """Design §4: status, event and markers in one transaction; the index holds the event alone."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    table.terminate(claimed, Completed({"path": "p"}), claimed=True)
    overdue, outboxes = (
        Overdue(client, "main", clock),
        Outboxes(client, "main", clock, dispatch_ms=DISPATCH),
    )
    clock.now += 10 * LEASE
    rows = list(overdue.rows())
    assert [row.key["SK"] for row in rows] == ["OUTBOX#TERMINAL"]
    outbox = outboxes.get("default", "a")
    assert outbox is not None
    assert outbox.event_id == "fetcher.job.completed.a"
    until = outboxes.take(outbox)
    assert until is not None
    assert outboxes.take(outbox) is None
    outboxes.give_back(outbox, until)
    assert outboxes.get("default", "a") == outbox
    assert outboxes.take(outbox) == until
    fresh = outboxes.get("default", "a")
    assert fresh is not None
    assert outboxes.published(fresh)
    assert not outboxes.published(fresh)
    outboxes.give_back(outbox, until)
    clock.now += 10 * LEASE
    assert list(overdue.rows()) == []
    assert "SOURCE" not in str(client.scan(TableName="main")["Items"])


def test_a_job_whose_worker_died_is_overdue_and_taken_by_one_sweep(
    table: Extractions, client: Any, clock: Clock
) -> None:
    """Design §4: the sweeper knows one rule."""
    accepted(table, clock)
    assert table.claim("default", "a", 0, "w1") is not None
    overdue = Overdue(client, "main", clock)
    assert list(overdue.rows()) == []
    clock.now += LEASE + 1
    (due,) = overdue.rows()
    found = overdue.item(due)
    assert isinstance(found, Extraction)
    assert decide(found, clock.now, 10**9) == (Action.SEND, None)
    assert overdue.take(due)
    assert not overdue.take(due)
    assert overdue.item(due) is None


def test_a_sweep_in_vain_leaves_its_job_due_and_one_that_moved_on_alone(
    table: Extractions, client: Any, clock: Clock
) -> None:
    """R-000-75, design §4: the next sweep does what this one could not."""
    accepted(table, clock)
    clock.now += DISPATCH
    overdue = Overdue(client, "main", clock)
    (due,) = overdue.rows()
    until = overdue.take(due)
    assert until is not None
    assert list(overdue.rows()) == []
    overdue.give_back(due, until)
    assert list(overdue.rows()) == [due]
    until = overdue.take(due)
    assert until is not None
    claimed = table.claim("default", "a", 0, "w1")
    overdue.give_back(due, until)
    assert table.get("default", "a") == claimed


class Unanswering:
    """A client whose transactions take effect and are never answered, as when only the way back is broken."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **actions: Any) -> None:
        """Do it, and lose the answer."""
        self._client.transact_write_items(**actions)
        raise ConnectionClosedError(endpoint_url="http://127.0.0.1")


def test_an_end_that_is_never_answered_is_an_end(table: Extractions, client: Any, clock: Clock) -> None:
    """R-000-63: so whoever wrote it goes on to clean up, to free the slots and to announce it."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    unheard = Extractions(Unanswering(client), "main", clock, lease_ms=LEASE, window_ms=WINDOW, dispatch_ms=DISPATCH)
    ended = unheard.terminate(claimed, Failed(FetcherError("x")), claimed=True)
    assert (ended.status, ended) == (Status.FAILED, table.get("default", "a"))
    clock.now += 1
    with pytest.raises(LostClaimError):
        unheard.terminate(claimed, Failed(FetcherError("y")), claimed=False)


@pytest.mark.parametrize(
    ("changes", "later", "action", "family"),
    [
        ({}, 0, Action.SEND, None),
        ({}, 86_400_001, Action.FAIL, "timeout"),
        ({"status": Status.PROCESSING, "claim": "w", "lease_until": START + 10}, 0, Action.WAIT, None),
        ({"status": Status.PROCESSING, "claim": "w", "lease_until": START - 1}, 0, Action.SEND, None),
        ({"status": Status.PROCESSING, "claim": "w", "lease_until": START - 1}, 86_400_001, Action.SEND, None),
        ({"stalled": 5}, 0, Action.FAIL, "internal"),
        ({"cancel_requested_at": "t"}, 0, Action.FAIL, "canceled"),
        ({"status": Status.COMPLETED}, 0, Action.WAIT, None),
    ],
)
def test_what_the_sweeper_decides(changes: dict[str, Any], later: int, action: Action, family: str | None) -> None:
    """Design §4: pending has no limit but its age; a dead lease has `stalled`; a live worker is left alone."""
    made = Extraction(
        "default", "a", Status.PENDING, "payments", "h", {}, 0, 0, 0, {}, 0, rfc3339(START), look_at=START
    )
    decided, error = decide(replace(made, **changes), START + later, 86_400_000)
    assert (decided, error.family if error else None) == (action, family)


def test_a_claim_whose_answer_was_lost_is_still_mine(table: Extractions, clock: Clock) -> None:
    """R-AWS-10: the repeat of an applied claim is refused by its own token, and that is a yes."""
    accepted(table, clock)
    first = table.claim("default", "a", 0, "w1")
    assert table.claim("default", "a", 0, "w1") == first
    assert table.claim("default", "a", 0, "w2") is None


def test_a_hand_over_whose_answer_was_lost_is_still_done(table: Extractions, clock: Clock) -> None:
    """The next attempt's message must be sent all the same."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    assert table.hand_over(claimed) == table.hand_over(claimed)
    with pytest.raises(LostClaimError):
        table.hand_over(replace(claimed, generation=7))


@pytest.mark.parametrize("count", ["retries", "writer"])
def test_a_count_whose_answer_was_lost_is_one(table: Extractions, clock: Clock, count: str) -> None:
    """R-AWS-10: a try of a source, a block of part numbers: the repeat finds its own effect, and another's is none."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None

    def counted(known: Extraction) -> Extraction:
        return table.retry(known, {}, 0) if count == "retries" else table.go_on(known)

    first = counted(claimed)
    clock.now += 1
    assert counted(claimed) == first
    assert (getattr(first, count), getattr(counted(first), count)) == (1, 2)
    for known in (claimed, replace(first, claim="w2")):
        with pytest.raises(LostClaimError):
            counted(known)
    table.terminate(first, Failed(FetcherError("x")), claimed=True)
    with pytest.raises(LostClaimError):
        counted(first)


@pytest.mark.parametrize(("seconds", "later"), [(1, 61_000), (900, 960_000), (901, 901_000), (7_200, 7_200_000)])
def test_a_wait_is_looked_at_after_its_message_or_by_its_time_alone(
    table: Extractions, clock: Clock, seconds: int, later: int
) -> None:
    """Design §4, §8: `lookAt` is the delay and a minute; beyond 900 s no message can be kept back."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    waiting = table.wait(replace(claimed, progress={"current": "waiting for a slot"}), seconds)
    assert waiting.look_at == clock.now + later
    assert (waiting.generation, waiting.waits, waiting.stalled, waiting.claim) == (1, 1, 0, None)
    assert table.wait(claimed, seconds) == waiting


def test_a_job_that_waits_is_ended_by_its_cancel_alone_and_waits_for_nothing_then(
    table: Extractions, clock: Clock
) -> None:
    """Design §6 j: nobody claims it, so the cancel itself ends it; the sweeper leaves it alone until it is too old."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    waiting = table.wait(replace(claimed, progress={"rows": 1, "current": "waiting for a slot"}), 60)
    assert decide(waiting, clock.now + 86_000_000, 86_400_000) == (Action.SEND, None)
    assert table.cancel("default", "a")
    found = table.get("default", "a")
    assert found is not None
    ended = table.terminate(found, Failed(CanceledError("x")), claimed=False)
    assert (ended.status, ended.progress) == (Status.FAILED, {"rows": 1})


def test_a_wait_after_a_cancel_is_refused(table: Extractions, clock: Clock) -> None:
    """Design §4: an accepted cancel always ends the job, so its worker fails it instead of waiting."""
    accepted(table, clock)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    assert table.cancel("default", "a")
    with pytest.raises(CanceledError):
        table.wait(claimed, 10)


def test_a_cancel_that_comes_first_makes_the_sweepers_end_a_canceled_one(table: Extractions, clock: Clock) -> None:
    """The sweeper read the record before the cancel was accepted."""
    read_before = accepted(table, clock)
    assert table.cancel("default", "a")
    ended = table.terminate(read_before, Failed(FetcherError("x")), claimed=False)
    assert ended.error == {**CanceledError("the job was canceled").public(), "phase": "queued"}


def test_metadata_named_like_our_own_attributes_changes_nothing(table: Extractions, client: Any, clock: Clock) -> None:
    """B-06, R-000-9: it is kept as one text beside the record, and comes back in the event."""
    text = '{"source":"payments","status":"completed","claimToken":"w9","terminalEventPending":true,"generation":7}'
    made = table.accept(replace(job("a", clock), metadata=text), None)
    assert isinstance(made, Extraction)
    claimed = table.claim("default", "a", 0, "w1")
    assert claimed is not None
    assert (claimed.status, claimed.claim, claimed.generation) == (Status.PROCESSING, "w1", 0)
    assert table.terminate(claimed, Completed({"path": "p"}), claimed=True).status is Status.COMPLETED
    outbox = Outboxes(client, "main", clock, dispatch_ms=DISPATCH).get("default", "a")
    assert outbox is not None
    assert f'"metadata":{text}' in outbox.detail


def test_the_largest_event_is_an_entry(table: Extractions, client: Any, clock: Clock) -> None:
    """R-AWS-4: metadata and names are the parts of it that a caller makes long, and are bounded."""
    metadata = dumps({"source": "payments", "x": "\U0001f389" * 2_000})
    assert len(metadata.encode()) <= MAX_METADATA_BYTES
    made = table.accept(replace(job("a", clock, "t" * 256), metadata=metadata), None)
    assert isinstance(made, Extraction)
    where = Where("d" * 100, "\U0001f389" * LONGEST, "\U0001f389" * LONGEST)
    table.terminate(made, Failed(FetcherError("x" * 1_000, where=where)), claimed=False)
    outbox = Outboxes(client, "main", clock, dispatch_ms=DISPATCH).get("t" * 256, "a")
    assert outbox is not None
    assert len(outbox.detail.encode()) < 256 * 1024 // 8


def test_a_transaction_of_the_widest_job_is_far_from_its_bound(table: Extractions, client: Any, clock: Clock) -> None:
    """R-AWS-3: at most 100 actions and 4 MB; ten datasources have thirteen actions at the start and twelve at the end.

    The largest body that is not kept in S3 is one of its items, of 400 KB at most.
    """
    transactions: list[list[Any]] = []
    client.meta.events.register(
        "provide-client-params.dynamodb.TransactWriteItems",
        lambda params, **_: transactions.append(params["TransactItems"]),
    )
    metadata = dumps({"source": "payments", "x": "\U0001f389" * 2_000})
    made = table.accept(
        replace(
            job("a", clock, "t" * 256),
            connections={f"{number:0100}": f"{number:036}" for number in range(Limits().datasources)},
            metadata=metadata,
            request="x" * INLINE_BYTES,
        ),
        None,
    )
    assert isinstance(made, Extraction)
    table.terminate(made, Failed(FetcherError("x")), claimed=False)
    assert [len(actions) for actions in transactions] == [13, 12]
    for actions in transactions:
        assert sum(map(written, actions)) < 4_000_000 // 10
        assert max(map(written, actions)) < 400_000 // 3
    assert max(map(written, transactions[0])) > INLINE_BYTES


def written(action: Mapping[str, Any]) -> int:
    """More bytes than DynamoDB counts for an action: its type names, conditions and quotes too."""
    return len(json.dumps(action, ensure_ascii=False).encode())


@pytest.mark.parametrize("number", ["1e400", "1.10", "-0", "0.12345678901234567890"])
def test_metadata_reaches_the_event_as_it_was_written(
    table: Extractions, client: Any, clock: Clock, number: str
) -> None:
    """R-000-9: no number is rounded, and none becomes what is not JSON."""
    text = f'{{"source":"payments","x":{number}}}'
    made = table.accept(replace(job("a", clock), metadata=text), None)
    assert isinstance(made, Extraction)
    table.terminate(made, Failed(FetcherError("x")), claimed=False)
    outbox = Outboxes(client, "main", clock, dispatch_ms=DISPATCH).get("default", "a")
    assert outbox is not None
    assert f'"metadata":{text}' in outbox.detail
