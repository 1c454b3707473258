"""`make demo`: one job on real data, from nothing to a verified result, then everything is stopped again."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import boto3
import urllib3
from botocore.exceptions import ClientError
from rich.console import Console

from fetcher.core import seal
from fetcher.core.audit import verify_manifest
from fetcher_cli import progress
from infra.local import logs, stack
from infra.local.api import Answer, Api
from infra.local.places import Place, StackError

T = TypeVar("T")

TABLES: dict[str, dict[str, list[str]]] = {
    "my_postgres": {
        "public.accounts": ["id", "email", "created_at"],
        "accounting.invoices": ["*"],
        "public.movements": ["*"],
    },
    "my_mongo": {"transactions": ["*"]},
    "my_mariadb": {"cards": ["*"]},
}
TYPES = {"postgresql": "POSTGRESQL", "mongodb": "MONGODB", "mysql": "MYSQL"}


@dataclass(frozen=True, slots=True)
class Demo:
    """A running stack and the means to talk to it and to the person who watches."""

    stack: stack.Description
    api: Api
    session: boto3.Session
    console: Console
    folder: Path

    def client(self, service: Any) -> Any:
        """Open a client of the stack's endpoint."""
        return self.session.client(service, endpoint_url=self.stack["endpointUrl"])

    @property
    def request(self) -> dict[str, Any]:
        """The job: the tables of every database that this machine could start."""
        return {
            "dataRequest": {
                "mappedFields": {name: TABLES[name] for name in self.stack["databases"]},
                "filters": {"my_postgres": {"accounting.invoices": {"status": {"in": ["paid", "pending"]}}}},
            },
            "metadata": {"source": "payments", "correlationId": "settlement-2026-07-13"},
        }

    def say(self, text: str) -> None:
        """Tell what was seen."""
        self.console.print(f"  {text}", highlight=False)

    @contextmanager
    def step(self, title: str, function: str) -> Iterator[None]:
        """Name what happens next; when it fails, show what the function that does it logged."""
        self.console.print(f"[bold]{title}[/bold]")
        try:
            yield
        except (StackError, ClientError, urllib3.exceptions.HTTPError) as error:
            log = logs.tail(self.client("logs"), function) or "(it logged nothing)"
            raise StackError(f"{title}: {error}\nThe log of {function} ends:\n{log}") from error


def run(place: Place) -> None:
    """Run the whole demo. Raises `StackError` for the first thing that is not as it should be."""
    console = Console(soft_wrap=True)
    begun = time.monotonic()
    console.print("[bold]Starting databases, filling them, starting the AWS endpoint, deploying template.yaml[/bold]")
    with stack.running(place) as description:
        demo = Demo(description, Api(description["apiUrl"]), stack.session(place), console, place.folder)
        demo.say(f"took {time.monotonic() - begun:.1f} s; the API answers at {description['apiUrl']}")
        _extract(demo)
        console.print("[bold]Stopping everything[/bold]")
    console.print(f"[bold green]Done in {time.monotonic() - begun:.1f} s.[/bold green]")


def _extract(demo: Demo) -> None:
    with demo.step("Registering the connections", "submit"):
        for name, database in demo.stack["databases"].items():
            demo.say(f"201: {name} ({database['kind']}) is connection {register(demo.api, name, database)}")
    with demo.step("Submitting the request", "submit"):
        job_id = _submit(demo)
    with demo.step("Waiting for the job", "extract"):
        job = _finished(demo, job_id)
    with demo.step("Receiving the event through a rule and a queue", "notify"):
        event = _event(demo, job_id)
    with demo.step("Downloading and verifying the result", "submit"):
        _verify(demo, job, event)
    with demo.step("Submitting the same request again", "submit"):
        _submit_again(demo, job_id)


def register(api: Api, name: str, database: dict[str, Any], **more: Any) -> str:
    """Register a database of the stack for the product `payments`, and return the connection's id."""
    body = {
        "configName": name,
        "type": TYPES[database["kind"]],
        "host": database["host"],
        "port": database["port"],
        "databaseName": database["database"],
        "userName": database["user"],
        "password": database["password"],
        **({"metadata": {"directConnection": "true"}} if database["kind"] == "mongodb" else {}),
        **more,
    }
    answer = api.post("/v1/management/connections", body, x_product_name="payments")
    _expect(answer, 201)
    return str(answer.json()["id"])


def _submit(demo: Demo) -> str:
    answer = demo.api.post("/v1/fetcher", demo.request)
    _expect(answer, 202)
    demo.say(f"202: job {answer.json()['jobId']}")
    return str(answer.json()["jobId"])


