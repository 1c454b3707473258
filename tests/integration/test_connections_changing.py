"""Connections change in versions: merge patch, assignment, names and the trail that they leave."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from fetcher.aws.dynamo import unmarshal
from tests.rig import Answer, Rig

pytestmark = pytest.mark.stack

PATH = "/v1/management/connections"


def registered(service: Rig, name: str, **changed: Any) -> Answer:
    """Register a connection and return the answer."""
    answer = service.register(name, **changed)
    assert answer.status == 201, answer
    return answer


def patch(service: Rig, connection: str, change: Any, if_match: str = "") -> Answer:
    """Patch a connection."""
    return service.http("PATCH", f"{PATH}/{connection}", change, if_match=if_match)


def refused(answer: Answer, status: int, code: str, pointer: str | None = None) -> None:
    """Check a problem."""
    assert (answer.status, answer.json()["code"]) == (status, code), answer
    if pointer is not None:
        assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer


def job(service: Rig, name: str, fields: list[str], table: str = "public.accounts") -> Answer:
    """Post a job on one table."""
    body = {"dataRequest": {"mappedFields": {name: {table: fields}}}, "metadata": {"source": "payments"}}
    return service.post(body)


def trail(service: Rig, connection: str) -> list[dict[str, Any]]:
    """The audit items of a connection, oldest first."""
    items = [unmarshal(item) for item in service.items() if "#AUDIT#" in item["PK"]["S"]]
    return sorted((item for item in items if item["connectionId"] == connection), key=lambda item: str(item["SK"]))


def unassign(service: Rig, connection: str) -> None:
    """Make a connection what one of before products looks like; the API makes no such thing."""
    service.dynamodb.update_item(
        TableName=service.env["FETCHER_CONNECTIONS_TABLE"],
        Key={"PK": {"S": f"T#default#CONNECTION#{connection}"}, "SK": {"S": "META"}},
        UpdateExpression="REMOVE productName",
    )


def test_a_patch_changes_what_it_names_and_nothing_else(service: Rig) -> None:
    """§13.3-11, §13.3-12, §13.3-16. One at a time."""
    created = registered(service, "patched", metadata={"team": "a", "tier": 1})
    before = created.json()
    assert created.headers["ETag"] == '"1"'
    answer = patch(service, before["id"], {"configName": "patched_2", "port": 1, "metadata": {"team": "b"}})
    assert answer.status == 200, answer
    assert answer.headers["ETag"] == '"2"'
    after = answer.json()
    assert after.pop("updatedAt") > before.pop("updatedAt")
    assert after == {**before, "configName": "patched_2", "port": 1, "metadata": {"team": "b", "tier": 1}}
    read = service.http("GET", f"{PATH}/{before['id']}")
    assert read.headers["ETag"] == '"2"'
    assert {**read.json(), "updatedAt": ""} == {**after, "updatedAt": ""}
    assert service.http("GET", f"{PATH}/{before['id']}", if_none_match='"2"').status == 304
    assert job(service, "patched", ["id"]).json()["code"] == "FET-1020"


def test_null_clears_what_is_optional_and_is_refused_elsewhere(service: Rig) -> None:
    """RFC 7396; the public system cannot clear a member."""
    one = registered(
        service, "cleared", schema="accounting", metadata={"a": "b", "c": "d"}, ssl={"mode": "prefer"}
    ).json()
    answer = patch(service, one["id"], {"schema": None, "ssl": None, "metadata": {"a": None}})
    assert answer.status == 200, answer
    assert {"schema", "ssl"} & answer.json().keys() == set()
    assert answer.json()["metadata"] == {"c": "d"}
    assert "metadata" not in patch(service, one["id"], {"metadata": None}).json()
    refused(patch(service, one["id"], {"host": None}), 400, "FET-0402", "/host")
    refused(patch(service, one["id"], {"password": None}), 400, "FET-0402", "/password")
    refused(patch(service, one["id"], {"ssl": {"ca": "x"}}), 400, "FET-0402", "/ssl/mode")


def test_the_number_of_readers_is_changed_and_cleared(service: Rig) -> None:
    """Design §4, item 3: 5 unless it is set, and 5 again once it is cleared, one way or the other."""
    one = registered(service, "narrowed").json()
    assert one["limits"] == {"maxWorkers": 5}
    for change, shown in (
        ({"limits": {"maxWorkers": 50}}, 50),
        ({"port": 2}, 50),
        ({"limits": {"maxWorkers": None}}, 5),
        ({"limits": {"maxWorkers": 1}}, 1),
        ({"limits": None}, 5),
    ):
        assert patch(service, one["id"], change).json()["limits"] == {"maxWorkers": shown}
        assert service.http("GET", f"{PATH}/{one['id']}").json()["limits"] == {"maxWorkers": shown}


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"limits": {"maxWorkers": 0}}, "FET-0001", "/limits/maxWorkers"),
        ({"limits": {"maxWorkers": 51}}, "FET-0001", "/limits/maxWorkers"),
        ({"limits": {"maxWorkers": "2"}}, "FET-0001", "/limits/maxWorkers"),
        ({"limits": {"maxReaders": 2}}, "FET-0400", "/limits/maxReaders"),
        ({}, "FET-0001", ""),
        ([], "FET-0001", ""),
        ("x", "FET-0001", None),
        ({"host": ""}, "FET-0001", "/host"),
        ({"port": 0}, "FET-0001", "/port"),
        ({"port": 65_536}, "FET-0001", "/port"),
        ({"port": "1"}, "FET-0001", "/port"),
        ({"databaseName": ""}, "FET-0001", "/databaseName"),
        ({"userName": "a\x00b"}, "FET-0001", "/userName"),
        ({"password": ""}, "FET-0001", "/password"),
        ({"password": "x" * 65_536}, "FET-0001", "/password"),
        ({"configName": "a b c"}, "FET-0001", "/configName"),
        ({"configName": "x" * 65_536}, "FET-0001", "/configName"),
        ({"type": "DBASE"}, "FET-0001", "/type"),
        ({"ssl": {"mode": "TRUE"}}, "FET-0413", "/ssl/mode"),
        ({"ssl": {"mode": "require", "key": 7}}, "FET-0001", "/ssl/key"),
        ({"metadata": {"x": "y" * 65_536}}, "FET-0001", "/metadata"),
        ({"host": "10.0.0.1"}, "FET-0414", None),
        ({"surprise": 1}, "FET-0400", "/surprise"),
        ({"productName": "sales"}, "FET-0400", "/productName"),
        ({"id": str(uuid4())}, "FET-0400", "/id"),
    ],
)
def test_a_patch_that_breaks_a_rule_changes_nothing(service: Rig, change: Any, code: str, pointer: str | None) -> None:
    """§13.3-14, §13.3-15. The stored connection is as it was."""
    items = service.http("GET", PATH, query={"limit": "100"}).json()["items"]
    own = next(item for item in items if item["configName"] == "my_postgres")
    refused(patch(service, own["id"], change), 400, code, pointer)
    assert service.http("GET", f"{PATH}/{own['id']}").json() == own


def test_a_patch_on_an_old_version_is_refused(service: Rig) -> None:
    """Design §2: `If-Match`."""
    one = registered(service, "guarded").json()["id"]
    assert patch(service, one, {"port": 1}, if_match='"1"').status == 200
    refused(patch(service, one, {"port": 2}, if_match='"1"'), 412, "FET-2009")
    refused(patch(service, one, {"port": 2}, if_match='W/"2"'), 412, "FET-2009")
    assert patch(service, one, {"port": 2}, if_match='"1", "2"').status == 200
    assert patch(service, one, {"port": 3}, if_match="*").status == 200
    refused(service.http("DELETE", f"{PATH}/{one}", if_match='"1"'), 412, "FET-2009")
    assert service.http("DELETE", f"{PATH}/{one}", if_match='"4"').status == 204
    refused(patch(service, one, {"port": 1}), 404, "FET-1001")
    refused(patch(service, str(uuid4()), {"port": 1}), 404, "FET-1001")
    refused(patch(service, "x", {"port": 1}), 400, "FET-0404", "/path/id")


def test_of_many_patches_of_one_version_one_wins(service: Rig) -> None:
    """B-66: the check and the write are one."""
    one = registered(service, "contested").json()["id"]
    ports = range(1, 5)
    with ThreadPoolExecutor(4) as threads, service.envelope("submit.app.handler") as other:
        assert other.invoke(_event(one, 9, '"0"')).payload["statusCode"] == 412
        theirs = threads.submit(lambda: [other.invoke(_event(one, port, '"1"')) for port in ports])
        mine = [patch(service, one, {"port": port}, if_match='"1"').status for port in ports]
        statuses = mine + [report.payload["statusCode"] for report in theirs.result()]
    assert sorted(statuses) == [200, *[412] * 7]
    assert service.http("GET", f"{PATH}/{one}").headers["ETag"] == '"2"'


def _event(connection: str, port: int, if_match: str) -> dict[str, Any]:
    path = f"{PATH}/{connection}"
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/merge-patch+json", "if-match": if_match},
        "requestContext": {
            "http": {"method": "PATCH", "path": path, "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "rig-request",
        },
        "body": json.dumps({"port": port}),
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize(
    ("media", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("application/merge-patch+json", 200),
        ("Application/JSON", 200),
        ("multipart/form-data", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
    ],
)
def test_a_patch_is_json_whatever_it_is_called(service: Rig, media: str, status: int) -> None:
    """RFC 7396 has a media type of its own; a form is no JSON, and a broken one no 500."""
    one = registered(service, f"media_{uuid4().hex[:8]}").json()["id"]
    assert service.http("PATCH", f"{PATH}/{one}", {"port": 1}, content_type=media).status == status


def test_a_name_belongs_to_one_connection_whatever_happens_at_once(service: Rig) -> None:
    """B-32: names stay unique through create and rename; an old name is free."""
    first, second = registered(service, "name_a").json()["id"], registered(service, "name_b").json()["id"]
    refused(patch(service, second, {"configName": "name_a"}), 409, "FET-1002")
    assert service.http("GET", f"{PATH}/{second}").headers["ETag"] == '"1"'
    assert patch(service, first, {"configName": "name_c"}).status == 200
    assert patch(service, second, {"configName": "name_a"}).status == 200
    assert registered(service, "name_b").status == 201
    assert patch(service, second, {"configName": "name_a", "port": 7}).status == 200


def test_a_new_password_is_used_and_the_old_one_is_not(service: Rig) -> None:
    """Password and TLS are sealed anew; the next version has no cached schema and no checkpoint of the last."""
    password = service.stack["databases"]["my_postgres"]["password"]
    one = registered(service, "repassworded", password="wrong at first").json()["id"]
    assert service.http("POST", f"{PATH}/{one}/test").json()["status"] == "failure"
    answer = patch(service, one, {"password": password})
    assert answer.status == 200
    assert password not in answer.text
    assert service.http("POST", f"{PATH}/{one}/test").json()["status"] == "success"
    assert patch(service, one, {"port": 1}).status == 200
    assert service.http("POST", f"{PATH}/{one}/test").json()["reason"] == "unavailable"


def test_a_connection_in_use_is_not_changed(service: Rig) -> None:
    """R-000-97."""
    one = registered(service, "busy").json()["id"]
    posted = job(service, "busy", ["id"])
    assert posted.status == 202, posted
    refused(patch(service, one, {"port": 1}), 409, "FET-1021")
    refused(service.http("DELETE", f"{PATH}/{one}"), 409, "FET-1021")
    assert service.ended(posted.json()["jobId"])["status"] == "completed"
    assert patch(service, one, {"metadata": {"now": "free"}}).status == 200


def test_an_unassigned_connection_is_listed_and_assigned_once(service: Rig) -> None:
    """§13.3-21, §13.3-22, §13.3-24, §13.3-25. Once."""
    one = registered(service, "orphan").json()["id"]
    assert service.http("GET", f"{PATH}/unassigned").json()["items"] == []
    refused(service.http("POST", f"{PATH}/{one}/assign", x_product_name="sales"), 409, "FET-1015")
    unassign(service, one)
    listed = service.http("GET", f"{PATH}/unassigned").json()
    assert ([item["id"] for item in listed["items"]], listed["limit"]) == ([one], 10)
    assert job(service, "orphan", ["id"]).json()["code"] == "FET-1014"
    for bad in ("", "   ", "a b", "x" * 101):
        refused(
            service.http("POST", f"{PATH}/{one}/assign", x_product_name=bad), 400, "FET-0403", "/headers/X-Product-Name"
        )
    assigned = service.http("POST", f"{PATH}/{one}/assign", x_product_name=" Payments ")
    assert (assigned.status, assigned.json()["productName"], assigned.headers["ETag"]) == (200, "payments", '"2"')
    refused(service.http("POST", f"{PATH}/{one}/assign", x_product_name="payments"), 409, "FET-1015")
    refused(service.http("POST", f"{PATH}/{uuid4()}/assign", x_product_name="payments"), 404, "FET-1001")
    assert service.http("GET", f"{PATH}/unassigned").json()["items"] == []


def test_every_change_is_in_the_trail_and_no_refused_one_is(service: Rig) -> None:
    """Design §4, item 23: who, what and digests, without secrets."""
    secret = f"canary-{uuid4()}"
    one = registered(service, "audited", password=secret).json()["id"]
    assert patch(service, one, {"password": secret + "2"}).status == 200
    refused(patch(service, one, {"port": 1}, if_match='"1"'), 412, "FET-2009")
    unassign(service, one)
    assert service.http("POST", f"{PATH}/{one}/assign", x_product_name="payments").status == 200
    assert service.http("DELETE", f"{PATH}/{one}").status == 204
    entries = trail(service, one)
    assert [entry["what"].removeprefix("connection.") for entry in entries] == ["create", "patch", "assign", "delete"]
    assert {entry["who"] for entry in entries} == {"none:nobody"}
    created, patched, assigned, deleted = entries
    assert "before" not in created
    assert created["after"] == patched["before"] != patched["after"]
    assert assigned["after"] == deleted["before"]
    assert "after" not in deleted
    assert secret not in json.dumps(entries)
