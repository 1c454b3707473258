"""Events on EventBridge: checked entry by entry, since a refused one still comes with status 200."""

from typing import Any

from fetcher.aws.records import Outbox
from fetcher.errors import UnavailableError

SOURCE = "fetcher"


def publish(client: Any, bus: str, outbox: Outbox) -> None:
    """Put one terminal event on the bus. Raises `UnavailableError` when the bus did not take it."""
    entry = {
        "EventBusName": bus,
        "Source": SOURCE,
        "DetailType": outbox.detail_type,
        "Detail": outbox.detail,
        "Resources": [],
    }
    answer = client.put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        code = answer["Entries"][0].get("ErrorCode", "unknown")
        raise UnavailableError(f"EventBridge did not take the event ({code})")
