"""Source slots and gates: who gets one, who waits, and what heals by itself (design §4, items 3 and 4)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.aws.gates import CLOSE, Gates
from fetcher.aws.slots import FREE, RENEW, TAKE, Holder, Slots
from fetcher.core.rules import applied, holds
from tests.unit.conftest import START, Clock

LEASE = 60_000


@pytest.fixture
def slots(client: Any, clock: Clock) -> Slots:
    return Slots(client, "main", clock, lease_ms=LEASE)


def job(name: str, attempts: int = 1) -> Holder:
    """An attempt at a job."""
    return Holder("t", name, f"claim {attempts}", attempts)


def held(client: Any) -> list[str]:
    """Who holds anything, by connection and job."""
    items = client.scan(TableName="main")["Items"]
    return sorted(item["PK"]["S"].split("#")[-1] + ":" + item["holder"]["S"] for item in items if "holder" in item)


def test_n_slots_are_n_readers_and_the_next_one_waits(slots: Slots) -> None:
    """Design §4: N slots = at most N readers over all jobs, and one that is freed is the next one's."""
    assert all(slots.take(job(name), {"c": 3}) is not None for name in "abc")
    assert slots.take(job("d"), {"c": 3}) is None
    slots.free(job("b"), ["c"])
    assert slots.take(job("d"), {"c": 3}) is not None
    assert slots.take(job("e"), {"c": 3}) is None


def test_a_job_has_one_slot_of_a_connection_and_its_take_over_the_same(slots: Slots, client: Any) -> None:
    """Design §6 j: the holder is the extraction, so a take-over needs not to wait for a lease."""
    first = slots.take(job("a", 1), {"c": 5})
    second = slots.take(job("a", 2), {"c": 5})
    assert first is not None
    assert second is not None
    assert first.numbers == second.numbers
    assert held(client) == ["c:a"]
    assert not slots.renew(first)
    slots.free(first.holder, ["c"])
    assert held(client) == ["c:a"]
    assert slots.renew(second)


def test_an_earlier_attempt_takes_nothing_of_its_successors(slots: Slots, client: Any) -> None:
    """R-000-69, design §6 j: one that was frozen and lost its claim does not rob whoever goes on with the job."""
    second = slots.take(job("a", 2), {"c": 1})
    assert second is not None
    assert slots.take(job("a", 1), {"c": 1}) is None
    assert slots.renew(second)
    stray = slots.take(job("a", 1), {"c": 2})
    assert stray is not None, "another one is free, and given back as soon as the loss is noticed"
    slots.free(stray.holder, ["c"])
    assert held(client) == ["c:a"]
    assert slots.renew(second)


def test_a_slot_without_a_number_is_its_jobs(slots: Slots, client: Any) -> None:
    """Design §4: rolling upgrades; the slot was taken by a version that did not write the number."""
    assert slots.take(job("a", 1), {"c": 1}) is not None
    where = {"PK": {"S": "T#t#SOURCE#c"}, "SK": {"S": "SLOT#00"}}
    client.update_item(TableName="main", Key=where, UpdateExpression="REMOVE attempts")
    assert slots.take(job("a", 2), {"c": 1}) is not None
    assert slots.take(job("b", 1), {"c": 1}) is None


def test_others_take_it_over_when_its_lease_is_over(slots: Slots, clock: Clock) -> None:
    """Design §4: it heals by itself; a renewal puts that off."""
    first = slots.take(job("a"), {"c": 1})
    assert first is not None
    clock.now += LEASE
    assert slots.take(job("b"), {"c": 1}) is None
    assert slots.renew(first)
    clock.now += LEASE
    assert slots.take(job("b"), {"c": 1}) is None
    clock.now += 1
    assert slots.take(job("b"), {"c": 1}) is not None
    assert not slots.renew(first)


def test_all_or_none(slots: Slots, client: Any) -> None:
    """Design §6 j: what was taken is given back, so no two jobs wait for each other."""
    assert slots.take(job("a"), {"d": 1}) is not None
    assert slots.take(job("b"), {"c": 1, "d": 1, "e": 1}) is None
    assert held(client) == ["d:a"]


def test_a_slot_above_a_lowered_number_is_not_taken(slots: Slots) -> None:
    """A connection whose `maxWorkers` was lowered: not even the job that holds one has it again."""
    for name in "abcde":
        assert slots.take(job(name), {"c": 5}) is not None
    for name in "abcde":
        slots.free(job(name), ["c"])
    taken = [slots.take(job(name), {"c": 2}) for name in "fghij"]
    assert sum(one is not None for one in taken) == 2


def test_an_end_frees_what_any_attempt_holds(slots: Slots, client: Any) -> None:
    """Design §6 j: freed by whoever ended the job, who may know no attempt."""
    slots.take(job("a"), {"c": 2, "d": 2})
    slots.take(job("b"), {"c": 2})
    slots.free(Holder("t", "a", None, 0), ["d", "c", "c"], ended=True)
    assert held(client) == ["c:b"]


def test_another_tenant_has_slots_of_its_own(slots: Slots) -> None:
    """Design §4: the tenant is part of every key."""
    assert slots.take(job("a"), {"c": 1}) is not None
    assert slots.take(Holder("u", "b", "1", 1), {"c": 1}) is not None


def test_slots_go_when_nobody_has_used_them_for_a_day(slots: Slots, client: Any) -> None:
    """Design §4: TTL of a day."""
    slots.take(job("a"), {"c": 1})
    (item,) = client.scan(TableName="main")["Items"]
    assert int(item["expiresAt"]["N"]) == START // 1000 + 86_400


WHO = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


@given(st.lists(st.tuples(st.sampled_from(WHO), st.sampled_from("TRF"), st.integers(0, LEASE)), max_size=30))
@settings(deadline=None)
def test_no_history_gives_one_slot_to_two(history: list[tuple[tuple[str, int], str, int]]) -> None:
    """The rules as a model: whoever took or renewed it within a lease, and did not free it, is alone.

    Only a later attempt at the same job has it from an earlier one at once, and never the other way round.
    """
    item: dict[str, Any] = {}
    now, until = 0, 0
    owner: tuple[str, int] | None = None
    for who, what, passed in history:
        now += passed
        asked = {"me": who[0], "attempt": str(who), "attempts": who[1], "now": now, "expiresAt": 0}
        asked["leaseUntil"] = now + LEASE
        rule = {"T": TAKE, "R": RENEW, "F": FREE}[what]
        may = (
            owner is None or until < now or (owner[0] == who[0] and owner[1] <= who[1]) if what == "T" else owner == who
        )
        assert holds(rule.when, item, asked) == may
        if may:
            item = applied(rule, item, asked)
            owner, until = (None, 0) if what == "F" else (who, now + LEASE)


def test_a_gate_closes_for_everybody_and_moves_forward_only(client: Any, clock: Clock) -> None:
    """Design §4, item 4: `notBefore`, only forward."""
    gates = Gates(client, "main", clock)
    assert gates.closed_for("t", ["c", "d"]) == 0
    gates.close("t", "c", 100)
    gates.close("t", "c", 30)
    assert gates.closed_for("t", ["d", "c"]) == 100
    assert gates.closed_for("u", ["c"]) == gates.closed_for("t", ["d"]) == 0
    clock.now += 99_500
    assert gates.closed_for("t", ["c"]) == 0.5
    gates.close("t", "c", 1)
    clock.now += 1_000
    assert gates.closed_for("t", ["c"]) == 0
    assert not holds(CLOSE.when, {"notBefore": 5}, {"notBefore": 5})
