"""A rig whose handlers talk to AWS through a proxy each, and whose queues, clock and sweeps the test plays.

Nothing here waits: a message that comes back is due at once, and time passes when no handler runs, by
putting every lease and every `lookAt` of the job into the past.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fetcher.aws import gates, slots
from fetcher.aws.spelling import spell
from fetcher.core.faults import ARMED, Point
from fetcher.core.lifecycle import TABLE
from fetcher.core.rules import Rule
from infra.local.metrics import Sample, samples
from tests.cloudproxy import Call, CloudProxy, Fault, between
from tests.envelope import Envelope, Report, patched
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER, Rig, every, sqs_event
from tests.rig import QUEUES as LIVE
from tests.stack import Stack
from tests.template import written

HANDLERS = (SUBMIT, SWEEPER, EXTRACT, DEAD_LETTER, NOTIFY)
QUEUES = {**LIVE, DEAD_LETTER: "WORK_DEAD"}
"""What names each handler's queue; that of dead letters is no setting of a handler's."""

IMPATIENT = Path(__file__).with_name("impatient.py").read_text()

SHORT = 60.0
"""Seconds of an invocation whose attempt has none: all of them are its margin."""

ROUNDS = 12


class _Anything(dict[str, Any]):
    """Gives every name a value: how a rule is spelled does not depend on it."""

    def __missing__(self, name: str) -> int:
        return 0


def _spelled(rule: Rule) -> tuple[str, str]:
    spelled = spell(rule, _Anything())
    return spelled["ConditionExpression"], spelled["UpdateExpression"]


SLOTS = {
    "take a slot": slots.TAKE,
    "renew a slot": slots.RENEW,
    "free a slot": slots.FREE,
    "free an ended job's slot": slots.FREE_ENDED,
}
RULES = {**{str(event): rule for event, rule in TABLE.items()}, **SLOTS, "close a gate": gates.CLOSE}
EVENTS = {_spelled(rule): name for name, rule in RULES.items()}
"""How DynamoDB hears of each event of an extraction's life, and of its slots and gates."""


def detailed(call: Call) -> str:
    """Name a call by its operation and by what it is about, so that each step of a job has its own name."""
    about = _s3_about(call) if call.service == "s3" else _json_about(call)
    return f"{call.name} {about}".rstrip()


def _s3_about(call: Call) -> str:
    """Which kind of object: the first part of its key, or of the prefix that is listed."""
    path = call.head.split(b" ", 2)[1].decode()
    found = re.match(r"/[^/?]+/([^/?]+)", path) or re.search(r"prefix=(\w+)", path)
    return found[1] if found else ""


def _json_about(call: Call) -> str:
    body = json.loads(call.body or b"{}")
    if call.operation == "TransactWriteItems":
        events = [_event(item["Update"]) for item in body["TransactItems"] if "Update" in item]
        return events[0] if events else "accept"
    if call.operation == "UpdateItem":
        return _event(body)
    if "QueueUrl" in body:
        return str(body["QueueUrl"]).rpartition("-")[2]
    if call.operation == "Query":
        values = body["ExpressionAttributeValues"]
        return str(body.get("IndexName") or _item(dict(zip(("PK", "SK"), values.values(), strict=True))))
    key = body.get("Key") or body.get("Item")
    return _item(key) if isinstance(key, dict) else ""


def _event(update: Mapping[str, Any]) -> str:
    return EVENTS.get((update["ConditionExpression"], update["UpdateExpression"])) or _item(update["Key"])


def _item(key: Mapping[str, Any]) -> str:
    return "/".join((key["PK"]["S"].split("#")[2], key["SK"]["S"].split("#")[0]))


