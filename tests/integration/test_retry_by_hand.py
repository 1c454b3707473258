"""A failed job is submitted again by hand: who may, what answers, and that exactly one of many at once wins.

Also its neighbour: a job whose result was erased answers for nothing, so the same request is a new job.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from typer.testing import CliRunner, Result

from fetcher.core.canonical import strict_loads
from fetcher_cli.app import app
from fetcher_cli.failures import request_of
from tests.rig import SUBMIT, Answer, Rig, message_of, rig, until
from tests.stack import Stack

pytestmark = pytest.mark.stack


@contextmanager
def source(stack: Stack) -> Iterator[psycopg.Connection]:
    """A connection to the sample database, past the engine."""
    at = stack["databases"]["my_postgres"]
    with psycopg.connect(
        host=at["host"], port=at["port"], user=at["user"], password=at["password"], dbname=at["database"],
        autocommit=True,
    ) as connection:  # fmt: skip
        yield connection


@pytest.fixture
def late(stack: Stack) -> Iterator[str]:
    """The name of a table that does not exist yet; dropped in the end."""
    name = f"late_{uuid4().hex[:8]}"
    yield name
    with source(stack) as connection:
        connection.execute(f"DROP TABLE IF EXISTS public.{name}".encode())


def create(stack: Stack, table: str) -> None:
    """Make the table that the failed job did not find."""
    with source(stack) as connection:
        connection.execute(f"CREATE TABLE public.{table} AS SELECT 1::numeric AS id".encode())


def asked(table: str, connection: str = "my_postgres", **metadata: Any) -> dict[str, Any]:
    """A job on one table."""
    return {
        "dataRequest": {"mappedFields": {connection: {f"public.{table}": ["*"]}}},
        "metadata": {"source": "payments", "correlationId": uuid4().hex, **metadata},
    }


def failed(service: Rig, body: Any) -> Any:
    """Post a job that must fail, and let it."""
    answer = service.post(body)
    assert answer.status == 202, answer
    job = service.ended(answer.json()["jobId"])
    assert job["status"] == "failed", job
    return job


def again(service: Rig, body: Any, job_id: str) -> Answer:
    """Post a request as the retry of a job."""
    return service.http("POST", "/v1/fetcher", body, x_retry_of=job_id)


def test_a_failed_job_is_retried_as_a_new_one_that_says_so(service: Rig, late: str) -> None:
    """R-000-52: the header is no part of the hash, the new job names the old one, the old one stays as it was."""
    text = json.dumps(asked(late)).replace('"metadata": {', '"metadata": {"exact": 1.50, ')
    first = failed(service, text)
    create(service.stack, late)
    shown = service.http("GET", f"/v1/fetcher/{first['id']}").text
    answer = again(service, request_of(strict_loads(shown)).decode(), first["id"].upper())
    assert answer.status == 202, answer
    second = service.ended(answer.json()["jobId"])
    assert (second["status"], second["rowCount"], second["retryOf"]) == ("completed", 1, first["id"])
    assert second["requestHash"] == first["requestHash"]
    assert service.job(first["id"]) == first
    assert "retryOf" not in first
    repeated = again(service, text, first["id"])
    assert (repeated.status, repeated.json()["jobId"]) == (200, second["id"])


def test_a_failed_job_says_which_table_which_phase_and_what_to_do(service: Rig, late: str) -> None:
    """Design §6.1: in the job and in its event alike."""
    error = failed(service, asked(late))["error"]
    assert (error["family"], error["datasource"], error["table"]) == ("invalid", "my_postgres", f"public.{late}")
    assert error["phase"] == "planning"
    assert error["action"].startswith("correct what is named here")


def test_a_retry_needs_a_failed_job_of_the_same_request(service: Rig, late: str) -> None:
    """400 without a UUID, 404 for no such job, 409 for one that is no failure or asked for something else."""
    body = asked(late)
    for text in ("x", str(uuid4()).replace("-", "")):
        refused(again(service, body, text), 400, "FET-0403")
    refused(again(service, body, str(uuid4())), 404, "FET-1001", pointed=False)
    pending = service.post(body).json()["jobId"]
    refused(again(service, body, pending), 409, "FET-2014")
    service.ended(pending)
    refused(again(service, asked(late), pending), 409, "FET-2014")
    completed = service.post(asked("accounts")).json()["jobId"]
    service.ended(completed)
    refused(again(service, asked("accounts"), completed), 409, "FET-2014")


def refused(answer: Answer, status: int, code: str, *, pointed: bool = True) -> None:
    """Check a problem about the header."""
    problem = answer.json()
    assert (answer.status, problem["code"]) == (status, code), answer
    if pointed:
        assert [found["pointer"] for found in problem["errors"]] == ["/headers/X-Retry-Of"]


def test_anothers_failed_job_does_not_exist(stack: Stack, tmp_path: Path) -> None:
    """R-000-77: another tenant's and another product's job are 404, as one that never was."""
    with rig(stack, tmp_path, FETCHER_AUTHORIZER="jwt") as closed:
        at = stack["databases"]["my_postgres"]
        connection = {
            "configName": "my_postgres", "type": "POSTGRESQL", "host": at["host"], "port": at["port"],
            "databaseName": at["database"], "userName": at["user"], "password": at["password"],
        }  # fmt: skip
        made = ask(closed, "one", "/v1/management/connections", connection, **{"x-product-name": "payments"})
        assert made.status == 201, made
        body = asked("no_such_table")
        job = ask(closed, "one", "/v1/fetcher", body).json()["jobId"]
        closed.work()
        for tenant, products in (("two", None), ("one", "sales")):
            answer = ask(closed, tenant, "/v1/fetcher", body, products=products, **{"x-retry-of": job})
            assert (answer.status, answer.json()["code"]) == (404, "FET-1001"), answer
        assert ask(closed, "one", "/v1/fetcher", body, **{"x-retry-of": job}).status == 202


def ask(
    service: Rig, tenant: str, path: str, body: Mapping[str, Any], *, products: str | None = None, **headers: str
) -> Answer:
    """Post as the gateway does for a verified token."""
    scope = "jobs:write jobs:read connections:write"
    claims = {"sub": "somebody", "tenant": tenant, "scope": scope, **({"products": products} if products else {})}
    event = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **headers},
        "requestContext": {
            "http": {"method": "POST", "path": path, "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "rig-request",
            "authorizer": {"jwt": {"claims": claims, "scopes": None}},
        },
        "isBase64Encoded": False,
        "body": json.dumps(body),
    }
    report = service.invoke(SUBMIT, event)
    assert report.outcome == "response", report
    return Answer(report.payload["statusCode"], report.payload["headers"], report.payload.get("body") or "")


@pytest.fixture
def registered(stack: Stack) -> str:
    """A connection of the whole service's, for the real gateway."""
    name, at = f"pg_{uuid4().hex[:8]}", stack["databases"]["my_postgres"]
    body = {
        "configName": name, "type": "POSTGRESQL", "host": at["host"], "port": at["port"],
        "databaseName": at["database"], "userName": at["user"], "password": at["password"],
    }  # fmt: skip
    assert stack.api.post("/v1/management/connections", body, x_product_name="payments").status == 201
    return name


