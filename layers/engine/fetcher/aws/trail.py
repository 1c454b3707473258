"""The audit trail (`design.md` §4, item 23): who changed what and when, in the transaction of the change itself.

A digest covers everything of a connection but its secret, of which only the sealed bytes count: they
change with it and say nothing about it.
"""

import hashlib
from typing import Any, Literal
from uuid import uuid4

from fetcher.aws import dynamo
from fetcher.aws.stored import Stored, to_item
from fetcher.core.canonical import dumps
from fetcher.core.clock import rfc3339

KEEP_SECONDS = 400 * 86_400

What = Literal["connection.create", "connection.patch", "connection.assign", "connection.delete"]


def entry(table: str, who: str, what: What, before: Stored | None, after: Stored | None, now: int) -> Any:
    """Make the Put that records a change; one of `before` and `after` is given."""
    subject = after or before
    if subject is None:
        raise ValueError("a change is a change of something")
    time = rfc3339(now)
    digests = {"before": before and digest(before), "after": after and digest(after)}
    item = {
        "PK": f"T#{subject.tenant}#AUDIT#{time[:10]}",
        "SK": f"{time}#{uuid4()}",
        "who": who,
        "what": what,
        "connectionId": subject.id,
        "configName": subject.connection.name,
        "version": subject.version,
        "expiresAt": now // 1000 + KEEP_SECONDS,
        **{name: value for name, value in digests.items() if value is not None},
    }
    return dynamo.put_action(table, item)


def digest(stored: Stored) -> str:
    """Digest a connection as it is stored."""
    return hashlib.sha256(dumps(to_item(stored), sort=True).encode()).hexdigest()