class Cloud(Rig):
    """One service behind proxies."""

    def __init__(
        self,
        stack: Stack,
        folder: Path,
        settings: Mapping[str, str],
        proxies: Mapping[str, CloudProxy],
        *,
        impatient: bool,
    ) -> None:
        super().__init__(stack, folder, settings)
        self.proxies = proxies
        self._code = patched(IMPATIENT) if impatient else None
        self.spoilt: list[Fault] = []
        self.measured: list[Sample] = []
        self._next: dict[str, dict[str, Any]] = {}
        self.env |= {"WORK_DEAD": self._given_up(EXTRACT), "NOTIFICATIONS_DEAD": self._given_up(NOTIFY)}

    def _given_up(self, handler: str) -> str:
        """Let the endpoint redrive a queue as AWS does, by the template's own rule; the URL of its dead letters."""
        url = self.env[QUEUES[handler]]
        dead = self._queue(f"{url.rpartition('-')[2]}-dead")
        named = self.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        policy = json.dumps({"deadLetterTargetArn": named["QueueArn"], "maxReceiveCount": receives(handler)})
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
        return dead

    def envelope(self, handler: str, env: Mapping[str, str] | None = None, **limits: Any) -> Envelope:
        """Open an execution environment behind its handler's proxy."""
        through = {**(env or {}), "AWS_ENDPOINT_URL": self.proxies[handler].url}
        return super().envelope(handler, through, **{"code": self._code, **limits})

    def invoke(self, handler: str, event: Any, **env: str) -> Report:
        """Run a handler once; what was spoilt in this invocation is whole again in the next."""
        if handler in self._next:
            with self.envelope(handler, **self._next.pop(handler)) as envelope:
                report = envelope.invoke(event)
        else:
            report = super().invoke(handler, event, **env)
        self.spoilt += self.proxies[handler].mend()
        self.measured += (sample for line in report.log.splitlines() for sample in samples(line))
        return report

    def arm(self, faults: Mapping[str, Sequence[Fault]]) -> None:
        """Spoil operations of each handler named, each in the first invocation that makes it."""
        self.spoilt = []
        for handler, proxy in self.proxies.items():
            proxy.arm(*faults.get(handler, ()))

    def restart(self, handler: str) -> None:
        """Let the next invocation begin in a new process, which has fetched nothing yet."""
        if handler in self._opened:
            self._opened.pop(handler).__exit__(None, None, None)

    def kill_next_worker(self, point: Point) -> None:
        """Let the next worker die where it comes to this point."""
        self._next[EXTRACT] = {"env": {ARMED: str(point)}}

    def hurry(self, handler: str, more: float = 0) -> None:
        """Give the next invocation no time, or a few seconds."""
        self._next[handler] = {"seconds": SHORT + more}

    def lease(self, seconds: int) -> None:
        """Let the next worker take claim and slots for so many seconds."""
        self._next[EXTRACT] = {"env": {"FETCHER_LEASE_SECONDS": str(seconds)}}

    def forget_messages(self) -> None:
        """Lose every work message, also those that are kept back; the sweeper sends what is needed."""
        self.sqs.purge_queue(QueueUrl=self.env[QUEUES[EXTRACT]])

    # --- what AWS would do by itself

    def insist(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask as a patient client does: again, as long as the service says that it is not ready."""
        for _ in range(3):
            answer = self.http(method, path, body, query=None, **headers)
            if answer.status < 500:
                return answer
        raise AssertionError(answer)

    def drained(self, handler: str) -> None:
        """Deliver all that waits in the handler's queue, again and again, until it is taken; dead letters too."""
        for _ in range(ROUNDS):
            if not self.once(handler) and not (handler == EXTRACT and self.once(DEAD_LETTER)):
                return
        raise AssertionError(f"{handler} does not come to an end with its queue")

    def once(self, handler: str) -> bool:
        """Deliver the next message of the handler's queue; False when there is none."""
        # Visible at once and deleted when done: nothing else receives from this queue.
        received = self.sqs.receive_message(
            QueueUrl=self.env[QUEUES[handler]], MaxNumberOfMessages=1, VisibilityTimeout=0
        ).get("Messages", [])
        if not received:
            return False
        self._deliver(handler, received[0])
        return True

    def _deliver(self, handler: str, message: Mapping[str, Any]) -> None:
        where = {"QueueUrl": self.env[QUEUES[handler]], "ReceiptHandle": message["ReceiptHandle"]}
        report = self.invoke(handler, sqs_event(message["Body"], message["ReceiptHandle"]))
        if report.outcome == "response" and not report.payload["batchItemFailures"]:
            self.sqs.delete_message(**where)
        else:
            self.sqs.change_message_visibility(**where, VisibilityTimeout=0)

    def pass_time(self, job_id: str) -> None:
        """Let every lease and every `lookAt` of a job lie in the past; call it only while no handler works for it."""
        for item in (*self.items_of(job_id).values(), *self.held(job_id)):
            for name in ("lookAt", "leaseUntil"):
                if name in item:
                    self.set(item, name, {"N": "1"})

    def set(self, item: Mapping[str, Any], name: str, value: Mapping[str, Any]) -> None:
        """Set one attribute of an item."""
        self.dynamodb.update_item(
            TableName=self.env["FETCHER_MAIN_TABLE"],
            Key={"PK": item["PK"], "SK": item["SK"]},
            UpdateExpression="SET #n = :v",
            ExpressionAttributeNames={"#n": name},
            ExpressionAttributeValues={":v": value},
        )

    def drive(self, job_id: str) -> list[str]:
        """Let queues, clock and sweeper do their part until the job has ended and is published; its event ids."""
        found: list[str] = []
        for _ in range(ROUNDS):
            self.pass_time(job_id)
            self.invoke(SWEEPER, {})
            self.drained(EXTRACT)
            # A second sweep: the first one looked at the job, this one looks at its event.
            self.pass_time(job_id)
            self.invoke(SWEEPER, {})
            self.drained(NOTIFY)
            found += self.event_ids(job_id)
            if "publishedAt" in self.items_of(job_id).get("OUTBOX#TERMINAL", {}):
                return found
        raise AssertionError(f"the job does not come to an end: {self.job(job_id)}")

    # --- what is there

    def items_of(self, job_id: str) -> dict[str, dict[str, Any]]:
        """The items of a job, by their sort key."""
        answer = self.dynamodb.query(
            TableName=self.env["FETCHER_MAIN_TABLE"],
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": f"T#default#EXTRACTION#{job_id}"}},
            ConsistentRead=True,
        )
        return {item["SK"]["S"]: item for item in answer["Items"]}

    def held(self, job_id: str) -> list[dict[str, Any]]:
        """The source slots that a job holds, dead leases included."""
        found: list[dict[str, Any]] = []
        for source in {each["S"] for each in self.items_of(job_id)["META"]["connections"]["M"].values()}:
            answer = self.dynamodb.query(
                TableName=self.env["FETCHER_MAIN_TABLE"],
                KeyConditionExpression="PK = :pk AND begins_with(SK, :slot)",
                ExpressionAttributeValues={":pk": {"S": f"T#default#SOURCE#{source}"}, ":slot": {"S": "SLOT#"}},
                ConsistentRead=True,
            )
            found += [item for item in answer["Items"] if item.get("holder") == {"S": job_id}]
        return found

    def marked(self, job: Mapping[str, Any], connection: str) -> bool:
        """Whether the job still counts as active on one of its connections."""
        source = job["connections"]["M"][connection]["S"]
        key = {"PK": {"S": f"T#default#SOURCE#{source}"}, "SK": {"S": f"ACTIVE#{job['extractionId']['S']}"}}
        return "Item" in self.dynamodb.get_item(TableName=self.env["FETCHER_MAIN_TABLE"], Key=key, ConsistentRead=True)

    def event_ids(self, job_id: str) -> list[str]:
        """Take what the bus has routed so far; the ids of the job's events."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=self.env["EVENTS"], MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.env["EVENTS"], ReceiptHandle=message["ReceiptHandle"])
                detail = json.loads(message["Body"])["detail"]
                found += [detail["id"]] if detail["jobId"] == job_id else []
        return found


def receives(handler: str) -> int:
    """How often the template lets a message of a handler's queue be received before it is a dead letter."""
    queue = {EXTRACT: "WorkQueue", NOTIFY: "NotificationsQueue"}[handler]
    count: int = written()["Resources"][queue]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
    return count


@cache
def expiring() -> tuple[tuple[str, ...], bool]:
    """Which prefixes the template lets expire, and whether it ends uploads that nobody ends."""
    bucket = written()["Resources"]["Bucket"]["Properties"]
    rules = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if rule["Status"] == "Enabled"]
    prefixes = tuple(rule["Prefix"] for rule in rules if "ExpirationInDays" in rule)
    return prefixes, any("AbortIncompleteMultipartUpload" in rule and "Prefix" not in rule for rule in rules)


