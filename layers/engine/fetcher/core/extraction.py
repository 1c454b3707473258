"""An extraction as the rest of the code sees it, and what its consumers see of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetcher.core import checkpoint
from fetcher.core.checkpoint import Checkpoint
from fetcher.core.clock import from_rfc3339
from fetcher.core.lifecycle import TERMINAL, Status


@dataclass(frozen=True, slots=True)
class Message:
    """What travels on the work queue: ids only, so it may be lost, doubled or late."""

    tenant: str
    extraction_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """The stored record (item 6 of `design.md` §4). Times are RFC 3339 texts, leases milliseconds."""

    tenant: str
    id: str
    status: Status
    source: str
    request_hash: str
    connections: Mapping[str, str]
    generation: int
    attempts: int
    stalled: int
    progress: Mapping[str, Any]
    spent_ms: int
    created_at: str
    look_at: int | None = None
    claim: str | None = None
    lease_until: int | None = None
    phase: str | None = None
    checkpoint: Checkpoint | None = None
    writer: int = 0
    sealed: Mapping[str, Any] | None = None
    started_at: str | None = None
    completed_at: str | None = None
    cancel_requested_at: str | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    deleted_at: str | None = None
    tries: int = 0
    retries: int = 0
    waits: int = 0
    retry_of: str | None = None

    @property
    def terminal(self) -> bool:
        """Whether the status can never change again."""
        return self.status in TERMINAL

    @property
    def message(self) -> Message:
        """The hint that lets a worker find this extraction in its present generation."""
        return Message(self.tenant, self.id, self.generation)

    def claimed_at(self, now: int) -> bool:
        """Whether a worker holds a lease that is alive at `now`."""
        return self.claim is not None and self.lease_until is not None and self.lease_until >= now


def from_item(item: Mapping[str, Any]) -> Extraction:
    """Read item 6."""
    return Extraction(
        tenant=item["tenant"],
        id=item["extractionId"],
        status=Status(item["status"]),
        source=item["source"],
        request_hash=item["requestHash"],
        connections=item["connections"],
        generation=item["generation"],
        attempts=item["attempts"],
        stalled=item["stalled"],
        progress=item["progress"],
        spent_ms=item["spentMs"],
        created_at=item["createdAt"],
        look_at=item.get("lookAt"),
        claim=item.get("claimToken"),
        lease_until=item.get("leaseUntil"),
        phase=item.get("phase"),
        checkpoint=checkpoint.from_item(item.get("checkpoint")),
        writer=item.get("writer", 0),
        sealed=item.get("sealed"),
        started_at=item.get("startedAt"),
        completed_at=item.get("completedAt"),
        cancel_requested_at=item.get("cancelRequestedAt"),
        result=item.get("result"),
        error=item.get("error"),
        deleted_at=item.get("deletedAt"),
        tries=item.get("tries", 0),
        retries=item.get("retries", 0),
        waits=item.get("waits", 0),
        retry_of=item.get("retryOf"),
    )


def event_id(status: Status, extraction_id: str) -> str:
    """The id that stays the same however often the event is sent (R-000-81)."""
    return f"fetcher.job.{status}.{extraction_id}"


def event_detail(
    extraction: Extraction,
    metadata: Mapping[str, Any],
    completed_at: str,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the `detail` of `job.completed` (with `result`) or `job.failed` (with `error`): `design.md` §6.1."""
    status = Status.COMPLETED if result is not None else Status.FAILED
    outcome = {"result": result} if result is not None else {"error": error}
    started = from_rfc3339(extraction.started_at) if extraction.started_at else from_rfc3339(completed_at)
    return {
        "version": "1",
        "id": event_id(status, extraction.id),
        "tenant": extraction.tenant,
        "jobId": extraction.id,
        "status": str(status),
        "metadata": metadata,
        **outcome,
        "attempts": extraction.attempts,
        "executionTimeMs": max(0, from_rfc3339(completed_at) - started),
        "createdAt": extraction.created_at,
        "completedAt": completed_at,
    }
