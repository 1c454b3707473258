"""Where things are: the API's address, and what a stack file or a deployed stack says about the rest."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fetcher_cli.errors import UsageError

STACK_FILE = "FETCHER_STACK_FILE"
DEFAULT_STACK_FILE = Path(".local/stack.json")
OUTPUTS = {
    "table": ("MainTableName", "ConnectionsTableName"),
    "queue": ("WorkQueueUrl", "WorkDeadQueueUrl", "NotificationsQueueUrl", "NotificationsDeadQueueUrl"),
    "bucket": ("BucketName",),
    "bus": ("BusName",),
}
"""The outputs of the template that name what `doctor` looks at."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The AWS resources of one deployment. `endpoint` is None on AWS itself; queues are named by their URLs."""

    tables: tuple[str, ...]
    work: str
    work_dead: str
    notifications: str
    notifications_dead: str
    bucket: str
    bus: str
    endpoint: str | None = None
    region: str | None = None
    api: str = field(default="")

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues."""
        return self.work, self.work_dead, self.notifications, self.notifications_dead

    @property
    def dead(self) -> tuple[str, ...]:
        """The dead-letter queues."""
        return self.work_dead, self.notifications_dead


def stack_file() -> dict[str, Any] | None:
    """Read the stack file that `make up` writes; None when there is none."""
    path = Path(os.environ.get(STACK_FILE) or DEFAULT_STACK_FILE)
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a stack file: remove it, or name another one by {STACK_FILE}") from error
    return content


def api_url(given: str | None) -> str:
    """Choose the API: as given (`--api`, `FETCHER_API`), else that of the stack file."""
    found = given or (stack_file() or {}).get("apiUrl")
    if not found:
        raise UsageError(
            "Where is the API? Pass --api URL, set FETCHER_API, or start a local stack with `make up` "
            f"(its file: {STACK_FILE} or {DEFAULT_STACK_FILE})."
        )
    return str(found).rstrip("/")


def verify_key(given: str | None) -> bytes:
    """Choose the verification key: as given (`--key`, `FETCHER_VERIFY_KEY`), else that of the stack file."""
    found = given or (stack_file() or {}).get("verifyKeyHex")
    if not found:
        raise UsageError(
            "Verifying needs the key: pass --key HEX or set FETCHER_VERIFY_KEY (see `fetcher derive-key`)."
        )
    try:
        key = bytes.fromhex(str(found))
    except ValueError:
        key = b""
    if len(key) != 32:
        raise UsageError("The key must be 64 hexadecimal digits, as `fetcher derive-key` prints them.")
    return key


def local_resources(content: dict[str, Any]) -> Resources:
    """Read the resources of a stack file."""
    queues = content["queues"]
    return Resources(
        tables=tuple(content["tables"].values()),
        work=queues["work"],
        work_dead=queues["workDead"],
        notifications=queues["notifications"],
        notifications_dead=queues["notificationsDead"],
        bucket=content["bucket"],
        bus=content["bus"],
        endpoint=content["endpointUrl"],
        region=content["region"],
        api=content["apiUrl"],
    )


def deployed_resources(outputs: dict[str, str]) -> Resources:
    """Read the resources of a deployed stack from its outputs. Raises `UsageError` naming one that is missing."""
    missing = [name for names in OUTPUTS.values() for name in names if name not in outputs]
    if missing:
        raise UsageError(f"The stack has no output {missing[0]}: is it a stack of this template?")
    work, work_dead, notifications, notifications_dead = (outputs[name] for name in OUTPUTS["queue"])
    return Resources(
        tables=tuple(outputs[name] for name in OUTPUTS["table"]),
        work=work,
        work_dead=work_dead,
        notifications=notifications,
        notifications_dead=notifications_dead,
        bucket=outputs["BucketName"],
        bus=outputs["BusName"],
        api=outputs.get("ApiUrl", ""),
    )
