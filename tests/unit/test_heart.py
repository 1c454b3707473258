"""The heartbeat of an attempt on a clock of the test's own: until when effects are allowed, and what ends them.

The table is DynamoDB in memory; its client stands behind a wire that a test can cut.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from extract.heart import Heart
from fetcher.aws import dynamo
from fetcher.aws.extractions import Extractions
from fetcher.aws.records import Accepted
from fetcher.aws.slots import Holder, Slots
from fetcher.core.checkpoint import Checkpoint
from fetcher.core.extraction import Extraction
from fetcher.core.stop import A_SLOT, Stop, Waiting
from fetcher.errors import CanceledError, LostClaimError
from fetcher.settings import load
from tests.clock import Clock
from tests.rig import until
from tests.unit import conftest

SETTINGS = load({"FETCHER_MAIN_TABLE": "main", "FETCHER_HEARTBEAT_SECONDS": "0.002"})
LEASE = SETTINGS.lease_ms / 1000
SAFE = 50.0
"""Ten seconds of sixty before its end, by design §6."""

AN_UPLOAD = Checkpoint("token", "key", upload_id="id")
JOB, SLOT = "EXTRACTION", "SOURCE"


class Wire:
    """A client of DynamoDB whose updates of some items are unheard, or wait without an answer."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.unheard: set[str] = set()
        self.silent = False
        self.came, self.release = Event(), Event()
        self.updates: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def update_item(self, **asked: Any) -> Any:
        about = asked["Key"]["PK"]["S"].split("#")[2]
        if self.silent:
            self.came.set()
            assert self.release.wait(60)
        if about in self.unheard:
            raise ConnectionClosedError(endpoint_url="https://dynamodb.invalid")
        self.updates.append(about)
        return self._client.update_item(**asked)


class Session:
    """Notes that it was canceled."""

    def __init__(self) -> None:
        self.canceled = Event()

    def cancel(self) -> None:
        self.canceled.set()


class Attempt:
    """A claimed extraction with its heart and its stop, at the beginning of its lease."""

    def __init__(self, client: Any, clock: conftest.Clock) -> None:
        self.wire, self.clock, self._wall = Wire(client), Clock(), clock
        self.table = Extractions.of(self.wire, SETTINGS, clock)
        self.slots = Slots(self.wire, "main", clock, lease_ms=SETTINGS.lease_ms)
        self.began = self.clock.now
        self.claimed = self._claimed()
        self.stop = Stop(10_000, monotonic=self.clock)
        self.heart = Heart(
            self.table,
            self.slots,
            self.claimed,
            self.stop,
            SETTINGS,
            claimed_at=self.began,
        )

    def _claimed(self) -> Extraction:
        job = Accepted("t", "a", "payments", "h" * 64, {"pg": "c"}, 1, "{}", "{}", None, self._wall.now)
        self.table.accept(job, None)
        claimed = self.table.claim("t", "a", 0, "mine")
        assert claimed is not None
        return claimed

    def at(self, seconds: float) -> None:
        """Let it be so many seconds after the claim, on both clocks."""
        self._wall.now += round((self.began + seconds - self.clock.now) * 1000)
        self.clock.now = self.began + seconds

    def hold(self) -> None:
        """Take the slot of the only connection."""
        held = self.slots.take(Holder.of(self.claimed), {"c": 1})
        assert held is not None
        self.heart.hold(held, self.clock.now)

    def acts_until(self, seconds: float) -> None:
        """Effects are allowed up to so many seconds after the claim, and not then."""
        self.at(seconds - 0.01)
        self.stop.check()
        self.at(seconds)
        with pytest.raises(LostClaimError):
            self.stop.check()

    def stopped(self) -> Exception:
        """Wait for the stop, which nothing but the heart's own threads can bring."""
        reason: Exception = until(lambda: self.stop.reason, "the stop", 60)
        return reason

    def renewed(self) -> None:
        """Wait until claim and slots, if there are any, have been renewed at this moment."""
        until(lambda: self.stop.due() == SAFE, "the renewal", 60)

    def item(self, key: str, sort: str) -> dict[str, Any]:
        """Read an item."""
        found: dict[str, Any] = dynamo.unmarshal(
            self.wire.get_item(TableName="main", Key={"PK": {"S": key}, "SK": {"S": sort}})["Item"]
        )
        return found


@pytest.fixture
def attempt(client: Any, clock: conftest.Clock) -> Attempt:
    return Attempt(client, clock)


@contextmanager
def beating(attempt: Attempt) -> Iterator[None]:
    """Let the heart beat, as long as the block lasts."""
    try:
        with attempt.heart:
            yield
    finally:
        attempt.wire.release.set()


def test_effects_end_a_sixth_of_the_lease_before_its_end(attempt: Attempt) -> None:
    """Design §6: by the worker's own clock, ten seconds of sixty."""
    assert (LEASE, attempt.stop.due()) == (60, SAFE)
    attempt.acts_until(50)


def test_what_renews_the_claim_puts_the_end_off(attempt: Attempt) -> None:
    """Design §6: any fenced write that was heard, from the moment before it was sent."""
    attempt.at(20)
    attempt.heart.checkpoint(AN_UPLOAD)
    attempt.acts_until(70)


def test_a_write_that_was_not_heard_puts_nothing_off(attempt: Attempt) -> None:
    """Design §6: what may not have been written counts as not written."""
    attempt.at(20)
    attempt.wire.unheard = {JOB}
    with pytest.raises(ConnectionClosedError):
        attempt.heart.checkpoint(AN_UPLOAD)
    attempt.acts_until(50)


