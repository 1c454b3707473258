"""Plays what clients, queues and the sweeper's schedule do, with one handler armed to die."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fetcher.core.faults import ARMED, Point
from tests.envelope import Envelope, Report
from tests.kills.sources import Sources
from tests.rig import EXTRACT, NOTIFY, SUBMIT, SWEEPER, Answer, Rig, http_event, until

LIMIT_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Kill:
    """Which handler dies where, and whether what it held runs out by itself, by leases of so many seconds."""

    handler: str
    point: Point
    lease_seconds: str | None = None


@dataclass(slots=True)
class Driver:
    """Plays a story against a service, with one handler armed. Use as a context."""

    service: Rig
    sources: Sources
    folder: Path
    kill: Kill | None = None
    events: Counter[str] = field(default_factory=Counter)
    job_id: str | None = None
    """The story's job, once it is known."""
    _armed: dict[frozenset[tuple[str, str]], Envelope] = field(default_factory=dict)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        for envelope in self._armed.values():
            envelope.__exit__(None, None, None)

    @property
    def killed(self) -> bool:
        """Whether the armed point was visited."""
        return self._flag.exists()

    def invoke(self, handler: str, event: Any, **env: str) -> Report:
        """Run a handler once, in the armed process if it is the one to die; what it held then runs out."""
        runs_out = self.kill is not None and self.kill.lease_seconds is not None
        if self.kill is not None and handler == self.kill.handler and not self.killed:
            leases = {"FETCHER_LEASE_SECONDS": self.kill.lease_seconds} if self.kill.lease_seconds else {}
            env = {**env, **leases, ARMED: f"{self.kill.point}:{self._flag}"}
        if not env:
            return self.service.invoke(handler, event)
        chosen = frozenset({("handler", handler), *env.items()})
        if chosen not in self._armed:
            self._armed[chosen] = self.service.envelope(handler, env)
        report = self._armed[chosen].invoke(event)
        if report.outcome == "exited" and self.job_id is not None:
            (self.outlast if runs_out else self.expire)(self.job_id)
        return report

    def send(self, method: str, path: str, body: Any = None, **env: str) -> Answer:
        """Send a request as a client does that asks again when it got no answer."""

        def answered() -> Answer | None:
            report = self.invoke(SUBMIT, http_event(method, path, body), **env)
            if report.outcome == "exited":
                return None
            return Answer.of(report)

        answer: Answer = until(answered, f"an answer to {method} {path}")
        return answer

    def deliver(self, handler: str, **env: str) -> Report | None:
        """Hand the next message of the handler's queue to it, as an event source does."""
        return self.service.deliver_by(handler, lambda event: self.invoke(handler, event, **env))

    def drive(self, job_id: str, **extract: str) -> None:
        """Let queues and sweeper do their work until the job has ended and its event has come."""

        def over() -> bool:
            self.sweep(job_id)
            self.deliver(EXTRACT, **extract)
            while self.deliver(NOTIFY) is not None:
                self.take_events(0.2)
            self.take_events(0.05)
            published = any(job_id in event for event in self.events)
            return published and self.service.job(job_id)["status"] in {"completed", "failed"}

        until(over, f"the end of {job_id}", LIMIT_SECONDS)

    def sweep(self, job_id: str, **env: str) -> Report:
        """Let the sweeper run; what one took that died is due again after a quarter of an hour, which is now."""
        if self.killed and self.kill is not None and self.kill.handler == SWEEPER:
            self.expire(job_id)
        return self.invoke(SWEEPER, {}, **env)

    def settle(self, job_id: str) -> None:
        """Let everything that is still due happen, until nothing is."""

        def quiet() -> bool:
            self.drive(job_id)
            return not self.service.due(job_id) and not self.service.slots_held(job_id)

        until(quiet, f"quiet after {job_id}", LIMIT_SECONDS)

    def expire(self, job_id: str, **numbers: int) -> None:
        """Let every lease of a job that nobody works on be over, and all of it be due; its record has these numbers."""
        for item in self._items(job_id):
            past = {"lookAt", "leaseUntil"} & item.keys()
            for name, number in {**dict.fromkeys(past, 1), **(numbers if "status" in item else {})}.items():
                self._set(item, name, number)

    def outlast(self, job_id: str) -> None:
        """Wait until every lease of a job that nobody works on has run out by itself."""
        ends = [int(item["leaseUntil"]["N"]) for item in self._items(job_id) if "leaseUntil" in item]
        time.sleep(max(0.0, max(ends, default=0) / 1000 - time.time()))

    def _items(self, job_id: str) -> list[dict[str, Any]]:
        """All that a job has in the table, and the slots that it holds."""
        own = f"#EXTRACTION#{job_id}"
        held = {"S": job_id}
        return [each for each in self.service.items() if each["PK"]["S"].endswith(own) or each.get("holder") == held]

    def _set(self, item: Mapping[str, Any], name: str, number: int) -> None:
        self.service.dynamodb.update_item(
            TableName=self.service.env["FETCHER_MAIN_TABLE"],
            Key={"PK": item["PK"], "SK": item["SK"]},
            UpdateExpression="SET #n = :n",
            ExpressionAttributeNames={"#n": name},
            ExpressionAttributeValues={":n": {"N": str(number)}},
        )

    def take_events(self, seconds: float) -> None:
        """Count the events that were routed to the queue."""
        for event in self.service.published(seconds):
            self.events[event["detail"]["id"]] += 1

    def lose(self, queue: str) -> None:
        """Lose every message of a queue."""
        self.service.sqs.purge_queue(QueueUrl=self.service.env[queue])

    @property
    def _flag(self) -> Path:
        return self.folder / "killed"
