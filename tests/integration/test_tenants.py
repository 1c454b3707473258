"""Two tenants and two products: whatever one has, the others get 404, and lists do not show it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from submit.scopes import PUBLIC, SCOPES, needed
from tests.rig import SUBMIT, Answer, Rig, rig
from tests.stack import Stack

pytestmark = pytest.mark.stack

CONNECTIONS = "/v1/management/connections"
JOBS = "/v1/fetcher"


@dataclass(frozen=True, slots=True)
class Token:
    """The claims that the gateway has verified."""

    tenant: str = "one"
    products: str | None = None
    scope: str = " ".join(SCOPES)

    def claims(self) -> dict[str, str]:
        """Render them as an HTTP API hands them over."""
        products = {} if self.products is None else {"products": self.products}
        return {"sub": "somebody", "tenant": self.tenant, "scope": self.scope, **products}


OWNER = Token(products="payments")
OPERATOR = Token()
FOREIGNERS = [
    pytest.param(Token(tenant="two"), id="another tenant"),
    pytest.param(Token(tenant="two", products="payments"), id="another tenant's same product"),
    pytest.param(Token(products="sales"), id="another product"),
    pytest.param(Token(products=""), id="no product"),
]


@pytest.fixture(scope="module")
def closed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service behind tokens."""
    with rig(stack, tmp_path_factory.mktemp("tenants"), FETCHER_AUTHORIZER="jwt") as made:
        yield made


def ask(
    service: Rig,
    claims: Mapping[str, str] | None,
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    **headers: str,
) -> Answer:
    """Ask as the gateway does for a token; None is a request that it lets through without one."""
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}},
        "requestContext": {
            "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "rig-request",
        },
        "isBase64Encoded": False,
    }
    if claims is not None:
        event["requestContext"]["authorizer"] = {"jwt": {"claims": dict(claims), "scopes": None}}
    if query:
        event["queryStringParameters"] = dict(query)
    if body is not None:
        event["body"] = json.dumps(body)
    report = service.invoke(SUBMIT, event)
    assert report.outcome == "response", report
    return Answer(report.payload["statusCode"], report.payload["headers"], report.payload.get("body") or "")


def register(service: Rig, token: Token, name: str, product: str) -> Answer:
    """Register the stack's PostgreSQL for a tenant."""
    at = service.stack["databases"]["my_postgres"]
    body = {
        "configName": name,
        "type": "POSTGRESQL",
        "host": at["host"],
        "port": at["port"],
        "databaseName": at["database"],
        "userName": at["user"],
        "password": at["password"],
    }
    return ask(service, token.claims(), "POST", CONNECTIONS, body, x_product_name=product)


def body(name: str, product: str = "payments") -> dict[str, Any]:
    """A job on one table."""
    return {"dataRequest": {"mappedFields": {name: {"accounts": ["id"]}}}, "metadata": {"source": product}}


@dataclass(frozen=True, slots=True)
class Owned:
    """What the owner has."""

    connection: str
    job: str
    cursors: tuple[str, str]


@pytest.fixture(scope="module")
def owned(closed: Rig) -> Owned:
    """A connection and a finished job of tenant `one`, product `payments`, and list cursors of them."""
    connection = register(closed, OWNER, "canary_source", "payments").json()["id"]
    register(closed, OWNER, "canary_other", "payments")
    jobs = []
    for name in ("canary_source", "canary_other"):
        posted = ask(closed, OWNER.claims(), "POST", JOBS, body(name))
        assert posted.status == 202, posted
        closed.work()
        jobs.append(posted.json()["jobId"])
    assert ask(closed, OWNER.claims(), "GET", f"{JOBS}/{jobs[0]}").json()["status"] == "completed"
    cursors = [
        ask(closed, OWNER.claims(), "GET", path, query={"limit": "1"}).json()["next"] for path in (CONNECTIONS, JOBS)
    ]
    return Owned(connection, jobs[0], (cursors[0], cursors[1]))


