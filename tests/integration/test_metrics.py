"""What one job leaves in the logs: metrics in the embedded format, and its id on every other line."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.cloudproxy import Fault, between
from tests.envelope import Report
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, Rig, message_of, sqs_event

pytestmark = pytest.mark.stack

NEWER = '{"v":2}'
"""A message of a version that this deployment does not know."""


def asked(table: str) -> dict[str, Any]:
    """A job like no other."""
    mapped = {"my_postgres": {table: ["*"]}}
    return {"dataRequest": {"mappedFields": mapped}, "metadata": {"source": "payments", "n": uuid4().hex}}


def entries(report: Report) -> list[dict[str, Any]]:
    """The structured lines of an invocation."""
    return [json.loads(line) for line in report.log.splitlines() if line.startswith("{")]


def metrics(report: Report) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield name, dimensions and value of each metric."""
    for entry in entries(report):
        for directive in entry.get("_aws", {}).get("CloudWatchMetrics", ()):
            for metric in directive["Metrics"]:
                for dimensions in directive["Dimensions"]:
                    yield metric["Name"], tuple(sorted(dimensions)), entry[metric["Name"]]


def posted(service: Rig, table: str = "public.accounts") -> str:
    """Post a job and return its id."""
    answer = service.post(asked(table))
    assert answer.status == 202, answer
    return str(answer.json()["jobId"])


def worked(service: Rig, table: str) -> Report:
    """Post a job and let extract take it."""
    posted(service, table)
    report = service.work()
    assert report is not None
    return report


def test_a_completed_job_is_counted_with_what_it_took(service: Rig) -> None:
    """Rows, bytes, seconds, attempts, and how long it had waited; no dimension holds an id."""
    found = {name: value for name, dimensions, value in metrics(worked(service, "public.accounts"))}
    assert found["JobsCompleted"] == [1.0]
    assert found["RowsRead"] == [5000.0]
    assert {"BytesWritten", "ExtractionSeconds", "Attempts", "QueueSeconds"} <= found.keys()
    assert 0 <= found["QueueSeconds"][0] < 600
    assert "Resumed" not in found


def test_a_failed_job_is_counted_by_its_family_and_every_line_names_it(service: Rig) -> None:
    """Whoever has the id finds all that was said about the job."""
    report = worked(service, "public.no_such_table")
    assert ("JobsFailed", ("family", "service")) in {(name, dimensions) for name, dimensions, _ in metrics(report)}
    lines = [entry for entry in entries(report) if "_aws" not in entry]
    assert [line["message"] for line in lines if line["message"] == "the job failed"]
    assert {"extraction_id", "tenant"} <= set.intersection(*(set(line) for line in lines))
    service.sqs.purge_queue(QueueUrl=service.env["FETCHER_NOTIFICATIONS_QUEUE_URL"])


def batch(*bodies: str) -> dict[str, Any]:
    """Several messages in one event."""
    return {"Records": [record for body in bodies for record in sqs_event(body)["Records"]]}


def failures(report: Report) -> list[dict[str, Any]]:
    """The lines that say why a message comes back."""
    return [entry for entry in entries(report) if entry.get("level") == "ERROR"]


def test_an_event_that_the_bus_did_not_take_is_in_the_log_of_notify(service: Rig) -> None:
    """Design §6 n: its function ends well, so nothing but the log says which job's event waits, and why.

    What comes after it in the batch and cannot be read does not carry its id.
    """
    job_id = posted(service)
    assert service.work() is not None
    at = urlsplit(service.env["AWS_ENDPOINT_URL"])
    with between((at.hostname or "", at.port or 0)) as proxy:
        proxy.arm(Fault("events:PutEvents", "partial"))
        event = batch(message_of(job_id), NEWER)
        report = service.invoke(NOTIFY, event, AWS_ENDPOINT_URL=proxy.url)
    assert report.payload == {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in event["Records"]]}
    event_line, unread = failures(report)
    assert (event_line["extraction_id"], event_line["exception_name"]) == (job_id, "UnavailableError")
    assert "EventBridge did not take the event" in event_line["exception"]
    assert "extraction_id" not in unread
    assert "a version that this worker does not know" in unread["exception"]


@pytest.mark.parametrize("handler", [EXTRACT, DEAD_LETTER, NOTIFY])
def test_a_message_that_cannot_be_read_is_one_line_in_the_log_of_its_consumer(service: Rig, handler: str) -> None:
    """R-AWS-10: it comes back for a newer version to read; until then, only this line says that it is there."""
    report = service.invoke(handler, batch(NEWER))
    assert len(report.payload["batchItemFailures"]) == 1
    [line] = failures(report)
    assert "extraction_id" not in line
    assert line["message"] == "a message could not be handled; it comes back"
