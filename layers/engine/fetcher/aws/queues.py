"""Messages: ids only, versioned; a lost, doubled or late one breaks nothing."""

import json
from typing import Any

from fetcher.core.extraction import Message
from fetcher.errors import UnavailableError

VERSION = 1
LONGEST_DELAY = 900
"""Seconds that SQS can keep a message back."""


def send(client: Any, url: str, message: Message, delay: int = 0) -> None:
    """Put a message on a queue; `delay` in seconds, at most 900."""
    client.send_message(QueueUrl=url, MessageBody=written(message), DelaySeconds=delay)


def written(message: Message) -> str:
    """Write a message as text."""
    body = {
        "v": VERSION,
        "tenant": message.tenant,
        "extractionId": message.extraction_id,
        "generation": message.generation,
    }
    return json.dumps(body, separators=(",", ":"))


def read(body: str) -> Message:
    """Read a message. Raises `UnavailableError` for an unknown version: a newer worker will take it."""
    content = json.loads(body)
    if content.get("v") != VERSION:
        raise UnavailableError("the message is of a version that this worker does not know")
    return Message(content["tenant"], content["extractionId"], content["generation"])


def look_again(client: Any, url: str, receipt: str, seconds: int) -> None:
    """Make a message visible again after so many seconds instead of the queue's own timeout."""
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=seconds)
