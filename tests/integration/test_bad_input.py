"""What bad input gets: the exact status, code and pointer, and nothing left behind."""

import copy
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.faultproxy import faulty
from tests.rig import SUBMIT, Answer, Rig, until

pytestmark = pytest.mark.stack

GOOD: dict[str, Any] = {
    "dataRequest": {"mappedFields": {"my_postgres": {"public.accounts": ["id", "email"]}}},
    "metadata": {"source": "payments"},
}
MAPPED = "/dataRequest/mappedFields"
TABLE = f"{MAPPED}/my_postgres/public.accounts"
FILTERS = "/dataRequest/filters"
TERMINATE = b"X\0\0\0\4"
"""What a client of PostgreSQL says last."""

Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> dict[str, Any]:
    """A good body with one thing wrong."""
    body = copy.deepcopy(GOOD)
    change(body)
    return body


def mapped(body: dict[str, Any]) -> Any:
    """Its datasources."""
    return body["dataRequest"]["mappedFields"]


def filtered(condition: Any, datasource: str = "my_postgres") -> dict[str, Any]:
    """A good body with a filter on one field."""
    return changed(
        lambda body: body["dataRequest"].update(filters={datasource: {"public.accounts": {"email": condition}}})
    )


def fields(*names: str) -> dict[str, Any]:
    """A good body that asks for these fields."""
    return changed(lambda body: mapped(body)["my_postgres"].update({"public.accounts": list(names)}))


TEXTS = [
    pytest.param(None, "FET-0001", "", id="no body"),
    pytest.param("{", "FET-0001", "", id="not JSON"),
    pytest.param("[]", "FET-0001", "", id="no object"),
    pytest.param(
        '{"metadata":{"source":"payments"},"metadata":{"source":"payments"}}',
        "FET-0001",
        "/metadata",
        id="duplicate key",
    ),
    pytest.param(
        json.dumps(changed(lambda b: b["metadata"].update(n=float("nan")))), "FET-0001", "/metadata/n", id="NaN"
    ),
]

BODIES = [
    pytest.param(changed(lambda b: b.update(limits={})), "FET-0400", "/limits", id="unknown member"),
    pytest.param(
        changed(lambda b: b["dataRequest"].update(filter={})), "FET-0400", "/dataRequest/filter", id="a typo inside"
    ),
    pytest.param(changed(lambda b: b.pop("dataRequest")), "FET-0401", "/dataRequest", id="no dataRequest"),
    pytest.param(changed(lambda b: b["dataRequest"].pop("mappedFields")), "FET-0401", MAPPED, id="no mappedFields"),
    pytest.param(changed(lambda b: mapped(b).clear()), "FET-0401", MAPPED, id="empty mappedFields"),
    pytest.param(
        changed(lambda b: mapped(b)["my_postgres"].clear()), "FET-0401", f"{MAPPED}/my_postgres", id="no table"
    ),
    pytest.param(fields(), "FET-0401", TABLE, id="no field"),
    pytest.param(fields("*", "id"), "FET-0401", TABLE, id="wildcard with a field"),
    pytest.param(fields("id", "*"), "FET-0401", TABLE, id="a field with wildcard"),
    pytest.param(fields(*(f"f{n}" for n in range(51))), "FET-0401", TABLE, id="51 fields"),
    pytest.param(
        changed(lambda b: mapped(b)["my_postgres"].update({f"t{n}": ["*"] for n in range(20)})),
        "FET-0401",
        f"{MAPPED}/my_postgres",
        id="21 tables",
    ),
    pytest.param(
        changed(lambda b: mapped(b).update({f"d{n}": {"t": ["*"]} for n in range(10)})),
        "FET-0401",
        MAPPED,
        id="11 datasources",
    ),
    pytest.param(changed(lambda b: b.pop("metadata")), "FET-0402", "/metadata", id="no metadata"),
    pytest.param(changed(lambda b: b["metadata"].clear()), "FET-0402", "/metadata/source", id="no source"),
    pytest.param(
        changed(lambda b: b["metadata"].update(source=7)), "FET-0402", "/metadata/source", id="source no text"
    ),
    pytest.param(
        changed(lambda b: b["metadata"].update(source="  ")), "FET-0402", "/metadata/source", id="source blank"
    ),
    pytest.param(
        changed(lambda b: b["metadata"].update(x="y" * 8192)), "FET-0402", "/metadata", id="metadata over 8 KB"
    ),
    pytest.param(
        filtered({"equals": ["a"]}),
        "FET-2001",
        f"{FILTERS}/my_postgres/public.accounts/email/equals",
        id="unknown operator",
    ),
    pytest.param(
        filtered({"eq": "a"}), "FET-2002", f"{FILTERS}/my_postgres/public.accounts/email/eq", id="scalar for a list"
    ),
    pytest.param(
        filtered({"between": ["a"]}),
        "FET-2002",
        f"{FILTERS}/my_postgres/public.accounts/email/between",
        id="wrong arity",
    ),
    pytest.param(
        filtered({"eq": ["a"]}, "other"), "FET-0401", f"{FILTERS}/other", id="filter on an unknown datasource"
    ),
    pytest.param(
        changed(lambda b: mapped(b).update(nowhere={"t": ["*"]})),
        "FET-1020",
        f"{MAPPED}/nowhere",
        id="unknown connection",
    ),
    pytest.param(
        changed(lambda b: b["metadata"].update(source="sales")),
        "FET-1016",
        f"{MAPPED}/my_postgres",
        id="foreign product",
    ),
]


