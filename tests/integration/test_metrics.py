"""What one job leaves in the logs: metrics in the embedded format, and its id on every other line."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.envelope import Report
from tests.rig import Rig

pytestmark = pytest.mark.stack


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


def worked(service: Rig, table: str) -> Report:
    """Post a job and let extract take it."""
    assert service.post(asked(table)).status == 202
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