def _finished(demo: Demo, job_id: str) -> dict[str, Any]:
    with progress.shown(demo.console, indent="  ") as show:

        def ended() -> dict[str, Any] | None:
            answer = demo.api.get(f"/v1/fetcher/{job_id}")
            _expect(answer, 200)
            job: dict[str, Any] = answer.json()
            show(job)
            return job if job["status"] in {"completed", "failed"} else None

        job = _eventually("the job to end", ended, seconds=120, pause=0.25)
    if job["status"] == "failed":
        raise StackError(f"the job failed: {job['error']}")
    return job


def _event(demo: Demo, job_id: str) -> dict[str, Any]:
    sqs = demo.client("sqs")

    def arrived() -> dict[str, Any] | None:
        received = sqs.receive_message(QueueUrl=demo.stack["eventsQueueUrl"], WaitTimeSeconds=2)
        bodies = [json.loads(message["Body"]) for message in received.get("Messages", [])]
        return next((body for body in bodies if body["detail"].get("jobId") == job_id), None)

    event = _eventually("the event to arrive", arrived, seconds=60)
    demo.say(f"{event['detail-type']} from {event['source']}, id {event['detail']['id']}")
    return event


def _verify(demo: Demo, job: dict[str, Any], event: dict[str, Any]) -> None:
    key = bytes.fromhex(demo.stack["verifyKeyHex"])
    result = demo.folder / "result.json"
    location = _presigned(demo, f"/v1/fetcher/{job['id']}/result")
    _download(location, result)
    size = result.stat().st_size
    demo.say(f"303, then {size:,} bytes from S3 through a presigned link")
    _same("size", size, job["sizeBytes"])
    _same("SHA-256", hashlib.sha256(result.read_bytes()).hexdigest(), job["resultSha256"])
    _same("signature in the event", event["detail"]["result"]["hmac"], job["resultHmac"])
    if not seal.verify(result, job["resultHmac"], key):
        raise StackError("the signature of the result does not verify")
    demo.say(f"the signature of the result verifies: {job['resultHmac']}")
    _verify_manifest(demo, job, result, key)
    _count(demo, result, job["rowCount"])


def _verify_manifest(demo: Demo, job: dict[str, Any], result: Path, key: bytes) -> None:
    answer = demo.api.get(f"/v1/fetcher/{job['id']}/manifest")
    _expect(answer, 200)
    with result.open("rb") as stream:
        findings = verify_manifest(answer.body, stream, key)
    if findings:
        raise StackError(f"the manifest does not verify: {findings}")
    demo.say("the manifest verifies: signature, digests, hash chain, key ranges and row sums")


def _count(demo: Demo, result: Path, expected: int) -> None:
    document = json.loads(result.read_bytes())
    counts = {f"{name}/{table}": len(rows) for name, tables in document.items() for table, rows in tables.items()}
    for table, rows in counts.items():
        demo.say(f"{table}: {rows:,} rows")
    _same("number of rows", sum(counts.values()), expected)
    statuses = {row["status"] for row in document["my_postgres"]["accounting.invoices"]}
    _same("filter on the status of invoices", statuses, {"paid", "pending"})


def _submit_again(demo: Demo, job_id: str) -> None:
    answer = demo.api.post("/v1/fetcher", demo.request)
    _expect(answer, 200)
    _same("id of the job", answer.json()["jobId"], job_id)
    demo.say("200: the same job, nothing was read again")


def _presigned(demo: Demo, path: str) -> str:
    answer = demo.api.get(path)
    _expect(answer, 303)
    return answer.headers["Location"]


def _download(location: str, target: Path) -> None:
    # Nothing of ours goes along: a presigned link is all that the store needs.
    with urllib3.PoolManager(retries=False) as pool, target.open("wb") as file:
        answer = pool.request("GET", location, preload_content=False, timeout=60)
        if answer.status != 200:
            raise StackError(f"the download answered {answer.status}: {answer.read(500)!r}")
        for block in answer.stream(1024 * 1024):
            file.write(block)


def _expect(answer: Answer, status: int) -> None:
    if answer.status != status:
        raise StackError(f"the API answered {answer.status} instead of {status}: {answer.body[:1000].decode()}")


def _same(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise StackError(f"{what}: {seen!r} instead of {expected!r}")


def _eventually(what: str, look: Callable[[], T | None], *, seconds: float, pause: float = 0.0) -> T:
    until = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > until:
            raise StackError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(pause)
    return found