def left_behind(service: Rig) -> Mapping[str, Any]:
    """Everything that an accepted job would have made."""
    return {
        "items": len([item for item in service.items() if "#AUDIT#" not in item["PK"]["S"]]),
        "objects": service.objects(),
        "messages": service.waiting("FETCHER_WORK_QUEUE_URL"),
    }


def refused(service: Rig, answer: Answer, status: int, code: str, pointer: str | None) -> None:
    """Check one problem, whole."""
    problem = answer.json()
    assert answer.status == status == problem["status"], answer
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem["code"] == code, answer
    assert answer.headers["X-Request-Id"] == problem["requestId"] == "rig-request"
    assert {"type", "title", "detail", "instance"} <= problem.keys()
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]], answer
    assert left_behind(service) == {"items": 0, "objects": [], "messages": 0}


@pytest.mark.parametrize(("text", "code", "pointer"), TEXTS)
def test_a_body_that_is_no_strict_json_is_refused(service: Rig, text: str | None, code: str, pointer: str) -> None:
    """R-000-2, R-000-11."""
    answer = service.http("POST", "/v1/fetcher", text)
    refused(service, answer, 400, code, pointer)


@pytest.mark.parametrize(("body", "code", "pointer"), BODIES)
def test_a_body_that_breaks_a_rule_is_refused(service: Rig, body: Any, code: str, pointer: str) -> None:
    """§13.10-1, §13.10-3, §13.10-4, §13.10-5, §13.10-7, §13.10-8, §13.10-9;
    R-000-2, 4, 5, 6, 10, 15..17, 35..37, 64, 84..87; B-08, B-21, B-26.
    """
    refused(service, service.post(body), 400, code, pointer)


def test_a_body_over_the_limit_is_refused(service: Rig) -> None:
    """R-000-11: 2 MiB and a byte."""
    padding = " " * (2 * 1024 * 1024 + 1 - len(json.dumps(GOOD)))
    refused(service, service.http("POST", "/v1/fetcher", json.dumps(GOOD) + padding), 413, "FET-2003", None)


def test_a_body_of_another_media_type_is_refused(service: Rig) -> None:
    """One shape for every error, the router's own included."""
    answer = service.http("POST", "/v1/fetcher", json.dumps(GOOD), content_type="text/plain")
    refused(service, answer, 415, "FET-2004", None)


