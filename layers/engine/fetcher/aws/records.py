"""The items of the table `main` that belong to an extraction: their keys and their attributes.

Source: `design.md` §4, items 1a, 6, 6r, 9 and 10. Keys begin with the tenant, so no read or write can
cross one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from fetcher.core.canonical import dumps
from fetcher.core.clock import rfc3339
from fetcher.core.extraction import Extraction, event_id
from fetcher.core.lifecycle import KEEP_SECONDS, Status
from fetcher.errors import FetcherError

SHARDS = 10
OUTBOX = "OUTBOX#TERMINAL"
REQUEST_KEEP_SECONDS = KEEP_SECONDS + 11 * 86_400
"""From a job's creation: the record needs it, and lives on from the end, ten days later at most (`MaxQueuedHours`)."""
OUTBOX_CAP_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Accepted:
    """A checked request on its way to become an extraction.

    `request` is the posted `dataRequest` as text, or None when it is stored at `request_key`. `retry_of` is the
    failed extraction that this one was asked for to repeat.
    """

    tenant: str
    id: str
    source: str
    request_hash: str
    connections: Mapping[str, str]
    tables: int
    metadata: str
    request: str | None
    request_key: str | None
    created_ms: int
    retry_of: str | None = None

    def stored_at(self, request_key: str) -> "Accepted":
        """The same, with its body in S3 instead of in the item."""
        return replace(self, request=None, request_key=request_key)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Another extraction already answers for this request."""

    extraction_id: str


@dataclass(frozen=True, slots=True)
class Completed:
    """How an extraction ended well: what the job, the event and the manifest say of its result."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """How an extraction ended badly."""

    error: FetcherError


@dataclass(frozen=True, slots=True)
class Outbox:
    """The terminal event of an extraction, waiting to be published or already so."""

    tenant: str
    extraction_id: str
    event_id: str
    detail_type: str
    detail: str
    ended_ms: int
    look_at: int | None
    sends: int
    published_at: str | None


@dataclass(frozen=True, slots=True)
class Due:
    """Something the sweeper should look at: the key of an item and the time its index row shows."""

    key: Mapping[str, str]
    look_at: int


def key(tenant: str, extraction_id: str) -> dict[str, str]:
    """Name the record of an extraction; its request and its event have the same `PK`."""
    return {"PK": f"T#{tenant}#EXTRACTION#{extraction_id}", "SK": "META"}


def owner(item_key: Mapping[str, str]) -> tuple[str, str]:
    """Read tenant and id back from what `key` made; neither has a `#`."""
    _, tenant, _, extraction_id = item_key["PK"].split("#")
    return tenant, extraction_id


def lock_key(tenant: str, request_hash: str) -> dict[str, str]:
    """Name the lock of all requests that are the same."""
    return {"PK": f"T#{tenant}#HASH#{request_hash}", "SK": "LOCK"}


def marker_key(tenant: str, connection_id: str, extraction_id: str) -> dict[str, str]:
    """Name the marker of a connection that an extraction uses until its end."""
    return {"PK": f"T#{tenant}#SOURCE#{connection_id}", "SK": f"ACTIVE#{extraction_id}"}


def marker(tenant: str, connection_id: str, extraction_id: str, created_ms: int) -> dict[str, Any]:
    """Render a marker; one that nobody deletes goes with the record."""
    return {**marker_key(tenant, connection_id, extraction_id), "expiresAt": created_ms // 1000 + KEEP_SECONDS}


def shard(extraction_id: str) -> str:
    """Spread what the sweeper looks for over the partitions of its index."""
    return f"ACTIVE#{crc32(extraction_id.encode()) % SHARDS}"


def new_item(job: Accepted, look_at: int) -> dict[str, Any]:
    """Render the record of a new extraction; the sweeper looks at it from `look_at` on, in milliseconds."""
    created = rfc3339(job.created_ms)
    return {
        **key(job.tenant, job.id),
        "GSI1PK": f"{job.tenant}#JOBS",
        "GSI1SK": f"{created}#{job.id}",
        "GSI2PK": shard(job.id),
        "lookAt": look_at,
        "tenant": job.tenant,
        "extractionId": job.id,
        "status": str(Status.PENDING),
        "source": job.source,
        "requestHash": job.request_hash,
        "connections": dict(job.connections),
        "generation": 0,
        "attempts": 0,
        "stalled": 0,
        "spentMs": 0,
        "progress": {"rows": 0, "bytes": 0, "tables": {"done": 0, "total": job.tables}},
        "createdAt": created,
        **({"retryOf": job.retry_of} if job.retry_of is not None else {}),
    }


def request_item(job: Accepted) -> dict[str, Any]:
    """Render the request, or where it is in S3, beside the record: lists and heartbeats need not carry it."""
    body = {"request": job.request} if job.request is not None else {"requestKey": job.request_key}
    expires = job.created_ms // 1000 + REQUEST_KEEP_SECONDS
    return {**key(job.tenant, job.id), "SK": "REQUEST", "metadata": job.metadata, "expiresAt": expires, **body}


def outbox_item(extraction: Extraction, detail: Mapping[str, Any], now: int, look_at: int) -> dict[str, Any]:
    """Render the terminal event; the sweeper looks at it from `look_at` on until it is published."""
    return {
        **key(extraction.tenant, extraction.id),
        "SK": OUTBOX,
        "GSI2PK": shard(extraction.id),
        "lookAt": look_at,
        "tenant": extraction.tenant,
        "extractionId": extraction.id,
        "eventId": event_id(Status(detail["status"]), extraction.id),
        "detailType": f"job.{detail['status']}",
        "detail": dumps(detail),
        "endedMs": now,
        "sends": 0,
    }


def outbox_from(item: Mapping[str, Any]) -> Outbox:
    """Read what `outbox_item` rendered."""
    return Outbox(
        tenant=item["tenant"],
        extraction_id=item["extractionId"],
        event_id=item["eventId"],
        detail_type=item["detailType"],
        detail=item["detail"],
        ended_ms=item["endedMs"],
        look_at=item.get("lookAt"),
        sends=item["sends"],
        published_at=item.get("publishedAt"),
    )
