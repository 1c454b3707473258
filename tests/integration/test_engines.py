"""Every engine that this machine can serve, and several of them in one job, through the whole service."""

import io
import json
from typing import Any

import pymongo
import pytest

from fetcher.core.audit import verify_manifest
from fetcher.core.faults import Point
from infra.local.demo import TYPES
from infra.local.places import ROOT
from tests.rig import EXTRACT, VERIFY_KEY, Rig, until, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def registered(service: Rig, stack: Stack) -> Rig:
    """The databases of the stack, under the names that the examples use."""
    for name, at in stack["databases"].items():
        answer = service.register(
            name,
            type=TYPES[at["kind"]],
            host=at["host"],
            port=at["port"],
            databaseName=at["database"],
            userName=at["user"],
            password=at["password"],
        )
        assert answer.status in {201, 409}, answer
    return service


def finished(service: Rig, example: str) -> tuple[Any, Any]:
    """Run a request of `examples/`; return the job and its result."""
    answer = service.http("POST", "/v1/fetcher", (ROOT / "examples" / f"{example}.json").read_text())
    assert answer.status == 202, answer
    job = service.ended(answer.json()["jobId"])
    assert job["status"] == "completed", job
    body = service.result(job)
    manifest = service.http("GET", f"/v1/fetcher/{job['id']}/manifest").text.encode()
    assert verify_manifest(manifest, io.BytesIO(body), VERIFY_KEY) == []
    return job, json.loads(body)


def test_the_example_for_postgresql(registered: Rig) -> None:
    """R-000-24, R-000-26: two schemas, a range of dates and a list."""
    _, result = finished(registered, "postgresql")
    invoices = result["my_postgres"]["accounting.invoices"]
    assert invoices
    assert {row["status"] for row in invoices} == {"paid", "pending"}
    assert all("2025-01-01" <= row["issued_on"] <= "2025-03-31" for row in invoices)
    assert len(result["my_postgres"]["public.accounts"]) == 5000


def test_the_example_for_mysql(registered: Rig) -> None:
    """R-000-30: the connected database is the namespace; decimals keep their scale, bits are booleans."""
    _, result = finished(registered, "mysql")
    cards = result["my_mariadb"]["cards"]
    assert cards
    assert list(cards[0]) == ["id", "number", "credit_limit", "valid_until", "blocked"]
    assert all(float(row["credit_limit"]) >= 500 and row["credit_limit"][-3] == "." for row in cards)
    assert {row["blocked"] for row in cards} == {True, False}


def test_the_example_for_mongodb(registered: Rig) -> None:
    """R-000-31, B-15, B-16: a dotted field, and filters by the observed types."""
    _, result = finished(registered, "mongodb")
    transactions = result["my_mongo"]["transactions"]
    assert transactions
    assert list(transactions[0]) == ["_id", "amount", "at", "merchant.name"]
    assert all(float(row["amount"]) > 100 and row["at"].endswith("Z") for row in transactions)


def test_three_engines_in_one_job(registered: Rig) -> None:
    """R-000-23: side by side into one signed result, in sorted order."""
    job, result = finished(registered, "three-engines")
    assert {name: {table: len(rows) for table, rows in tables.items()} for name, tables in result.items()} == {
        "my_mariadb": {"cards": 3000},
        "my_mongo": {"transactions": 2000},
        "my_postgres": {"public.accounts": 5000},
    }
    assert list(result) == sorted(result)
    assert job["rowCount"] == 10_000


def test_a_result_that_another_completes_is_described_as_by_its_reader(registered: Rig, stack: Stack) -> None:
    """R-000-73: what no sample showed is named in the manifest, also when the reader died behind its seal."""
    at = stack["databases"]["my_mongo"]
    with pymongo.MongoClient[dict[str, Any]](
        at["host"], at["port"], username=at["user"], password=at["password"], directConnection=True
    ) as client:
        client[at["database"]]["sealed"].insert_many([{"_id": n, "text": "x" * 200_000} for n in range(50)])
    body = {
        "dataRequest": {"mappedFields": {"my_mongo": {"sealed": ["_id", "text", "absent"]}}},
        "metadata": {"source": "payments", "correlationId": "sealed by another"},
    }
    job_id = str(registered.post(body).json()["jobId"])
    with registered.envelope(EXTRACT, {"FETCHER_FAULT": Point.SEALED}) as envelope:
        report = envelope.invoke(work_event(job_id))
        assert report.outcome == "exited", report.log

    def completed() -> bool:
        registered.sweep()
        registered.work()
        return bool(registered.job(job_id)["status"] == "completed")

    until(completed, "the end")
    [table] = registered.http("GET", f"/v1/fetcher/{job_id}/manifest").json()["datasources"][0]["tables"]
    assert (table["sampled"], table["rows"]) == (["absent"], 50)


def test_the_schema_of_mongodb_is_all_of_its_collections(registered: Rig) -> None:
    """Reference 13.4: Schema_MongoDB: no table's name stands for a scope there."""
    own = registered.connection_id("my_mongo")
    for query in ({}, {"schema": "public"}):
        shown = registered.http("GET", f"/v1/management/connections/{own}/schema", query=query).json()
        assert "transactions" in [table["name"] for table in shown["tables"]]


def test_an_internal_name_that_nobody_set_up_is_unknown(registered: Rig) -> None:
    """B-37: 400 that names it, in a job and in a validation, and no failure of the service."""
    mapped = {"plugin_crm": {"holders": ["document"]}}
    for path, body in (
        ("/v1/fetcher", {"dataRequest": {"mappedFields": mapped}, "metadata": {"source": "payments"}}),
        ("/v1/management/connections/validate-schema", {"mappedFields": mapped}),
    ):
        answer = registered.http("POST", path, body)
        assert (answer.status, answer.json()["code"]) in {(400, "FET-1020"), (400, "FET-1062")}
