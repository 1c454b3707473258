"""The whole service through its real gateway, event sources and IAM: what a product service sees."""

import hmac
import io
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
import urllib3

from fetcher.core.audit import verify_manifest
from infra.local.api import Answer
from infra.local.places import ROOT
from tests.rig import until
from tests.stack import Stack

pytestmark = pytest.mark.stack

SCHEMAS = ROOT / "infra" / "schemas"


@pytest.fixture(scope="module")
def connection(stack: Stack) -> str:
    """A connection of the product `payments`, under a name of this module's."""
    name = f"pg_{uuid4().hex[:8]}"
    at = stack["databases"]["my_postgres"]
    body = {
        "configName": name,
        "type": "POSTGRESQL",
        "host": at["host"],
        "port": at["port"],
        "databaseName": at["database"],
        "userName": at["user"],
        "password": at["password"],
    }
    answer = stack.api.post("/v1/management/connections", body, x_product_name="payments")
    assert answer.status == 201, answer
    return name


def request(connection: str, tables: Mapping[str, Any], **metadata: str) -> dict[str, Any]:
    """A job like no other."""
    return {
        "dataRequest": {"mappedFields": {connection: tables}},
        "metadata": {"source": "payments", "correlationId": uuid4().hex, **metadata},
    }


def ended(stack: Stack, answer: Answer) -> Any:
    """Poll a job until it has ended."""
    path = answer.headers["Location"]

    def terminal() -> Any:
        job = stack.api.get(path).json()
        return job if job["status"] in {"completed", "failed"} else None

    return until(terminal, f"the end of {path}", 60)


def event_of(stack: Stack, job_id: str) -> Any:
    """Wait for a job's event at the queue behind the catch-all rule; other jobs' events stay there."""
    sqs = stack.client("sqs")

    def found() -> Any:
        for message in sqs.receive_message(QueueUrl=stack["eventsQueueUrl"], MaxNumberOfMessages=10).get(
            "Messages", []
        ):
            event = json.loads(message["Body"])
            if event["detail"].get("jobId") == job_id:
                sqs.delete_message(QueueUrl=stack["eventsQueueUrl"], ReceiptHandle=message["ReceiptHandle"])
                return event
            sqs.change_message_visibility(
                QueueUrl=stack["eventsQueueUrl"], ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1
            )
        return None

    return until(found, f"the event of {job_id}", 60)


def test_a_job_goes_from_post_to_event_to_verified_result(stack: Stack, connection: str) -> None:
    """§13.8-1, §13.8-2; R-000-1, 59..62, 71, 72, 78, 81. The object is there with the event, and it verifies."""
    answer = stack.api.post("/v1/fetcher", request(connection, {"public.movements": ["*"]}))
    assert answer.status == 202
    event = event_of(stack, answer.json()["jobId"])
    detail = event["detail"]
    jsonschema.validate(detail, json.loads((SCHEMAS / "job.completed.json").read_text()))
    assert (event["source"], event["detail-type"]) == ("fetcher", "job.completed")
    stored = stack.client("s3").get_object(Bucket=detail["result"]["bucket"], Key=detail["result"]["path"])
    body = stored["Body"].read()
    key = bytes.fromhex(stack["verifyKeyHex"])
    assert hmac.new(key, body, "sha256").hexdigest() == detail["result"]["hmac"]
    job = stack.api.get(f"/v1/fetcher/{detail['jobId']}").json()
    assert (job["status"], job["resultPath"], job["resultHmac"]) == (
        "completed",
        detail["result"]["path"],
        detail["result"]["hmac"],
    )
    assert job["rowCount"] == detail["result"]["rowCount"] == 200_000
    manifest = stack.api.get(f"/v1/fetcher/{detail['jobId']}/manifest").body
    assert verify_manifest(manifest, io.BytesIO(body), key) == []
    link = stack.api.get(f"/v1/fetcher/{detail['jobId']}/result")
    assert link.status == 303
    assert urllib3.request("GET", link.headers["Location"], retries=False).data == body


