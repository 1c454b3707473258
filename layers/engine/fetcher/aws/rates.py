"""How often a connection may be tested, over all functions (`design.md` §4, item 21).

A bucket of ten tests that refills at ten a minute, kept as the one time at which it will be full again
(`refilledAt`): a test moves that time by six seconds, and is refused when it is a minute ahead. So a
test is one conditional write, or two while the bucket is not full.
"""

import math
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.core.faults import Point, reach
from fetcher.core.rules import Absent, Add, NotAbove, Of, Put, Rule, either
from fetcher.ports import Clock

TESTS = 10
EACH_MS = 6_000
KEEP_SECONDS = 86_400

_FIRST = Rule(
    either(Absent("PK"), NotAbove("refilledAt", Of("now"))),
    (Put("refilledAt", Of("next")), Put("expiresAt", Of("expiresAt"))),
)
_FURTHER = Rule(NotAbove("refilledAt", Of("latest")), (Add("refilledAt", EACH_MS), Put("expiresAt", Of("expiresAt"))))
"""Used after `_FIRST` was refused, so the time it adds to is not past."""


class Rates:
    """The test buckets in the table `main`."""

    def __init__(self, client: Any, table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def take(self, tenant: str, connection_id: str) -> int:
        """Take one test; return 0, or the whole seconds after which there will be one."""
        now = self._clock()
        where = {"PK": f"T#{tenant}#SOURCE#{connection_id}", "SK": "RATE#TEST"}
        given = {
            "now": now,
            "next": now + EACH_MS,
            "latest": now + (TESTS - 1) * EACH_MS,
            "expiresAt": now // 1000 + KEEP_SECONDS,
        }
        refilled_at = now
        for rule in (_FIRST, _FURTHER):
            try:
                dynamo.update(self._client, self._table, where, rule, given)
            except Refused as refused:
                refilled_at = (refused.item or {}).get("refilledAt", now)
            else:
                reach(Point.RATED)
                return 0
        return max(1, math.ceil((refilled_at - given["latest"]) / 1000))
