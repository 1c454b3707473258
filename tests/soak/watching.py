"""What a soak observes from outside: events, sweeps that nobody waits for, and the memory of the handlers."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from fetcher.aws.records import SHARDS
from fetcher.core.lifecycle import SWEPT_MS
from tests.stack import Stack

LATER_MS = 120_000
"""Behind the waits that a job asks for itself."""


@dataclass(slots=True)
class Watch:
    """What was seen so far. `events` counts deliveries by event id, `peaks` is bytes by function."""

    events: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, set[str]] = field(default_factory=dict)
    peaks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def event(self, event: dict[str, Any]) -> None:
        """Count one delivery."""
        detail = event["detail"]
        self.events[detail["id"]] += 1
        self.jobs.setdefault(detail["jobId"], set()).add(detail["id"])


@contextmanager
def watching(watch: Watch, stack: Stack, sweep: Callable[[], None]) -> Iterator[None]:
    """Receive events, sweep every second and look at memory, until the block ends."""
    over, sqs = Event(), stack.client("sqs")
    repeated = {
        "events": lambda: _receive(sqs, stack["eventsQueueUrl"], watch),
        "sweep": sweep,
        "memory": lambda: _look(watch, stack["endpointUrl"]),
    }

    def repeat(name: str, action: Callable[[], None]) -> None:
        while not over.wait(1 if name == "sweep" else 0.2):
            try:
                action()
            except Exception as error:
                watch.failures.append(f"{name}: {error!r}")

    threads = [Thread(target=repeat, args=item, name=item[0], daemon=True) for item in repeated.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def hasten(stack: Stack, seconds: float) -> None:
    """Make seconds of the quarter of an hour in which the sweeper trusts that a message it sent is worked on.

    Whoever got that message may have been killed before it claimed anything, and SQS keeps it for longer than a soak.
    """
    now, table = int(time.time() * 1000), stack.client("dynamodb")
    for shard in range(SHARDS):
        found = table.query(
            TableName=stack["tables"]["main"],
            IndexName="GSI2",
            KeyConditionExpression="GSI2PK = :shard AND lookAt > :later",
            ExpressionAttributeValues={":shard": {"S": f"ACTIVE#{shard}"}, ":later": {"N": str(now + LATER_MS)}},
        )
        for row in found["Items"]:
            with suppress(table.exceptions.ConditionalCheckFailedException):  # it has moved on by itself
                table.update_item(
                    TableName=stack["tables"]["main"],
                    Key={name: row[name] for name in ("PK", "SK")},
                    UpdateExpression="SET lookAt = :sooner",
                    ConditionExpression="lookAt = :seen",
                    ExpressionAttributeValues={
                        ":seen": row["lookAt"],
                        ":sooner": {"N": str(int(row["lookAt"]["N"]) - SWEPT_MS + round(seconds * 1000))},
                    },
                )


def drained(watch: Watch, stack: Stack, seconds: float = 2) -> None:
    """Receive what is left in the queue of events."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not _receive(stack.client("sqs"), stack["eventsQueueUrl"], watch):
            time.sleep(0.1)


def _receive(sqs: Any, queue: str, watch: Watch) -> bool:
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    for message in messages:
        watch.event(json.loads(message["Body"]))
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return bool(messages)


def _look(watch: Watch, endpoint: str) -> None:
    """Note the highest resident memory of the endpoint's handler processes, as the kernel counted it."""
    for process in psutil.process_iter(["cmdline"]):
        if "awslambdaric" not in (process.info["cmdline"] or ()):
            continue
        with suppress(psutil.Error, OSError):
            environment = process.environ()
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if environment.get("AWS_ENDPOINT_URL") == endpoint:
                name = environment["AWS_LAMBDA_FUNCTION_NAME"].split("-")[1].removesuffix("Function").lower()
                # One that has just been killed has no memory any more, and no such line.
                peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
                watch.peaks[name] = max(watch.peaks[name], *peaks, 0)
