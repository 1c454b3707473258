"""The examples of the kinds that have no server of their own here: SQL Server by its driver and wire, Oracle by a fake.

SQL Server's stand-in is a real server to the service: registered, tested and read over the wire by Microsoft's driver.
Oracle's fake takes the place of the driver in this process, so its example is run by the embedded engine alone.
"""

import io
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from fetcher import extract
from fetcher.core.audit import verify_manifest
from fetcher.engines._sqlserver.driver import SETTINGS
from infra.local.places import ROOT
from tests.contract.kinds import Source, oracle, sqlserver
from tests.databases import register_sqlserver
from tests.rig import VERIFY_KEY, rig
from tests.stack import Stack

START = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - a column without a zone
STATUSES = ("completed", "pending", "failed")
TRANSACTIONS = [(at, Decimal(at * 10), STATUSES[at % 3], START + timedelta(hours=6 * at)) for at in range(1, 201)]
PAYMENTS = [(at, f"payment {at}") for at in range(1, 11)]


def made(
    source: Source, types: Sequence[str], table: str, rows: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> None:
    source.create(table, dict(zip(names, types, strict=True)), [names[0]], rows)


@pytest.fixture(scope="module")
def sql_server() -> Iterator[Source]:
    with sqlserver.serving() as source:
        types = ("bigint", "decimal(12,2)", "nvarchar(20)", "datetime2(0)")
        made(source, types, "transactions", TRANSACTIONS, ("id", "amount", "status", "created_at"))
        source.run("CREATE SCHEMA finance")
        made(source, ("bigint", "nvarchar(50)"), "finance.payments", PAYMENTS, ("id", "note"))
        yield source


@pytest.mark.stack
def test_the_example_for_sql_server(stack: Stack, sql_server: Source, tmp_path_factory: pytest.TempPathFactory) -> None:
    """R-000-25, R-000-26, R-000-95: through the whole service, by the real driver; two schemas, one the default."""
    request = (ROOT / "examples" / "sqlserver.json").read_text()
    with rig(stack, tmp_path_factory.mktemp("sqlserver"), **{SETTINGS: os.environ[SETTINGS]}) as service:
        register_sqlserver(service, "my_sqlserver", sql_server)
        job_id = service.http("POST", "/v1/fetcher", request).json()["jobId"]
        job = service.ended(job_id)
        assert job["status"] == "completed", job
        body = service.result(job)
        manifest = service.http("GET", f"/v1/fetcher/{job_id}/manifest").text.encode()
    assert verify_manifest(manifest, io.BytesIO(body), VERIFY_KEY) == []
    found = json.loads(body)["my_sqlserver"]
    assert found["finance.payments"] == [{"id": at, "note": note} for at, note in PAYMENTS]
    assert found["transactions"] == [
        {"id": at, "amount": f"{amount:.2f}", "status": status, "created_at": moment.isoformat()}
        for at, amount, status, moment in TRANSACTIONS
        if status == "completed" and amount >= 1000 and moment < datetime(2026, 2, 1)  # noqa: DTZ001 - as above
    ]


def test_the_example_for_oracle() -> None:
    """R-000-26, R-000-32, R-000-95: the embedded engine over the fake; names in capitals, also when asked for small."""
    request = json.loads((ROOT / "examples" / "oracle.json").read_text())
    with oracle.serving() as source:
        types = ("bigint", "decimal(12,2)", "varchar", "timestamp_s")
        made(source, types, "TRANSACTIONS", TRANSACTIONS, ("ID", "AMOUNT", "STATUS", "CREATED_AT"))
        made(source, ("bigint", "varchar"), "SUBSCRIPTIONS", PAYMENTS, ("ID", "NOTE"))
        sink = io.BytesIO()
        done = extract(request, {"my_oracle": (source.to, source.secret)}, sink)
    found = json.loads(sink.getvalue())["my_oracle"]
    assert done.rows == sum(map(len, found.values()))
    assert found == {
        "contract.subscriptions": [{"ID": at, "NOTE": note} for at, note in PAYMENTS],
        "transactions": [
            {"ID": at, "AMOUNT": f"{amount:.2f}", "STATUS": status, "CREATED_AT": moment.isoformat()}
            for at, amount, status, moment in TRANSACTIONS
            if status != "failed" and amount < 100
        ],
    }