def ended(stack: Stack, job_id: str) -> Any:
    """Wait for the end of a job."""

    def job() -> Any:
        seen = stack.api.get(f"/v1/fetcher/{job_id}").json()
        return seen if seen["status"] in {"completed", "failed"} else None

    return until(job, f"the end of {job_id}", 180)


def test_of_many_retries_at_once_exactly_one_makes_a_job(stack: Stack, registered: str, late: str) -> None:
    """R-000-56: the failed job's lock changes hands once, so one 202 and else 200 with its id."""
    body = asked(late, registered)
    first = ended(stack, stack.api.post("/v1/fetcher", body).json()["jobId"])
    assert first["status"] == "failed"
    create(stack, late)
    with ThreadPoolExecutor(8) as threads:
        retry = [threads.submit(stack.api.post, "/v1/fetcher", body, x_retry_of=first["id"]) for _ in range(8)]
        answers = [future.result() for future in retry]
    assert sorted(answer.status for answer in answers) == [200] * 7 + [202], answers
    [job_id] = {answer.json()["jobId"] for answer in answers}
    job = ended(stack, job_id)
    assert (job["status"], job["retryOf"]) == ("completed", first["id"])


@pytest.fixture
def run(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with the stack file as its only setting."""
    file = tmp_path / "stack.json"
    file.write_text(json.dumps(stack.description))
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, expect: int = 0) -> Result:
        result = CliRunner().invoke(app, list(arguments), env={"FETCHER_STACK_FILE": str(file)})
        assert result.exit_code == expect, result.output
        return result

    return command


def test_the_command_line_lists_failed_jobs_and_retries_one_of_any_size(
    stack: Stack, registered: str, late: str, run: Any
) -> None:
    """A body over 100 KB lives in S3; `fetcher retry` sends it again, number for number."""
    body = asked(late, registered, exact=0)
    body["dataRequest"]["filters"] = {registered: {f"public.{late}": {"id": {"nin": list(range(10, 9_010))}}}}
    body["metadata"]["filler"] = "x" * 7_000
    text = json.dumps(body).replace('"exact": 0', '"exact": 1.500').replace(", 9008, 9009]", f", {'9' * 60}]")
    for number in range(5_000, 9_000):
        text = text.replace(f" {number},", f" {number}{'0' * 20},")
    assert len(text) > 100 * 1024 + 7_000
    Path("job.json").write_text(text)
    job_id = run("submit", "job.json", "--wait", expect=1).stdout.strip()
    stored = stack.client("s3").list_objects_v2(Bucket=stack["bucket"], Prefix=f"requests/default/{job_id}")
    assert stored["KeyCount"] == 1
    listed = until(lambda: _line(run("failed", "--source", "payments").stdout, job_id), "the job in the list", 60)
    assert listed[2:5] == ["invalid", "planning", f"{registered}/public.{late}"]
    assert listed[1].startswith("20")
    assert listed[5].startswith("correct what is named here")
    create(stack, late)
    retried = run("retry", job_id, "--wait")
    assert "completed: 1 of 1 tables, 1 rows" in retried.stderr
    shown = run("status", retried.stdout.strip()).stdout
    assert f"retry of:    {job_id}" in shown
    assert "FET-2014" in run("retry", retried.stdout.strip(), expect=2).stderr


def _line(text: str, job_id: str) -> list[str] | None:
    return next((line.split("\t") for line in text.splitlines() if line.startswith(job_id)), None)


def test_hints_that_were_given_up_are_sent_again_and_disturb_nothing(stack: Stack, run: Any) -> None:
    """Design §6 n: a repeat finds its event published; what is no hint of ours comes back to the dead letters."""
    job_id = run_to_end(stack)
    hint = message_of(job_id)
    sqs, dead = stack.client("sqs"), stack["queues"]["notificationsDead"]
    for _ in range(12):
        sqs.send_message(QueueUrl=dead, MessageBody=hint)
    assert "12 messages moved" in run("redrive").stdout
    assert "0 messages moved" in run("redrive").stdout
    until(lambda: _empty(sqs, stack["queues"]["notifications"]), "notify to have taken them", 60)
    assert _empty(sqs, dead)


def run_to_end(stack: Stack) -> str:
    """A job whose event has long been published; any will do."""
    listed = stack.api.get("/v1/fetcher?status=completed").json()["items"]
    return str(listed[0]["id"]) if listed else str(uuid4())


def _empty(sqs: Any, queue: str) -> bool:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return not any(int(found[name]) for name in names)


def test_after_an_erase_the_same_request_is_a_new_job(service: Rig) -> None:
    """R-000-51: nothing is left to answer with, so nothing answers; and only one new job is made."""
    body = asked("accounts")
    first = service.post(body).json()["jobId"]
    service.ended(first)
    assert service.post(body).status == 200
    assert service.http("DELETE", f"/v1/fetcher/{first}/result").status == 204
    second = service.post(body)
    assert second.status == 202
    assert service.post(body).json()["jobId"] == second.json()["jobId"] != first
    assert service.http("DELETE", f"/v1/fetcher/{first}/result").status == 204
    assert service.post(body).json()["jobId"] == second.json()["jobId"]
    service.work()