def objects_of(items: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The objects that the items of a job, by their sort keys, name: body; result and manifest, unless erased."""
    record = items["META"]
    result = record.get("result", {}).get("M", {}) if "deletedAt" not in record else {}
    found = [result.get("path"), result.get("manifestPath"), items["REQUEST"].get("requestKey")]
    return {each["S"] for each in found if each is not None}


def of_one_request(at: Rig, job_id: str) -> list[str]:
    """The jobs that were made of a job's request, itself included."""
    records = every(
        at.dynamodb,
        "scan",
        "Items",
        TableName=at.env["FETCHER_MAIN_TABLE"],
        ConsistentRead=True,
        FilterExpression="requestHash = :its",
        ExpressionAttributeValues={":its": at.record(job_id)["requestHash"]},
    )
    return [record["extractionId"]["S"] for record in records]


@contextmanager
def cloud(stack: Stack, folder: Path, settings: Mapping[str, str], *, impatient: bool = False) -> Iterator[Cloud]:
    """Make a rig behind proxies, and end its processes; an impatient one waits for no answer longer than 5 s."""
    at = urlsplit(stack["endpointUrl"])
    with ExitStack() as opened:
        target = (at.hostname or "127.0.0.1", at.port or 80)
        proxies = {handler: opened.enter_context(between(target, detailed)) for handler in HANDLERS}
        yield opened.enter_context(Cloud(stack, folder, settings, proxies, impatient=impatient))
