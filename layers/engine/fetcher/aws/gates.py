"""Wait gates (`design.md` §4, item 4): until when nobody is to ask a source, over all functions.

A source that says «not before» says it to all of us. The time only moves forward.
"""

from collections.abc import Iterable
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.core.faults import Point, reach
from fetcher.core.rules import Absent, Less, Of, Put, Rule, either
from fetcher.ports import Clock

KEEP_SECONDS = 86_400

CLOSE = Rule(
    either(Absent("notBefore"), Less("notBefore", Of("notBefore"))),
    (Put("notBefore", Of("notBefore")), Put("expiresAt", Of("expiresAt"))),
)


class Gates:
    """The gates in the table `main`."""

    def __init__(self, client: Any, table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def close(self, tenant: str, connection: str, seconds: float) -> None:
        """Let nobody ask a connection's source for so many seconds, unless it is to be left alone for longer."""
        not_before = self._clock() + round(seconds * 1000)
        given = {"notBefore": not_before, "expiresAt": not_before // 1000 + KEEP_SECONDS}
        reach(Point.CLOSING)
        try:
            dynamo.update(self._client, self._table, _key(tenant, connection), CLOSE, given)
        except Refused:
            return
        reach(Point.CLOSED)

    def closed_for(self, tenant: str, connections: Iterable[str]) -> float:
        """Return the seconds until all of these may be asked; 0 when they may be now."""
        now = self._clock()
        gates = (dynamo.get(self._client, self._table, _key(tenant, connection)) for connection in connections)
        return max((max(0, gate["notBefore"] - now) / 1000 for gate in gates if gate is not None), default=0.0)


def _key(tenant: str, connection: str) -> dict[str, str]:
    return {"PK": f"T#{tenant}#SOURCE#{connection}", "SK": "GATE"}
