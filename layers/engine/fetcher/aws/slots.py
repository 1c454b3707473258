"""Source slots (`design.md` §4, item 3): at most N extractions read one connection at once, over all functions.

    T#<tenant>#SOURCE#<connection>   SLOT#<00..N-1>   holder, attempt, attempts, leaseUntil

The holder is the extraction, so that a take-over has its slots at once; the attempt is the claim of the
worker that took or renewed it, and `attempts` its number, so that a worker that lost its claim can neither
take, renew nor free what its successor holds. What nobody frees is free when its lease is over. A slot
numbered N or above, from before the number was lowered, is never taken.
"""

import random
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.rules import Absent, Drop, Equal, Less, NotAbove, Of, Put, Rule, either, every
from fetcher.ports import Clock

KEEP_SECONDS = 86_400

_LEASE = (Put("leaseUntil", Of("leaseUntil")), Put("expiresAt", Of("expiresAt")))
_NO_LATER_ATTEMPTS = either(Absent("attempts"), NotAbove("attempts", Of("attempts")))
TAKE = Rule(
    either(Absent("holder"), Less("leaseUntil", Of("now")), every(Equal("holder", Of("me")), _NO_LATER_ATTEMPTS)),
    (Put("holder", Of("me")), Put("attempt", Of("attempt")), Put("attempts", Of("attempts")), *_LEASE),
)
_BY_THIS_ATTEMPT = every(Equal("holder", Of("me")), Equal("attempt", Of("attempt")))
_NOBODYS = (Drop("holder"), Drop("attempt"), Drop("attempts"), Drop("leaseUntil"))
RENEW = Rule(_BY_THIS_ATTEMPT, _LEASE)
FREE = Rule(_BY_THIS_ATTEMPT, _NOBODYS)
FREE_ENDED = Rule(Equal("holder", Of("me")), _NOBODYS)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds slots: an extraction, by the attempt that has its claim; `attempts` is that one's number."""

    tenant: str
    extraction_id: str
    attempt: str | None
    attempts: int

    @classmethod
    def of(cls, extraction: Extraction) -> "Holder":
        """The attempt that read this record."""
        return cls(extraction.tenant, extraction.id, extraction.claim, extraction.attempts)


@dataclass(frozen=True, slots=True)
class Held:
    """The slots of one extraction: the number of each connection's, by the connection's id."""

    holder: Holder
    numbers: Mapping[str, int]


class Slots:
    """The slots in the table `main`."""

    def __init__(
        self,
        client: Any,
        table: str,
        clock: Clock,
        *,
        lease_ms: int,
        shuffle: Callable[[MutableSequence[int]], None] = random.shuffle,
    ) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._lease_ms = lease_ms
        self._shuffle = shuffle

    def take(self, holder: Holder, workers: Mapping[str, int]) -> Held | None:
        """Take a slot of every connection, in sorted order, or none and return None.

        `workers` is how many there are of each, by the connection's id.
        """
        numbers: dict[str, int] = {}
        for connection in sorted(workers):
            number = self._taken(holder, connection, workers[connection])
            if number is None:
                self.free(holder, numbers)
                return None
            numbers[connection] = number
        return Held(holder, numbers)

    def renew(self, held: Held) -> bool:
        """Renew every slot for a lease; False when one of them is another's now."""
        for connection, number in held.numbers.items():
            reach(Point.RENEWING)
            if not self._write(RENEW, held.holder, connection, number):
                return False
        return True

    def free(self, holder: Holder, connections: Iterable[str], *, ended: bool = False) -> None:
        """Free what this attempt holds of these connections, or what the extraction holds if it has `ended`."""
        for connection in sorted(set(connections)):
            for number, slot in self._slots(holder.tenant, connection).items():
                if slot.get("holder") == holder.extraction_id:
                    reach(Point.FREEING)
                    self._write(FREE_ENDED if ended else FREE, holder, connection, number)
                    reach(Point.FREED)

    def _taken(self, holder: Holder, connection: str, count: int) -> int | None:
        """Take one slot of a connection; those that look free are tried in any order, so that workers spread."""
        found = self._slots(holder.tenant, connection)
        now = self._clock()
        me = holder.extraction_id
        mine = [number for number, slot in found.items() if number < count and slot.get("holder") == me]
        free = [number for number in range(count) if _is_free(found.get(number, {}), now)]
        self._shuffle(free)
        for number in (*mine, *free):
            reach(Point.TAKING)
            if self._write(TAKE, holder, connection, number):
                reach(Point.TAKEN)
                return number
        return None

    def _slots(self, tenant: str, connection: str) -> dict[int, dict[str, Any]]:
        """Read the slots of a connection, consistently, by number; those never taken are not there."""
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="PK = :pk AND begins_with(SK, :slot)",
            ExpressionAttributeValues=dynamo.marshal({":pk": f"T#{tenant}#SOURCE#{connection}", ":slot": "SLOT#"}),
            ConsistentRead=True,
        )
        slots = map(dynamo.unmarshal, answer["Items"])
        return {int(slot["SK"].removeprefix("SLOT#")): slot for slot in slots}

    def _write(self, rule: Rule, holder: Holder, connection: str, number: int) -> bool:
        now = self._clock()
        given = {
            "me": holder.extraction_id,
            "attempt": holder.attempt,
            "attempts": holder.attempts,
            "now": now,
            "leaseUntil": now + self._lease_ms,
            "expiresAt": now // 1000 + KEEP_SECONDS,
        }
        where = {"PK": f"T#{holder.tenant}#SOURCE#{connection}", "SK": f"SLOT#{number:02d}"}
        try:
            dynamo.update(self._client, self._table, where, rule, given)
        except Refused:
            return False
        return True


def _is_free(slot: Mapping[str, Any], now: int) -> bool:
    return "holder" not in slot or slot["leaseUntil"] < now