def test_a_job_that_fails_says_why_in_job_and_event(stack: Stack, connection: str) -> None:
    """B-52. R-000-62, R-000-20, design §6.1: the same object in both, without a result."""
    answer = stack.api.post("/v1/fetcher", request(connection, {"public.accounts": ["no_such_field"]}))
    job = ended(stack, answer)
    event = event_of(stack, job["id"])
    jsonschema.validate(event["detail"], json.loads((SCHEMAS / "job.failed.json").read_text()))
    assert event["detail-type"] == "job.failed"
    assert job["error"] == event["detail"]["error"]
    assert job["error"]["field"] == "no_such_field"
    assert "result" not in event["detail"]


def test_fifty_identical_requests_at_once_make_one_job(stack: Stack, connection: str) -> None:
    """R-000-50, R-000-51, R-000-55: one 202, forty-nine 200 with its id, one extraction."""
    body = request(connection, {"public.accounts": ["id"]})
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: stack.api.post("/v1/fetcher", body), range(50)))
    assert sorted(answer.status for answer in answers) == [200] * 49 + [202]
    ids = {answer.json()["jobId"] for answer in answers}
    assert len(ids) == 1
    job = ended(stack, answers[0])
    assert (job["status"], job["attempts"]) == ("completed", 1)
    table = stack.client("dynamodb").scan(
        TableName=stack["tables"]["main"],
        FilterExpression="requestHash = :hash",
        ExpressionAttributeValues={":hash": {"S": job["requestHash"]}},
    )
    assert len(table["Items"]) == 1


def test_fifty_retries_of_a_failed_job_at_once_make_one_new_job(stack: Stack, connection: str) -> None:
    """R-000-52, R-000-56: a failed job does not block, and exactly one retry wins."""
    body = request(connection, {"no_such_table": ["*"]})
    failed = ended(stack, stack.api.post("/v1/fetcher", body))
    assert failed["status"] == "failed"
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: stack.api.post("/v1/fetcher", body), range(50)))
    winners = [answer for answer in answers if answer.status == 202]
    ids = {answer.json()["jobId"] for answer in answers}
    # The new job fails as well, so a late one of the fifty may rightly find it failed and try again.
    assert 1 <= len(winners) == len(ids)
    assert failed["id"] not in ids
    if len(winners) > 1:
        times = [ended(stack, winner)["completedAt"] for winner in winners]
        assert len(set(times)) == len(times)


def test_other_metadata_is_another_job(stack: Stack, connection: str) -> None:
    """R-000-48, R-000-53: the correlation id is part of the hash; member order is not (R-000-49)."""
    first = request(connection, {"public.accounts": ["id"]})
    second = {**first, "metadata": {**first["metadata"], "correlationId": uuid4().hex}}
    turned = {"metadata": dict(reversed(first["metadata"].items())), "dataRequest": first["dataRequest"]}
    one, two, same = (stack.api.post("/v1/fetcher", body) for body in (first, second, turned))
    assert (one.status, two.status, same.status) == (202, 202, 200)
    assert one.json()["jobId"] == same.json()["jobId"] != two.json()["jobId"]


def test_a_duplicate_is_found_while_the_source_is_down(stack: Stack, connection: str) -> None:
    """§13.8-4. R-000-57: the duplicate check comes before the probe, and before the connection is looked up."""
    body = request(connection, {"public.accounts": ["id"]})
    first = stack.api.post("/v1/fetcher", body)
    ended(stack, first)
    listed = stack.api.get("/v1/management/connections", x_product_name="payments").json()["items"]
    assert any(item["configName"] == connection for item in listed)
    begun = time.monotonic()
    assert stack.api.post("/v1/fetcher", body).status == 200
    assert time.monotonic() - begun < 25
