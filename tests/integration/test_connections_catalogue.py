"""What the public system's own suites try with connections and no other file here does (`tests/public_suites.py`)."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from infra.local import mariadb
from tests.integration.test_connections_changing import PATH, job, refused, registered
from tests.integration.test_connections_sources import validate
from tests.rig import Rig

pytestmark = pytest.mark.stack

ROUTES = [
    ("GET", "", None),
    ("PATCH", "", {"port": 1}),
    ("DELETE", "", None),
    ("POST", "/test", None),
    ("GET", "/schema", None),
    ("POST", "/assign", None),
]
OTHERS = {"my_mariadb": "MYSQL", "my_mongo": "MONGODB"}


@pytest.fixture(params=OTHERS)
def other(service: Rig, request: pytest.FixtureRequest) -> Iterator[str]:
    """A connection to one of the stack's other servers."""
    if request.param == "my_mariadb" and not mariadb.installed():
        pytest.skip(f"mysql: {mariadb.INSTALL}")
    yield elsewhere(service, request.param)
    # Names are unique, and other tests here use them.
    for item in service.http("GET", PATH, query={"type": OTHERS[request.param]}).json()["items"]:
        service.http("DELETE", f"{PATH}/{item['id']}")


def elsewhere(service: Rig, name: str) -> str:
    """Register one of the stack's other servers and return its id."""
    at = service.stack["databases"][name]
    members = {"host": at["host"], "port": at["port"], "databaseName": at["database"], "userName": at["user"]}
    made = service.register(f"at_{name}", type=OTHERS[name], password=at["password"], **members)
    assert made.status == 201, made
    return str(made.json()["id"])


@pytest.mark.parametrize(("method", "suffix", "body"), ROUTES)
def test_an_unknown_connection_is_404_and_what_is_no_id_400(service: Rig, method: str, suffix: str, body: Any) -> None:
    """§13.3-2, §13.3-3, §13.3-13, §13.3-18, §13.3-20, §13.3-23, §13.4-4, §13.4-6; B-27: whatever is asked of it."""
    for text in ("x", "123", f"{uuid4()}0", str(uuid4()).replace("-", "")):
        answer = service.http(method, f"{PATH}/{text}{suffix}", body, x_product_name="payments")
        assert answer.json()["code"] in {"FET-0404", "FET-0405"} or answer.status == 404, answer
        assert answer.status in {400, 404}
    answer = service.http(method, f"{PATH}/{uuid4()}{suffix}", body, x_product_name="payments")
    refused(answer, 404, "FET-1001")


def test_what_is_registered_is_shown_whole(service: Rig) -> None:
    """§13.2-14, §13.3-1: members, metadata, product and times, at once and later."""
    metadata = {"team": "ledger", "tier": 1, "deep": {"of": ["any", None, 1.5]}}
    made = registered(service, "whole", metadata=metadata)
    shown = service.http("GET", f"{PATH}/{made.json()['id']}")
    assert shown.text == made.text
    found = shown.json()
    assert found["metadata"] == metadata
    assert (found["productName"], found["configName"]) == ("payments", "whole")
    assert found["createdAt"] == found["updatedAt"] > "2026"


def test_other_kinds_are_tested_and_described(service: Rig, other: str) -> None:
    """§13.4-1, §13.4-7: for real, and without the server's own tables. Oracle and SQL Server: the contract suite."""
    tested = service.http("POST", f"{PATH}/{other}/test").json()
    assert tested["status"] == "success"
    assert tested["latencyMs"] >= 0
    tables = service.http("GET", f"{PATH}/{other}/schema").json()["tables"]
    assert tables
    names = [table["name"] for table in tables]
    assert names == sorted(names)
    assert all(field["name"] != "*" for table in tables for field in table["fields"])
    assert not [name for name in names if name.startswith(("system.", "mysql.", "information_schema", "sys."))]


def test_an_unreachable_host_is_a_failure_with_its_reason(service: Rig) -> None:
    """§13.4-2: 200 that says so; the public system answers 500."""
    one = registered(service, "unreachable", port=1).json()["id"]
    answer = service.http("POST", f"{PATH}/{one}/test")
    assert (answer.status, answer.json()["status"], answer.json()["reason"]) == (200, "failure", "unavailable")


def test_wrong_credentials_refuse_a_job_at_submit(service: Rig) -> None:
    """§13.10-6, B-22, R-000-65: nothing is made, and the answer names the connection, not the password."""
    registered(service, "wrong_at_submit", password="canary-not-it")
    answer = job(service, "wrong_at_submit", ["id"])
    refused(answer, 400, "FET-1040")
    assert "wrong_at_submit" in answer.text
    assert "canary" not in answer.text


def test_a_selection_over_two_kinds_passes(service: Rig) -> None:
    """§13.7-8."""
    if not mariadb.installed():
        pytest.skip(f"mysql: {mariadb.INSTALL}")
    one = elsewhere(service, "my_mariadb")
    tables = service.http("GET", f"{PATH}/{one}/schema").json()["tables"]
    answer = validate(service, {"my_postgres": {"accounts": ["id"]}, "at_my_mariadb": {tables[0]["name"]: ["*"]}})
    assert (answer.status, answer.json()["status"]) == (200, "success"), json.dumps(answer.json())
    assert service.http("DELETE", f"{PATH}/{one}").status == 204
