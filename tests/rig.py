"""The service's own parts, driven by hand.

Tables, queues, bucket, bus, key and secret are real ones on the run's local endpoint, under names of
their own; the handlers are the deployed code under the real runtime client and its memory limit. Only
the gateway and the event sources are played by the test, so that it decides what happens when.
"""

import base64
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.envelope import Envelope, Report
from tests.stack import Stack

SUBMIT = "submit.app.handler"
SWEEPER = "submit.sweeper.handler"
EXTRACT = "extract.app.handler"
DEAD_LETTER = "extract.dead_letter.handler"
NOTIFY = "notify.app.handler"

SERVICES = {SUBMIT: "submit", SWEEPER: "sweeper", EXTRACT: "extract", DEAD_LETTER: "dead-letter", NOTIFY: "notify"}
"""What the template adds to the stack's name to name each handler's service."""

QUEUES = {EXTRACT: "FETCHER_WORK_QUEUE_URL", NOTIFY: "FETCHER_NOTIFICATIONS_QUEUE_URL"}
"""The setting that names each handler's queue."""

MASTER = base64.b64encode(bytes(range(32))).decode()
VERIFY_KEY = bytes.fromhex("ec9eedfd0b245950528714e5328ff2c2639ab32540a309f1cd68685ceaff9dfe")
"""The external HMAC key of `MASTER`: a published test vector."""
QUICK = {"FETCHER_LEASE_SECONDS": "2", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "0.5"}
"""Settings with which the next attempt has not long to wait."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the submit function answered."""

    status: int
    headers: Mapping[str, str]
    text: str

    @classmethod
    def of(cls, report: Report) -> "Answer":
        """Read it from what the handler returned."""
        return cls(report.payload["statusCode"], report.payload["headers"], report.payload.get("body") or "")

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.text)


