"""Terminal events that wait to be published: written with the status, sent until the bus has taken them."""

from collections.abc import Mapping
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.aws.records import OUTBOX, OUTBOX_CAP_MS, Outbox, key, outbox_from
from fetcher.core.clock import rfc3339
from fetcher.core.lifecycle import OUTBOX_KEEP_SECONDS
from fetcher.core.rules import Absent, Drop, Equal, Of, Put, Rule, every
from fetcher.ports import Clock

_PUBLISHED = Rule(
    Absent("publishedAt"),
    (Put("publishedAt", Of("publishedAt")), Put("expiresAt", Of("expiresAt")), Drop("GSI2PK"), Drop("lookAt")),
)
_MOVED = Rule(
    every(Equal("lookAt", Of("seen")), Absent("publishedAt")),
    (Put("lookAt", Of("lookAt")), Put("sends", Of("sends"))),
)


class Outboxes:
    """The outbox items of the table `main`."""

    def __init__(self, client: Any, table: str, clock: Clock, *, dispatch_ms: int) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._dispatch_ms = dispatch_ms

    def get(self, tenant: str, extraction_id: str) -> Outbox | None:
        """Read the terminal event of an extraction, consistently."""
        item = dynamo.get(self._client, self._table, {**key(tenant, extraction_id), "SK": OUTBOX})
        return outbox_from(item) if item else None

    def take(self, outbox: Outbox) -> int | None:
        """Take an overdue event for this sweep until the returned time; None if another did, or it is published.

        The wait doubles with every hint sent, up to an hour, and never ends.
        """
        wait = min(2 * self._dispatch_ms * 2 ** min(outbox.sends + 1, 20), OUTBOX_CAP_MS)
        until = self._clock() + wait
        given = {"seen": outbox.look_at, "lookAt": until, "sends": outbox.sends + 1}
        return until if self._write(outbox, _MOVED, given, ours="lookAt") else None

    def give_back(self, outbox: Outbox, until: int) -> None:
        """Let an event that was taken until then be due again, as read; one that moved on is left alone."""
        given = {"seen": until, "lookAt": outbox.look_at, "sends": outbox.sends}
        self._write(outbox, _MOVED, given, ours="lookAt")

    def published(self, outbox: Outbox) -> bool:
        """Mark the event as published; False when it already was."""
        now = self._clock()
        given = {"publishedAt": rfc3339(now), "expiresAt": now // 1000 + OUTBOX_KEEP_SECONDS}
        return self._write(outbox, _PUBLISHED, given, ours="publishedAt")

    def _write(self, outbox: Outbox, rule: Rule, given: Mapping[str, Any], *, ours: str) -> bool:
        """Write; False when it was refused, unless an earlier try of this very write had put `ours` there."""
        where = {**key(outbox.tenant, outbox.extraction_id), "SK": OUTBOX}
        try:
            dynamo.update(self._client, self._table, where, rule, given)
        except Refused as refused:
            return refused.done_before(**{ours: given[ours]})
        return True
