"""Time as the service writes it: RFC 3339 in UTC with milliseconds, and milliseconds since the epoch."""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the present in milliseconds since the epoch; the default `Clock`."""
    return time.time_ns() // 1_000_000


def rfc3339(ms: int) -> str:
    """Write an instant as `2026-01-31T08:00:00.000Z`; such texts sort as the instants do."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def from_rfc3339(text: str) -> int:
    """Read what `rfc3339` wrote."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