class Rig:
    """One service of its own on the endpoint of a stack."""

    def __init__(self, stack: Stack, folder: Path, settings: Mapping[str, str]) -> None:
        self.stack = stack
        self.name = f"rig-{secrets.token_hex(4)}"
        self._folder = folder
        self._opened: dict[str, Envelope] = {}
        self.dynamodb, self.sqs, self.s3 = stack.client("dynamodb"), stack.client("sqs"), stack.client("s3")
        self.events, self.kms, self.secrets = (
            stack.client("events"),
            stack.client("kms"),
            stack.client("secretsmanager"),
        )
        self.env = {**self._made(), **settings}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart_all()

    # --- what the gateway and the event sources do

    def http(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, **headers: str
    ) -> Answer:
        """Send a request."""
        report = self.invoke(SUBMIT, http_event(method, path, body, query=query, **headers))
        assert report.outcome == "response", report
        return Answer.of(report)

    def invoke(self, handler: str, event: Any, **env: str) -> Report:
        """Run a handler once; with an environment of its own when one is given."""
        if env:
            with self.envelope(handler, env) as envelope:
                return envelope.invoke(event)
        if handler not in self._opened:
            self._opened[handler] = self.envelope(handler)
        return self._opened[handler].invoke(event)

    def envelope(
        self,
        handler: str,
        env: Mapping[str, str] | None = None,
        *,
        memory_mb: int = 512,
        seconds: float = 120,
        code: Path | None = None,
    ) -> Envelope:
        """Open an execution environment, of our functions or of what is in `code`."""
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        named = {"POWERTOOLS_SERVICE_NAME": f"{self.name}-{SERVICES[handler]}"}
        given = {**self.env, **named, **(env or {})}
        return Envelope(handler, folder, memory_mb=memory_mb, seconds=seconds, env=given, code=code)

    def restart_all(self) -> None:
        """End every execution environment; the next invocations are cold."""
        for envelope in self._opened.values():
            envelope.__exit__(None, None, None)
        self._opened.clear()

    def deliver(self, handler: str, **env: str) -> Report | None:
        """Hand the next message of a handler's queue to it, as an event source does; None when there is none."""
        return self.deliver_by(handler, lambda event: self.invoke(handler, event, **env))

    def deliver_by(self, handler: str, invoke: Callable[[Any], Report]) -> Report | None:
        """The same, with an invocation of the caller's own."""
        queue = self.env[QUEUES[handler]]
        received = self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1).get("Messages", [])
        if not received:
            return None
        message = received[0]
        report = invoke(sqs_event(message["Body"], message["ReceiptHandle"]))
        if report.outcome == "response" and not report.payload["batchItemFailures"]:
            self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return report

    def work(self, **env: str) -> Report | None:
        """Let extract take the next message."""
        return self.deliver(EXTRACT, **env)

    def ended(self, job_id: str) -> Any:
        """Let extract take messages until this job has ended, and return it: others may wait before its own.

        A worker that a busy machine kept waiting for as long as its lease leaves the job to the sweeper.
        """

        def ended() -> Any:
            if self.work() is None:
                self.sweep()
            job = self.job(job_id)
            return job if job["status"] in {"completed", "failed"} else None

        return until(ended, "the end")

    def notify(self, **env: str) -> Report | None:
        """Let notify take the next message."""
        return self.deliver(NOTIFY, **env)

    def sweep(self) -> int:
        """Let the sweeper run once; return what it swept."""
        report = self.invoke(SWEEPER, {})
        assert report.outcome == "response", report
        return int(report.payload["swept"])

    # --- what a test asks

    def register(self, name: str = "my_postgres", product: str = "payments", **changed: Any) -> Answer:
        """Register the stack's PostgreSQL, with some members changed."""
        at = self.stack["databases"]["my_postgres"]
        body = {
            "configName": name,
            "type": "POSTGRESQL",
            "host": at["host"],
            "port": at["port"],
            "databaseName": at["database"],
            "userName": at["user"],
            "password": at["password"],
            **changed,
        }
        return self.http("POST", "/v1/management/connections", body, x_product_name=product)

    def post(self, body: Any) -> Answer:
        """Post a job."""
        return self.http("POST", "/v1/fetcher", body)

    def posted(self, mapped: Mapping[str, Any], name: str) -> str:
        """Post a job of `payments` that is like no other by its name, and return its id."""
        answer = self.post(
            {"dataRequest": {"mappedFields": mapped}, "metadata": {"source": "payments", "correlationId": name}}
        )
        assert answer.status == 202, answer
        return str(answer.json()["jobId"])

    def job(self, job_id: str) -> Any:
        """Read a job."""
        answer = self.http("GET", f"/v1/fetcher/{job_id}")
        assert answer.status == 200, answer
        return answer.json()

    def items(self) -> list[dict[str, Any]]:
        """Everything in the main table."""
        return every(self.dynamodb, "scan", "Items", TableName=self.env["FETCHER_MAIN_TABLE"], ConsistentRead=True)

    def record(self, job_id: str) -> dict[str, Any]:
        """The stored record of a job."""
        where = {"PK": {"S": f"T#default#EXTRACTION#{job_id}"}, "SK": {"S": "META"}}
        found: dict[str, Any] = self.dynamodb.get_item(
            TableName=self.env["FETCHER_MAIN_TABLE"], Key=where, ConsistentRead=True
        )["Item"]
        return found

    def due(self, job_id: str) -> list[dict[str, Any]]:
        """What of a job the sweeper would look at, now or later."""
        return [item for item in self.items() if "GSI2PK" in item and job_id in item["PK"]["S"]]

    def connection_id(self, name: str) -> str:
        """Find a connection by its name."""
        listed = self.http("GET", "/v1/management/connections", query={"limit": "100"}).json()["items"]
        return next(str(item["id"]) for item in listed if item["configName"] == name)

    def touch_connection(self, name: str) -> None:
        """Give a connection another version, as a change of its host would."""
        self.dynamodb.update_item(
            TableName=self.env["FETCHER_CONNECTIONS_TABLE"],
            Key={"PK": {"S": f"T#default#CONNECTION#{self.connection_id(name)}"}, "SK": {"S": "META"}},
            UpdateExpression="SET #v = #v + :one",
            ExpressionAttributeNames={"#v": "version"},
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    @contextmanager
    def slot_held(self, name: str) -> Iterator[None]:
        """Hold the first slot of a connection for a job that is none of ours."""
        where = {"PK": {"S": f"T#default#SOURCE#{self.connection_id(name)}"}, "SK": {"S": "SLOT#00"}}
        until_ms = {"N": str(round((time.time() + 600) * 1000))}
        item = {**where, "holder": {"S": "somebody-else"}, "leaseUntil": until_ms}
        self.dynamodb.put_item(TableName=self.env["FETCHER_MAIN_TABLE"], Item=item)
        try:
            yield
        finally:
            self.dynamodb.delete_item(TableName=self.env["FETCHER_MAIN_TABLE"], Key=where)

    def slots_held(self, job_id: str) -> list[str]:
        """The slots whose lease a job has now."""
        now = time.time() * 1000
        held = [item for item in self.items() if item.get("holder") == {"S": job_id}]
        return [item["SK"]["S"] for item in held if float(item["leaseUntil"]["N"]) > now]

    def objects(self) -> list[str]:
        """Every key in the bucket."""
        return [
            each["Key"] for each in every(self.s3, "list_objects_v2", "Contents", Bucket=self.env["FETCHER_BUCKET"])
        ]

    def uploads(self) -> list[str]:
        """Every multipart upload that is open."""
        found = every(self.s3, "list_multipart_uploads", "Uploads", Bucket=self.env["FETCHER_BUCKET"])
        return [each["Key"] for each in found]

    def waiting(self, queue: str) -> int:
        """Messages in a queue, seen or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.env[queue], AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def published(self, seconds: float = 5) -> list[dict[str, Any]]:
        """Take the events that a catch-all rule routed to a queue."""
        found: list[dict[str, Any]] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            answer = self.sqs.receive_message(QueueUrl=self.env["EVENTS"], MaxNumberOfMessages=10)
            for message in answer.get("Messages", []):
                self.sqs.delete_message(QueueUrl=self.env["EVENTS"], ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"]))
            if found and not answer.get("Messages"):
                break
            time.sleep(0.05)
        return found

    def result(self, job: Mapping[str, Any]) -> bytes:
        """Read a job's result object."""
        body: bytes = self.s3.get_object(Bucket=self.env["FETCHER_BUCKET"], Key=job["resultPath"])["Body"].read()
        return body

    def forget(self, job_id: str) -> None:
        """Delete what a job stored, so that the bucket, which the endpoint keeps in memory, stays small."""
        for key in self.objects():
            if job_id in key:
                self.s3.delete_object(Bucket=self.env["FETCHER_BUCKET"], Key=key)

    # --- making it

    def _made(self) -> dict[str, str]:
        main, connections = f"{self.name}-main", f"{self.name}-connections"
        self._table(self.stack["tables"]["main"], main)
        self._table(self.stack["tables"]["connections"], connections)
        self.s3.create_bucket(Bucket=self.name)
        self.events.create_event_bus(Name=self.name)
        queues = {name: self._queue(name) for name in ("work", "notifications", "events")}
        self._route(queues["events"])
        return {
            "AWS_ENDPOINT_URL": _endpoint(self.stack["endpointUrl"]),
            "FETCHER_STAGE": "local",
            "FETCHER_AUTHORIZER": "none",
            "FETCHER_MAIN_TABLE": main,
            "FETCHER_CONNECTIONS_TABLE": connections,
            "FETCHER_BUCKET": self.name,
            "FETCHER_BUS": self.name,
            "FETCHER_WORK_QUEUE_URL": queues["work"],
            "FETCHER_NOTIFICATIONS_QUEUE_URL": queues["notifications"],
            "FETCHER_KEY_ID": self.kms.create_key()["KeyMetadata"]["KeyId"],
            "FETCHER_MASTER_SECRET_ID": self._secret(),
            "POWERTOOLS_METRICS_NAMESPACE": "Fetcher",
            "MALLOC_ARENA_MAX": "1",
            "EVENTS": queues["events"],
        }

    def _table(self, like: str, name: str) -> None:
        known = self.dynamodb.describe_table(TableName=like)["Table"]
        indexes = [
            {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
            for index in known["GlobalSecondaryIndexes"]
        ]
        self.dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=known["AttributeDefinitions"],
            KeySchema=known["KeySchema"],
            GlobalSecondaryIndexes=indexes,
        )

    def _queue(self, name: str) -> str:
        url: str = self.sqs.create_queue(QueueName=f"{self.name}-{name}", Attributes={"VisibilityTimeout": "1"})[
            "QueueUrl"
        ]
        return url

    def _route(self, queue: str) -> None:
        arn = self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self.events.put_rule(Name=self.name, EventBusName=self.name, EventPattern='{"source":["fetcher"]}')
        self.events.put_targets(Rule=self.name, EventBusName=self.name, Targets=[{"Id": "all", "Arn": arn}])

    def _secret(self) -> str:
        ring = json.dumps({"current": "1", "keys": {"1": MASTER}})
        arn: str = self.secrets.create_secret(Name=f"{self.name}/master", SecretString=ring)["ARN"]
        return arn


def http_event(
    method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, **headers: str
) -> dict[str, Any]:
    """Wrap a request as the HTTP API hands it over (payload 2.0); text goes out as it is."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {name: value for name, value in named.items() if value},
        "requestContext": {
            "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "rig-request",
        },
        "isBase64Encoded": False,
    }
    if query:
        event["queryStringParameters"] = dict(query)
    if text is not None:
        event["body"] = text
    return event


def message_of(job_id: str, generation: int = 0) -> str:
    """The work message of a job."""
    return json.dumps({"v": 1, "tenant": "default", "extractionId": job_id, "generation": generation})


def work_event(job_id: str, generation: int = 0) -> dict[str, Any]:
    """The event that brings a job to a handler."""
    return sqs_event(message_of(job_id, generation))


def sqs_event(body: str, receipt: str = "none") -> dict[str, Any]:
    """Wrap one message as the event source does."""
    record = {
        "messageId": secrets.token_hex(8),
        "receiptHandle": receipt,
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:rig",
        "awsRegion": "us-east-1",
    }
    return {"Records": [record]}


def until(happened: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    """Wait until something is so, and return it; fail with its name when it never is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def every(client: Any, operation: str, member: str, **asked: Any) -> list[dict[str, Any]]:
    """Collect a member of all pages of an answer."""
    pages = client.get_paginator(operation).paginate(**asked)
    return [each for page in pages for each in page.get(member, [])]


@contextmanager
def rig(stack: Stack, folder: Path, **settings: str) -> Iterator[Rig]:
    """Make a rig and end its processes."""
    with Rig(stack, folder, settings) as made:
        yield made


def _endpoint(url: str) -> str:
    """The endpoint as the handlers must reach it: by address, whatever the host was called."""
    parts = urlsplit(url)
    return f"{parts.scheme}://127.0.0.1:{parts.port}" if os.environ.get("AWS_ENDPOINT_URL") is None else url