@pytest.mark.parametrize("body", ["//57", "not base64!"])
def test_a_body_that_is_no_text_is_refused(service: Rig, body: str) -> None:
    """R-000-11: the gateway may hand a body over as base64."""
    event = {
        "version": "2.0",
        "rawPath": "/v1/fetcher",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": "POST", "path": "/v1/fetcher"}, "requestId": "rig-request"},
        "body": body,
        "isBase64Encoded": True,
    }
    answer = service.invoke(SUBMIT, event).payload
    refused(service, Answer(answer["statusCode"], answer["headers"], answer["body"]), 400, "FET-0001", None)


def test_one_unreachable_connection_refuses_all_and_the_others_are_closed(service: Rig) -> None:
    """R-000-65, R-000-67: it is named; the two others were talked to, and were told that it is over.

    One of them comes before and one behind it in order.
    """
    at = service.stack["databases"]["my_postgres"]
    with faulty(at["host"], at["port"]) as before, faulty(at["host"], at["port"]) as behind:
        ports = {"a_source": before.port, "closed_port": 1, "my_other": behind.port}
        assert {service.register(name, port=port).status for name, port in ports.items()} == {201}
        for proxy in (before, behind):
            assert (proxy.passed, bytes(proxy.heard)) == (0, b""), "a source was asked before there was a job"
        answer = service.post(changed(lambda b: mapped(b).update({name: {"t": ["*"]} for name in ports})))
        for proxy in (before, behind):
            until(partial(proxy.heard.endswith, TERMINATE), "the end of a session")
            assert proxy.passed > 0
    refused(service, answer, 400, "FET-1040", f"{MAPPED}/closed_port")
    assert service.waiting("FETCHER_WORK_QUEUE_URL") == 0
    assert "password" not in answer.text
    assert at["password"] not in answer.text


def test_a_connection_without_a_product_header_is_refused(service: Rig) -> None:
    """§13.1-2, §13.1-7. R-000-7: every connection made through the API belongs to a product."""
    for header in ("", "   ", "a b", "x" * 101):
        answer = service.register("no_product", product=header)
        refused(service, answer, 400, "FET-0403", "/headers/X-Product-Name")


@pytest.mark.parametrize(
    ("member", "value", "code"),
    [
        ("configName", "ab", "FET-0001"),
        ("configName", "a b c", "FET-0001"),
        ("configName", "x" * 101, "FET-0001"),
        ("type", "DBASE", "FET-0001"),
        ("host", "", "FET-0001"),
        ("host", "http://db", "FET-0001"),
        ("host", "db/../x", "FET-0001"),
        ("port", 0, "FET-0001"),
        ("port", 65_536, "FET-0001"),
        ("port", "5432", "FET-0001"),
        ("databaseName", "a\x00b", "FET-0001"),
        ("userName", "", "FET-0001"),
        ("password", None, "FET-0001"),
        ("surprise", 1, "FET-0400"),
    ],
)
def test_a_connection_that_breaks_a_rule_is_refused(service: Rig, member: str, value: Any, code: str) -> None:
    """§13.2-2, §13.2-4, §13.2-6, §13.2-8, §13.2-13. R-000-96."""
    answer = service.register("broken", **{member: value})
    refused(service, answer, 400, code, f"/{member}")


def test_a_tls_mode_outside_the_list_is_refused(service: Rig) -> None:
    """R-000-100: matched exactly."""
    answer = service.register("broken", ssl={"mode": "REQUIRE"})
    refused(service, answer, 400, "FET-0413", "/ssl/mode")


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "0.0.0.0", "224.0.0.1", "::ffff:10.0.0.1"])  # noqa: S104 - to refuse
def test_a_forbidden_host_is_refused_without_detail(service: Rig, host: str) -> None:
    """R-000-99: the answer does not say why."""
    answer = service.register("broken", host=host)
    refused(service, answer, 400, "FET-0414", None)
    assert host not in answer.json()["detail"]


