"""What is overdue, and what the sweeper and the dead-letter consumer decide about it (`design.md` §4, §6 o, p)."""

import random
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.aws.records import OUTBOX, SHARDS, Due, Outbox, outbox_from
from fetcher.core.clock import from_rfc3339
from fetcher.core.extraction import Extraction, from_item
from fetcher.core.lifecycle import STALLED_LIMIT, SWEPT_MS, TABLE, Event
from fetcher.core.progress import reading
from fetcher.errors import CanceledError, FetcherError, TimedOutError, Where
from fetcher.ports import Clock


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
        return Action.FAIL, stalled_error(extraction)
    queued = now - from_rfc3339(extraction.created_at)
    if extraction.claim is None and queued > max_queued_ms:
        return Action.FAIL, TimedOutError("the job waited too long for a worker")
    return Action.SEND, None


def stalled_error(extraction: Extraction) -> FetcherError:
    """The end of an extraction that five workers did not get further with; it says where the last one was."""
    where = Where(*reading(extraction.progress))
    error = FetcherError("the job was tried five times without getting further", where=where)
    if extraction.attempts:
        error.phase = "sealing" if extraction.phase == "seal" else "reading" if where.table else "starting"
    return error


class Overdue:
    """The sparse index of all that should be looked at."""

    def __init__(self, client: Any, table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def rows(self, limit: int = 100) -> Iterator[Due]:
        """Yield what should have been looked at by now, from every shard, at most `limit` a shard.

        The shards come in any order: a sweep whose time is over leaves other ones out each time.
        """
        for shard in random.sample(range(SHARDS), SHARDS):
            answer = self._client.query(
                TableName=self._table,
                IndexName="GSI2",
                KeyConditionExpression="GSI2PK = :shard AND lookAt <= :now",
                ExpressionAttributeValues=dynamo.marshal({":shard": f"ACTIVE#{shard}", ":now": self._clock()}),
                Limit=limit,
            )
            for row in map(dynamo.unmarshal, answer["Items"]):
                yield Due({"PK": row["PK"], "SK": row["SK"]}, row["lookAt"])

    def item(self, due: Due) -> Extraction | Outbox | None:
        """Read the item behind an index row, consistently; None if the row is out of date."""
        item = dynamo.get(self._client, self._table, due.key)
        if item is None or item.get("lookAt") != due.look_at:
            return None
        return outbox_from(item) if due.key["SK"] == OUTBOX else from_item(item)

    def take(self, due: Due) -> int | None:
        """Take an overdue extraction for this sweep, until the returned time; None if another did, or it moved on."""
        until = self._clock() + SWEPT_MS
        return until if self._moved(due.key, due.look_at, until) else None

    def give_back(self, due: Due, until: int) -> None:
        """Let an extraction that was taken until then be due again, as before; one that moved on is left alone."""
        self._moved(due.key, until, due.look_at)

    def _moved(self, where: Mapping[str, str], seen: int, look_at: int) -> bool:
        try:
            dynamo.update(self._client, self._table, where, TABLE[Event.SWEEP], {"seen": seen, "lookAt": look_at})
        except Refused as refused:
            return refused.done_before(lookAt=look_at)
        return True
