"""Extractions in DynamoDB: accepted once, claimed by one, ended once (`design.md` §4, items 1a, 6, 6r, 9, 10)."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.aws.queues import LONGEST_DELAY
from fetcher.aws.records import (
    Accepted,
    Completed,
    Duplicate,
    Failed,
    key,
    lock_key,
    marker,
    marker_key,
    new_item,
    outbox_item,
    request_item,
)
from fetcher.core.canonical import strict_loads
from fetcher.core.checkpoint import Checkpoint, to_item
from fetcher.core.clock import rfc3339
from fetcher.core.extraction import Extraction, event_detail, from_item
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import (
    DISPATCHED_MS,
    KEEP_SECONDS,
    RELEASE_MS,
    TABLE,
    Event,
    Status,
)
from fetcher.core.progress import at_the_end
from fetcher.core.rules import Absent, Equal, NotAbove, Of, Put, Rule, either
from fetcher.errors import CanceledError, FetcherError, LostClaimError
from fetcher.ports import Clock
from fetcher.settings import Settings

_LOCK_IS_FREE = either(Absent("PK"), NotAbove("windowEndsAt", Of("now")))
_LOCK_IS_OF = Equal("extractionId", Of("replaced"))
_ERASED = Rule(
    either(Equal("status", Status.COMPLETED), Equal("status", Status.FAILED)), (Put("deletedAt", Of("time")),)
)


class Extractions:
    """The table `main`, as far as extractions are concerned."""

    def __init__(
        self, client: Any, table: str, clock: Clock, *, lease_ms: int, window_ms: int, dispatch_ms: int
    ) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._lease_ms = lease_ms
        self._window_ms = window_ms
        self._dispatch_ms = dispatch_ms

    @classmethod
    def of(cls, client: Any, settings: Settings, clock: Clock) -> "Extractions":
        """Build it as deployed."""
        return cls(
            client,
            settings.main_table,
            clock,
            lease_ms=settings.lease_ms,
            window_ms=settings.duplicate_window_ms,
            dispatch_ms=settings.dispatch_ms,
        )

    # --- submit

    def duplicate(self, tenant: str, request_hash: str) -> tuple[Extraction | None, str | None]:
        """Find the live duplicate of a request, or else the one whose lock a new job must replace.

        The duplicate is as it was seen to be live: read again, it may be so no more. Nothing is left to answer for a
        request when its job failed, its cancel was accepted, which always ends it as failed, or its result was erased.
        """
        lock = dynamo.get(self._client, self._table, lock_key(tenant, request_hash))
        if lock is None or lock["windowEndsAt"] <= self._clock():
            return None, None
        earlier = self.get(tenant, lock["extractionId"])
        if earlier is None or earlier.status is Status.FAILED or earlier.cancel_requested_at or earlier.deleted_at:
            return None, lock["extractionId"]
        return earlier, None

    def accept(self, job: Accepted, replaces: str | None) -> Extraction | Duplicate:
        """Create the extraction and its lock, its request and its active markers, or learn who was first.

        `replaces` is the id of an extraction that answers for nothing and whose lock is still there: exactly one
        successor wins.
        """
        item = new_item(job, look_at=job.created_ms + self._dispatch_ms)
        lock = {
            **lock_key(job.tenant, job.request_hash),
            "extractionId": job.id,
            "windowEndsAt": job.created_ms + self._window_ms,
            "expiresAt": job.created_ms // 1000 + 86_400,
        }
        when, given = (_LOCK_IS_OF, {"replaced": replaces}) if replaces else (_LOCK_IS_FREE, {"now": job.created_ms})
        actions = [
            dynamo.put_action(self._table, lock, when, given),
            dynamo.put_action(self._table, item, Absent("PK")),
            dynamo.put_action(self._table, request_item(job)),
            *(
                dynamo.put_action(self._table, marker(job.tenant, connection, job.id, job.created_ms))
                for connection in sorted(set(job.connections.values()))
            ),
        ]
        try:
            dynamo.transact(self._client, actions, dynamo.token(job.id, "accept", replaces or ""))
        except Refused as refused:
            if refused.action != 0 or refused.item is None:
                raise
            winner = refused.item["extractionId"]
            if winner != job.id:
                return Duplicate(winner)
        return from_item(item)

    def dispatched(self, extraction: Extraction) -> None:
        """Note that the message was sent. A claim that came first is left alone."""
        given = {"generation": extraction.generation, "lookAt": self._clock() + DISPATCHED_MS}
        try:
            self._happen(Event.DISPATCH, extraction, given)
        except Refused:
            return

    # --- reading

    def get(self, tenant: str, extraction_id: str) -> Extraction | None:
        """Read an extraction, consistently."""
        item = dynamo.get(self._client, self._table, key(tenant, extraction_id))
        return from_item(item) if item else None

    def request(self, tenant: str, extraction_id: str) -> Mapping[str, Any] | None:
        """Read item 6r: `metadata` (text) and `request` (text) or `requestKey`."""
        return dynamo.get(self._client, self._table, {**key(tenant, extraction_id), "SK": "REQUEST"})

    def listed(self, tenant: str, before: str | None, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        """Return up to `limit` summaries, newest first, and where the next page starts."""
        return dynamo.newest(self._client, self._table, f"{tenant}#JOBS", before, limit)

    # --- the worker's writes

    def claim(self, tenant: str, extraction_id: str, generation: int, claim: str) -> Extraction | None:
        """Take the extraction for `lease_ms`, or return None: another works on it, it ended, or the message is old."""
        now = self._clock()
        given = {
            "generation": generation,
            "claim": claim,
            "now": now,
            "time": rfc3339(now),
            "leaseUntil": now + self._lease_ms,
        }
        where = key(tenant, extraction_id)
        reach(Point.CLAIMING)
        for event in (Event.CLAIM, Event.TAKE_OVER):
            try:
                return from_item(dynamo.update(self._client, self._table, where, TABLE[event], given))
            except Refused as refused:
                if refused.item is not None and refused.item.get("claimToken") == claim:
                    return from_item(refused.item)  # the answer to an earlier try of this very call was lost
        return None

    def beat(
        self,
        extraction: Extraction,
        progress: Mapping[str, Any],
        spent_ms: int,
        checkpoint: Checkpoint | None = None,
    ) -> Extraction:
        """Renew the lease and save the progress; with a checkpoint, save that too. Raises `LostClaimError`.

        Only a checkpoint with a mark is progress; without one it notes where the parts go.
        """
        given = {**self._lease(extraction), "progress": progress, "spentMs": spent_ms}
        if checkpoint is None:
            return self._mine(Event.BEAT, extraction, given)
        event = Event.CHECKPOINT if checkpoint.mark is not None else Event.NOTE
        return self._mine(event, extraction, {**given, "checkpoint": to_item(checkpoint)})

    def seal(
        self, extraction: Extraction, progress: Mapping[str, Any], spent_ms: int, sealed: Mapping[str, Any]
    ) -> Extraction:
        """Fix the only part list that may become this upload's object. Raises `LostClaimError`."""
        given = {**self._lease(extraction), "progress": progress, "spentMs": spent_ms, "sealed": sealed}
        return self._mine(Event.SEAL, extraction, given)

    def begin(self, extraction: Extraction, checkpoint: Checkpoint) -> Extraction:
        """Forget an earlier upload and its seal, and note the new one. Raises `LostClaimError`."""
        return self._mine(Event.BEGIN, extraction, {**self._lease(extraction), "checkpoint": to_item(checkpoint)})

    def go_on(self, extraction: Extraction) -> Extraction:
        """Take the next block of part numbers of the checkpoint's upload. Raises `LostClaimError`."""
        given = {**self._lease(extraction), "writer": extraction.writer}
        return self._mine(Event.GO_ON, extraction, given, writer=extraction.writer + 1)

    def hand_over(self, extraction: Extraction) -> Extraction:
        """Free the claim for the next attempt, in a new generation.

        Raises `CanceledError` when a cancel came first, and `LostClaimError`.
        """
        return self._handed_over(Event.HAND_OVER, extraction, self._clock() + 2 * self._dispatch_ms)

    def wait(self, extraction: Extraction, seconds: int) -> Extraction:
        """Free the claim until the wait is over; the errors are those of `hand_over`.

        A wait that a message can carry is looked at a while after that message; a longer one by its time alone.
        """
        late = 2 * self._dispatch_ms if seconds <= LONGEST_DELAY else 0
        return self._handed_over(Event.WAIT, extraction, self._clock() + seconds * 1000 + late)

    def _handed_over(self, event: Event, extraction: Extraction, look_at: int) -> Extraction:
        given = {
            "claim": extraction.claim,
            "spentMs": extraction.spent_ms,
            "progress": extraction.progress,
            "lookAt": look_at,
        }
        reach(Point.HANDING_OVER)
        try:
            following = self._happen(event, extraction, given)
            reach(Point.HANDED_OVER)
            return following
        except Refused as refused:
            found = from_item(refused.item) if refused.item else None
        if found is not None and found.claim == extraction.claim and found.cancel_requested_at is not None:
            raise CanceledError("the job was canceled")
        if found is not None and found.claim is None and found.generation == extraction.generation + 1:
            return found  # the answer to an earlier try of this very call was lost
        raise _lost()

    def release(self, extraction: Extraction) -> None:
        """Give the claim back after a failure that was not the job's; the same message may claim again."""
        reach(Point.RELEASING)
        try:
            self._happen(Event.RELEASE, extraction, {"claim": extraction.claim, "lookAt": self._clock() + RELEASE_MS})
        except Refused:
            return
        reach(Point.RELEASED)

    def retry(self, extraction: Extraction, progress: Mapping[str, Any], spent_ms: int) -> Extraction:
        """Count a try in vain. Raises `LostClaimError`."""
        given = {**self._lease(extraction), "progress": progress, "spentMs": spent_ms, "retries": extraction.retries}
        return self._mine(Event.RETRY, extraction, given, retries=extraction.retries + 1)

    # --- ends

    def cancel(self, tenant: str, extraction_id: str) -> bool:
        """Ask for an end. False if it has ended already, or never was."""
        try:
            dynamo.update(
                self._client,
                self._table,
                key(tenant, extraction_id),
                TABLE[Event.CANCEL],
                {"time": rfc3339(self._clock())},
            )
        except Refused:
            return False
        return True

    def terminate(self, extraction: Extraction, outcome: Completed | Failed, *, claimed: bool) -> Extraction:
        """End an extraction, once: status, event and active markers in one transaction.

        `claimed` says by which authority: the worker's claim, or that nobody holds one. An accepted
        cancel always ends as canceled. Returns the extraction as it ended by this call, or by this
        worker's earlier try. Raises `LostClaimError` when the authority is gone.
        """
        if not claimed and extraction.cancel_requested_at:
            outcome = Failed(CanceledError("the job was canceled"))
        try:
            return self._end(extraction, outcome, _ending(outcome, claimed=claimed))
        except Refused as refused:
            found = from_item(refused.item) if refused.action == 0 and refused.item else None
            if found is None or (claimed and found.claim != extraction.claim):
                raise _lost() from refused
            return self._settle(extraction, found, claimed=claimed)

    def _settle(self, extraction: Extraction, found: Extraction, *, claimed: bool) -> Extraction:
        """The end was refused by a cancel that came first, or by my own earlier try; everything else is lost."""
        if claimed and found.terminal:
            return found
        if found.terminal or found.cancel_requested_at is None:
            raise _lost()
        canceled = Failed(CanceledError("the job was canceled"))
        try:
            return self._end(extraction, canceled, _ending(canceled, claimed=claimed))
        except Refused as refused:
            raise _lost() from refused

    def _end(self, extraction: Extraction, outcome: Completed | Failed, event: Event) -> Extraction:
        now = self._clock()
        time = rfc3339(now)
        result = dict(outcome.result) if isinstance(outcome, Completed) else None
        error = _shown(extraction, outcome.error) if isinstance(outcome, Failed) else None
        given = {
            "claim": extraction.claim,
            "generation": extraction.generation,
            "now": now,
            "time": time,
            "expiresAt": now // 1000 + KEEP_SECONDS,
            "progress": at_the_end(extraction.progress),
            "spentMs": extraction.spent_ms,
            "result": result,
            "error": error,
        }
        where = key(extraction.tenant, extraction.id)
        metadata = strict_loads((self.request(extraction.tenant, extraction.id) or {"metadata": "{}"})["metadata"])
        detail = event_detail(extraction, metadata, time, result=result, error=error)
        actions = [
            dynamo.update_action(self._table, where, TABLE[event], given),
            dynamo.put_action(
                self._table, outbox_item(extraction, detail, now, now + 2 * self._dispatch_ms), Absent("PK")
            ),
            *(
                dynamo.delete_action(self._table, marker_key(extraction.tenant, connection, extraction.id))
                for connection in sorted(set(extraction.connections.values()))
            ),
        ]
        reach(Point.ENDING)
        request_token = dynamo.token(extraction.id, extraction.claim or "", str(event), time)
        try:
            dynamo.transact(self._client, actions, request_token)
        except (ClientError, BotoCoreError):
            # No try was answered, and yet one may have been heard: then what follows an end is still to be done.
            unsure = self.get(extraction.tenant, extraction.id)
            if unsure is None or unsure.completed_at != time:
                raise
        reach(Point.FINISHED)
        ended = self.get(extraction.tenant, extraction.id)
        if ended is None:
            raise LostClaimError("the extraction is gone")
        return ended

    def erased(self, extraction: Extraction) -> None:
        """Note that the result was deleted on request."""
        dynamo.update(
            self._client, self._table, key(extraction.tenant, extraction.id), _ERASED, {"time": rfc3339(self._clock())}
        )

    # --- plumbing

    def _lease(self, extraction: Extraction) -> dict[str, Any]:
        return {"claim": extraction.claim, "leaseUntil": self._clock() + self._lease_ms}

    def _happen(self, event: Event, extraction: Extraction, given: Mapping[str, Any]) -> Extraction:
        where = key(extraction.tenant, extraction.id)
        return from_item(dynamo.update(self._client, self._table, where, TABLE[event], given))

    def _mine(self, event: Event, extraction: Extraction, given: Mapping[str, Any], **counted: int) -> Extraction:
        """Let it happen by my claim; `counted` is what a count is afterwards."""
        try:
            return self._happen(event, extraction, given)
        except Refused as refused:
            found, after = refused.item or {}, {**counted, "claimToken": extraction.claim, "status": Status.PROCESSING}
            if counted and all(found.get(name) == value for name, value in after.items()):
                return from_item(found)  # nobody else has my claim: the answer to an earlier try was lost
            raise _lost() from refused


def _shown(extraction: Extraction, error: FetcherError) -> dict[str, str]:
    """Render an error; a job that no worker took up failed in the queue."""
    return error.public() if extraction.attempts else {"phase": "queued", **error.public()}


def _ending(outcome: Completed | Failed, *, claimed: bool) -> Event:
    canceled = isinstance(outcome, Failed) and outcome.error.family == "canceled"
    if not claimed:
        return Event.FAIL_UNCLAIMED_CANCELED if canceled else Event.FAIL_UNCLAIMED
    if isinstance(outcome, Completed):
        return Event.FINISH
    return Event.FAIL_CANCELED if canceled else Event.FAIL


def _lost() -> LostClaimError:
    return LostClaimError("another worker owns the extraction, or it has ended")