def test_a_name_in_use_is_a_conflict(service: Rig) -> None:
    """§13.1-4. Design §4, item 1n."""
    refused(service, service.register(), 409, "FET-1002", None)


@pytest.mark.parametrize("path", ["/v1/fetcher/{}", "/v1/fetcher/{}/result", "/v1/fetcher/{}/manifest"])
def test_an_id_that_is_no_uuid_or_unknown_is_refused(service: Rig, path: str) -> None:
    """§13.8-3, §13.8-5. R-000-77."""
    for text in ("x", "123", f"{uuid4()}0", str(uuid4()).replace("-", "")):
        refused(service, service.http("GET", path.format(text)), 400, "FET-0404", "/path/id")
    refused(service, service.http("GET", path.format(uuid4())), 404, "FET-1001", None)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": "0"}, "FET-0405"),
        ({"limit": "x"}, "FET-0405"),
        ({"limit": "101"}, "FET-0406"),
        ({"cursor": "x"}, "FET-0405"),
        ({"cursor": "WzIsIngiXQ=="}, "FET-0405"),
        ({"status": "done"}, "FET-0405"),
    ],
)
def test_a_list_parameter_that_breaks_a_rule_is_refused(service: Rig, query: dict[str, str], code: str) -> None:
    """B-30: the text names the parameter. Design §2: lists page by an opaque cursor."""
    answer = service.http("GET", "/v1/fetcher", query=query)
    refused(service, answer, 400, code, f"/query/{next(iter(query))}")
    assert answer.json()["detail"].startswith(f"{next(iter(query))}: ")
    assert "%" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/version"),
        ("GET", "/readyz"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/fetcher"),
        ("GET", "/v1/fetcher/{}"),
        ("POST", "/v1/fetcher/{}/cancel"),
        ("DELETE", "/v1/fetcher/{}/result"),
        ("GET", "/v1/management/connections"),
        ("GET", "/v1/management/connections/{}/schema"),
    ],
)
def test_an_unknown_query_parameter_is_refused_by_its_name(service: Rig, method: str, path: str) -> None:
    """Design §2, strict bodies: a typo such as `statsu` must not list everything; headers stay free."""
    answer = service.http(method, path.format(uuid4()), query={"statsu": "failed"}, x_anything="goes")
    refused(service, answer, 400, "FET-0405", "/query/statsu")
    assert "'statsu'" in answer.json()["detail"]


def test_every_unknown_query_parameter_is_named_beside_known_ones(service: Rig) -> None:
    """Design §2: all problems in one answer."""
    answer = service.http("GET", "/v1/fetcher", query={"limit": "5", "Limit": "5", "a/b": ""})
    assert [found["pointer"] for found in answer.json()["errors"]] == ["/query/Limit", "/query/a~1b"]
    assert "cursor, limit, source, status" in answer.json()["detail"]
    answer = service.http("POST", "/v1/fetcher", GOOD, query={"dryRun": "1"})
    refused(service, answer, 400, "FET-0405", "/query/dryRun")


def test_an_unknown_route_is_a_problem_too(service: Rig) -> None:
    """Design §2: one shape, the router's errors included."""
    refused(service, service.http("GET", "/v1/nothing"), 404, "FET-0005", None)
    refused(service, service.http("PUT", "/v1/fetcher"), 404, "FET-0005", None)


def test_a_request_id_comes_back_and_a_broken_one_is_replaced(service: Rig) -> None:
    """X-Request-Id in and out."""
    assert service.http("GET", "/health", x_request_id="abc-1").headers["X-Request-Id"] == "abc-1"
    assert service.http("GET", "/health", x_request_id="a\nb").headers["X-Request-Id"] == "rig-request"