def test_of_claim_and_slots_the_older_lease_counts(attempt: Attempt) -> None:
    """Design §6 h, j: the claim's until it is renewed, then the slots'."""
    attempt.at(15)
    attempt.hold()
    assert attempt.stop.due() == 35
    attempt.at(30)
    attempt.heart.checkpoint(AN_UPLOAD)
    attempt.acts_until(65)


def test_heartbeats_renew_claim_and_slots(attempt: Attempt) -> None:
    """Design §6 h, j: over three leases, in the table and by the worker's own clock."""
    attempt.hold()
    with beating(attempt):
        for seconds in range(0, 180, 30):
            attempt.at(seconds)
            attempt.renewed()
    assert attempt.stop.reason is None
    until_ms = conftest.START + 150_000 + SETTINGS.lease_ms
    assert attempt.item("T#t#EXTRACTION#a", "META")["leaseUntil"] == until_ms
    assert attempt.item("T#t#SOURCE#c", "SLOT#00")["leaseUntil"] == until_ms


@pytest.mark.parametrize("unheard", [{JOB}, {SLOT}, {JOB, SLOT}])
def test_a_worker_whose_renewals_are_unheard_stops_by_itself(attempt: Attempt, unheard: set[str]) -> None:
    """Design §6: of the claim or of the slots; also at the source, and before anybody else may begin."""
    attempt.hold()
    session = Session()
    with beating(attempt), attempt.stop.watching(session):
        attempt.at(10)
        attempt.renewed()
        attempt.wire.unheard = unheard
        attempt.at(59.99)
        attempt.stop.check()
        attempt.at(60)
        assert isinstance(attempt.stopped(), LostClaimError)
        assert session.canceled.wait(60)


def test_a_worker_whose_renewals_are_not_answered_stops_by_itself(attempt: Attempt) -> None:
    """Design §6: AWS's silence may last for longer than a lease, and the source's too."""
    session = Session()
    with beating(attempt), attempt.stop.watching(session):
        attempt.wire.silent = True
        assert attempt.wire.came.wait(60)
        attempt.at(SAFE)
        assert isinstance(attempt.stopped(), LostClaimError)
        assert session.canceled.wait(60)
        attempt.wire.release.set()


def test_no_write_of_a_worker_begins_when_its_time_is_over(attempt: Attempt) -> None:
    """Design §6: not even one that the fence would let through, such as the checkpoint of a part on its way."""
    attempt.at(SAFE)
    written = len(attempt.wire.updates)
    for write in (attempt.heart.checkpoint, attempt.heart.begin):
        with pytest.raises(LostClaimError):
            write(AN_UPLOAD)
    assert len(attempt.wire.updates) == written


def test_a_worker_that_gave_its_claim_up_renews_it_no_more(attempt: Attempt) -> None:
    """Design §6: all effects stop, and whoever comes next need not wait for another lease."""
    with beating(attempt):
        attempt.wire.unheard = {JOB}
        attempt.at(SAFE)
        attempt.stopped()
        until(lambda: "heart" not in {thread.name for thread in threading.enumerate()}, "the end of the beats")
    assert attempt.item("T#t#EXTRACTION#a", "META")["leaseUntil"] == conftest.START + SETTINGS.lease_ms


def test_a_claim_that_is_anothers_ends_the_attempt(attempt: Attempt) -> None:
    """R-000-69: learned by the next heartbeat."""
    attempt.at(LEASE + 1)
    assert attempt.table.claim("t", "a", 0, "another's") is not None
    attempt.at(0)
    with beating(attempt):
        assert isinstance(attempt.stopped(), LostClaimError)
    assert attempt.item("T#t#EXTRACTION#a", "META")["claimToken"] == "another's"


def test_a_slot_that_is_anothers_ends_the_attempt_and_not_the_job(attempt: Attempt) -> None:
    """Design §6 j: it waits for a slot again, under its own claim."""
    attempt.hold()
    attempt.at(LEASE + 1)
    assert attempt.slots.take(Holder("t", "b", "its", 1), {"c": 1}) is not None
    attempt.at(LEASE / 10)
    with beating(attempt):
        reason = attempt.stopped()
    assert isinstance(reason, Waiting)
    assert (reason.seconds, reason.for_what) == (0, A_SLOT)
    assert attempt.item("T#t#SOURCE#c", "SLOT#00")["holder"] == "b"


def test_a_cancel_comes_with_the_next_heartbeat(attempt: Attempt) -> None:
    """Design §6: to the sources, too."""
    session = Session()
    with beating(attempt), attempt.stop.watching(session):
        assert attempt.table.cancel("t", "a")
        assert isinstance(attempt.stopped(), CanceledError)
        assert session.canceled.wait(60)


def test_the_jobs_time_goes_on_from_what_earlier_attempts_spent(client: Any, clock: conftest.Clock) -> None:
    """Design §6: five minutes summed over attempts; what an attempt waits for a slot is none of it."""
    first = Attempt(client, clock)
    first.hold()
    first.at(40)
    first.heart.checkpoint(AN_UPLOAD)
    first.at(LEASE * 2)
    again = first.table.claim("t", "a", 0, "second")
    assert again is not None
    assert again.spent_ms == 40_000
    second = Heart(first.table, first.slots, again, first.stop, SETTINGS, claimed_at=0)
    first.clock.now += 7
    assert second.extraction.spent_ms == 40_000
    held = first.slots.take(Holder.of(again), {"c": 1})
    assert held is not None
    second.hold(held, first.clock.now)
    first.clock.now += 5
    assert second.extraction.spent_ms == 45_000
