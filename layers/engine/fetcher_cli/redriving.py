"""`fetcher redrive`: hints of events that were given up go back to the queue they came from.

By receive, send, delete, in this order: whoever is killed in between leaves a message twice, never not at all,
and a repeated hint finds its event published already. AWS has a task for this; a local endpoint has not, and one way
that is tested is better than two.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fetcher_cli import aws, console
from fetcher_cli.errors import FailedError, UnreachableError, UsageError
from fetcher_cli.options import Stack

BATCH = 10
"""Messages of one call, SQS' own limit."""

WAIT_SECONDS = 1
"""How long a receive waits; asked without a wait, SQS may not see messages that are there."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How many messages were moved, how many were not taken, and whether more are there than were looked at."""

    moved: int
    refused: int
    more: bool


def redrive(
    stack: Stack = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Move at most so many messages.")] = 10_000,
) -> None:
    """Send the messages of the notifications' dead-letter queue again."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - half a second that only this needs

    at = aws.resources(stack)
    if at is None:
        raise UsageError("Which stack? Pass --stack NAME, or start a local one with `make up`.")
    try:
        done = move(aws.client(at, "sqs"), at.notifications_dead, at.notifications, most)
    except (BotoCoreError, ClientError) as error:
        raise UnreachableError(f"The queues cannot be read or written now: {error}") from error
    console.out().print(f"{done.moved} messages moved to {at.notifications.rsplit('/', 1)[-1]}")
    if done.more:
        console.out().print(f"more are left than the {most} that were asked for: redrive again")
    if done.refused:
        raise FailedError(f"{done.refused} messages were not taken and stay where they were; try again")


def move(sqs: Any, source: str, target: str, most: int) -> Moved:
    """Move messages until the source gives none, or `most` were received."""
    moved = seen = 0
    while seen < most:
        received = _received(sqs, source, min(BATCH, most - seen))
        if not received:
            return Moved(moved, seen - moved, more=False)
        seen += len(received)
        moved += _moved(sqs, source, target, received)
    # A look, not the queue's own count: that one may lag by a minute behind what was moved just now.
    return Moved(moved, seen - moved, more=bool(_received(sqs, source, 1, VisibilityTimeout=0)))


def _received(sqs: Any, source: str, most: int, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=source, MaxNumberOfMessages=most, WaitTimeSeconds=WAIT_SECONDS, **options
    ).get("Messages", [])
    return found


def _moved(sqs: Any, source: str, target: str, received: list[dict[str, Any]]) -> int:
    """Send a batch, and delete only what was taken; what was not is visible again after the queue's timeout."""
    entries = [{"Id": str(number), "MessageBody": message["Body"]} for number, message in enumerate(received)]
    taken = {entry["Id"] for entry in sqs.send_message_batch(QueueUrl=target, Entries=entries).get("Successful", [])}
    done = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(received)
        if str(number) in taken
    ]
    if done:
        sqs.delete_message_batch(QueueUrl=source, Entries=done)
    return len(done)