def described(service: Rig) -> list[tuple[str, str]]:
    """Every method and path of the API, as it describes itself."""
    paths = ask(service, None, "GET", "/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("foreigner", FOREIGNERS)
def test_every_route_with_an_id_answers_404_to_others(closed: Rig, owned: Owned, foreigner: Token) -> None:
    """B-27: every route that the API describes, so that a new one is tried too."""
    before = ask(closed, OWNER.claims(), "GET", f"{CONNECTIONS}/{owned.connection}").json()
    product = foreigner.products or "payments"
    tried = 0
    for method, template in described(closed):
        path = template.format(connection_id=owned.connection, job_id=owned.job)
        if path == template:
            continue
        change = {"port": 1} if method == "PATCH" else None
        answer = ask(closed, foreigner.claims(), method, path, change, x_product_name=product)
        assert (answer.status, answer.json()["code"]) == (404, "FET-1001"), (method, path, answer)
        assert "canary" not in answer.text
        tried += 1
    assert tried >= 11
    assert ask(closed, OWNER.claims(), "GET", f"{CONNECTIONS}/{owned.connection}").json() == before
    assert ask(closed, OWNER.claims(), "GET", f"{JOBS}/{owned.job}/result").status == 303


@pytest.mark.parametrize("foreigner", FOREIGNERS)
def test_lists_and_cursors_show_nothing_of_others(closed: Rig, owned: Owned, foreigner: Token) -> None:
    """Also with a cursor of the owner's, a filter by the owner's product, and the list of what nobody owns."""
    asked: dict[str, tuple[dict[str, str], ...]] = {
        CONNECTIONS: ({}, {"cursor": owned.cursors[0]}, {"type": "postgresql"}),
        JOBS: ({}, {"cursor": owned.cursors[1]}, {"source": "payments"}),
        f"{CONNECTIONS}/unassigned": ({},),
    }
    for path, queries in asked.items():
        for query in queries:
            listed = ask(closed, foreigner.claims(), "GET", path, query=query)
            assert (listed.status, listed.json()["items"]) == (200, []), listed
    listed = ask(closed, foreigner.claims(), "GET", CONNECTIONS, x_product_name="payments")
    assert listed.json()["items"] == []


@pytest.mark.parametrize("foreigner", FOREIGNERS)
def test_a_name_of_others_is_no_name(closed: Rig, owned: Owned, foreigner: Token) -> None:
    """In a job, in a validation, and in a job that somebody else has just posted."""
    product = foreigner.products or "sales"
    posted = ask(closed, foreigner.claims(), "POST", JOBS, body("canary_source", product))
    expected = (400, "FET-1020") if foreigner.products != "" else (403, "FET-2013")
    assert (posted.status, posted.json()["code"]) == expected, posted
    same = ask(closed, foreigner.claims(), "POST", JOBS, body("canary_source"))
    assert same.status in {400, 403}
    assert owned.job not in same.text
    selection = {"mappedFields": {"canary_source": {"accounts": ["nope"]}}}
    checked = ask(closed, foreigner.claims(), "POST", f"{CONNECTIONS}/validate-schema", selection)
    assert (checked.status, checked.json()["code"]) == (400, "FET-1062")


def test_a_tenant_has_names_and_jobs_of_its_own(closed: Rig, owned: Owned) -> None:
    """The same name and the same body in another tenant are another connection and another job."""
    other = Token(tenant="three", products="payments")
    made = register(closed, other, "canary_source", "payments")
    assert made.status == 201
    posted = ask(closed, other.claims(), "POST", JOBS, body("canary_source"))
    assert posted.status == 202
    assert posted.json()["jobId"] != owned.job
    closed.work()
    job = ask(closed, other.claims(), "GET", f"{JOBS}/{posted.json()['jobId']}").json()
    mine = ask(closed, OWNER.claims(), "GET", f"{JOBS}/{owned.job}").json()
    assert job["status"] == "completed"
    assert job["resultSha256"] == mine["resultSha256"]
    assert job["resultHmac"] != mine["resultHmac"]
    assert [item["id"] for item in ask(closed, other.claims(), "GET", JOBS).json()["items"]] == [job["id"]]
    connection = made.json()["id"]
    assert ask(closed, other.claims(), "DELETE", f"{CONNECTIONS}/{connection}").status == 204
    assert ask(closed, OWNER.claims(), "GET", f"{CONNECTIONS}/{owned.connection}").status == 200


def test_a_token_of_a_product_makes_things_of_that_product_alone(closed: Rig) -> None:
    """Create and post are refused for a product that the token is not for; what has no product it does not see."""
    made = register(closed, OWNER, "not_ours", "sales")
    assert (made.status, made.json()["code"]) == (403, "FET-2013")
    posted = ask(closed, OWNER.claims(), "POST", JOBS, body("canary_source", "sales"))
    assert (posted.status, posted.json()["code"]) == (403, "FET-2013")


def test_a_change_is_recorded_under_its_tenant_and_its_subject(closed: Rig, owned: Owned) -> None:
    """Design §4, item 23: who is the token's subject."""
    entries = [item for item in closed.items() if item.get("connectionId") == {"S": owned.connection}]
    assert [(entry["who"]["S"], entry["what"]["S"]) for entry in entries] == [("jwt:somebody", "connection.create")]
    assert entries[0]["PK"]["S"].startswith("T#one#AUDIT#")


def test_a_token_without_products_sees_its_tenant(closed: Rig, owned: Owned) -> None:
    """Design §2: the products claim limits, its absence does not."""
    listed = ask(closed, OPERATOR.claims(), "GET", CONNECTIONS).json()["items"]
    assert owned.connection in [item["id"] for item in listed]
    assert ask(closed, OPERATOR.claims(), "GET", f"{JOBS}/{owned.job}").status == 200
    assert ask(closed, Token(products="SALES Payments").claims(), "GET", f"{JOBS}/{owned.job}").status == 200


def test_a_token_without_a_usable_tenant_is_refused(closed: Rig) -> None:
    """Design §2: never from the body or a header."""
    for tenant in ("", "a#b", "a/b", "-a", "x" * 257):
        claims = {**OPERATOR.claims(), "tenant": tenant}
        answer = ask(closed, claims, "GET", CONNECTIONS, x_tenant_id="one")
        assert (answer.status, answer.json()["code"]) == (401, "FET-2008")


def test_every_route_needs_its_own_scope(closed: Rig) -> None:
    """`connections:read`, `connections:write`, `jobs:read`, `jobs:write`; the rest is public."""
    nobody = {"connection_id": "00000000-0000-4000-8000-000000000000", "job_id": "00000000-0000-4000-8000-000000000000"}
    routes = described(closed)
    assert {needed(method, path) for method, path in routes} == {None, *SCOPES}
    for method, template in routes:
        path = template.format(**nobody)
        scope = needed(method, path)
        if scope is None:
            assert path in PUBLIC
            assert ask(closed, None, method, path).status == 200
            continue
        others = " ".join(set(SCOPES) - {scope})
        for claims in ({**OPERATOR.claims(), "scope": others}, {"tenant": "one"}):
            answer = ask(closed, claims, method, path)
            assert (answer.status, answer.json()["code"]) == (403, "FET-2012"), (method, path, answer)
            assert answer.headers["X-Request-Id"] == "rig-request"
        assert ask(closed, {**OPERATOR.claims(), "scope": scope}, method, path).status not in {401, 403}


def test_what_only_asks_needs_no_right_to_write() -> None:
    """A test and a validation change nothing; the same words at the end of other methods do."""
    assert needed("POST", f"{CONNECTIONS}/x/test") == needed("POST", f"{CONNECTIONS}/validate-schema")
    assert needed("POST", f"{CONNECTIONS}/validate-schema") == "connections:read"
    assert needed("DELETE", f"{CONNECTIONS}/test") == "connections:write"
    assert needed("POST", "/v1/anything/new") == "jobs:write"
