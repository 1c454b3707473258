"""Registering connections: reference 13.1, 13.2 and 13.5."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from fetcher import engines
from fetcher.core.kinds import API_KINDS
from tests.certificates import Authority
from tests.integration.test_connections_changing import PATH, refused, registered
from tests.rig import SUBMIT, Rig

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("kind", [name for name in API_KINDS if API_KINDS[name] in engines.kinds()])
def test_every_kind_is_registered_and_echoed(service: Rig, kind: str) -> None:
    """§13.1-1, §13.1-3. What is not given is not shown."""
    name = f"kind_{kind.lower()}"
    answer = registered(service, name, type=kind, metadata={"serviceName": "X", "nested": {"n": 1.50}})
    shown = answer.json()
    assert answer.headers["Location"] == f"{PATH}/{shown['id']}"
    assert (shown["configName"], shown["type"], shown["productName"]) == (name, kind, "payments")
    assert shown["metadata"] == {"serviceName": "X", "nested": {"n": 1.5}}
    assert not {"schema", "ssl", "password", "internal"} & shown.keys()
    assert shown["createdAt"] == shown["updatedAt"]
    assert service.http("GET", f"{PATH}/{shown['id']}").text == answer.text


@pytest.mark.parametrize(
    ("changed", "product"),
    [
        ({"configName": "abc"}, "payments"),
        ({"configName": "x" * 100}, "payments"),
        ({"configName": "A-b_9"}, "payments"),
        ({"port": 1}, "payments"),
        ({"port": 65_535}, "payments"),
        ({"host": "some-host.example.test"}, "payments"),
        ({"host": "2606:4700::1111"}, "payments"),
        ({"userName": "ü b'\"$%&"}, "payments"),
        ({"password": "".join(map(chr, range(0x20, 0x7F)))}, "payments"),
        ({"metadata": None, "ssl": None, "schema": None}, "payments"),
        ({"ssl": {"mode": "verify-full"}}, "payments"),
        ({}, "p" * 100),
        ({}, "  PayMents "),
    ],
)
def test_what_is_within_the_rules_is_taken(service: Rig, changed: dict[str, Any], product: str) -> None:
    """§13.1-8, §13.2-1, §13.2-3, §13.2-5, §13.2-7. Up to the bounds, and whatever a credential may hold."""
    name = changed.pop("configName", "within")
    answer = service.register(name, product=product, **changed)
    assert answer.status == 201, answer
    assert answer.json()["productName"] == product.strip().lower()
    assert service.http("DELETE", f"{PATH}/{answer.json()['id']}").status == 204


@pytest.mark.parametrize("member", ["configName", "type", "host", "port", "databaseName", "userName", "password"])
def test_a_missing_member_is_named(service: Rig, member: str) -> None:
    """§13.1-6, §13.2-10, §13.2-11, §13.2-12; all of them at once when there are several."""
    at = service.stack["databases"]["my_postgres"]
    body = {
        "configName": "missing",
        "type": "POSTGRESQL",
        "host": at["host"],
        "port": at["port"],
        "databaseName": at["database"],
        "userName": at["user"],
        "password": at["password"],
    }
    del body[member]
    refused(service.http("POST", PATH, body, x_product_name="payments"), 400, "FET-0402", f"/{member}")
    answer = service.http("POST", PATH, {"port": 0, member: body.get(member, 0)}, x_product_name="payments")
    assert len(answer.json()["errors"]) >= 6


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"port": -1}, "/port"),
        ({"port": 1.5}, "/port"),
        ({"port": True}, "/port"),
        ({"host": "x" * 254}, "/host"),
        ({"host": "a b"}, "/host"),
        ({"host": "user@host"}, "/host"),
        ({"databaseName": "x" * 65_536}, "/databaseName"),
        ({"userName": "a\tb"}, "/userName"),
        ({"password": "a\nb"}, "/password"),
        ({"schema": ""}, "/schema"),
        ({"schema": 7}, "/schema"),
        ({"ssl": {}}, "/ssl/mode"),
        ({"ssl": {"mode": "require", "ca": "x" * 16_385}}, "/ssl/ca"),
        ({"ssl": "require"}, "/ssl"),
        ({"metadata": []}, "/metadata"),
        ({"metadata": {"x": "y" * 8_192}}, "/metadata"),
        ({"password": {"secretId": 7}}, "/password/secretId"),
        ({"limits": {"maxWorkers": 0}}, "/limits/maxWorkers"),
        ({"limits": 3}, "/limits"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(service: Rig, changed: dict[str, Any], pointer: str) -> None:
    """§13.2-9; wrong types, 64 KB strings and control characters."""
    answer = service.register("broken", **changed)
    assert answer.status == 400, answer
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer
    assert len(answer.text) < 4_096


AUTHORITY = Authority.made()
CERTIFICATE, KEY = AUTHORITY.issued("client")
OTHERS = Authority.made().issued("other")[1]
LOCKED = AUTHORITY.issued("client", password=b"secret")
ELSEWHERE = {"secretId": "fetcher/connections/default/key"}


@pytest.mark.parametrize(
    ("given", "pointers"),
    [
        ({"ca": "no certificate"}, ["/ssl/ca"]),
        ({"ca": "zertifikät"}, ["/ssl/ca"]),
        ({"ca": KEY}, ["/ssl/ca"]),
        ({"cert": "no certificate", "key": KEY}, ["/ssl/cert"]),
        ({"cert": CERTIFICATE, "key": "no key"}, ["/ssl/key"]),
        ({"cert": CERTIFICATE, "key": "\0"}, ["/ssl/key"]),
        ({"cert": CERTIFICATE, "key": OTHERS}, ["/ssl/key"]),
        ({"cert": LOCKED[0], "key": LOCKED[1]}, ["/ssl/key"]),
        ({"cert": CERTIFICATE}, ["/ssl/key"]),
        ({"key": KEY}, ["/ssl/cert"]),
        ({"key": ELSEWHERE}, ["/ssl/cert"]),
        ({"ca": "no certificate", "cert": CERTIFICATE}, ["/ssl/ca", "/ssl/key"]),
    ],
)
def test_what_is_no_certificate_or_key_is_refused_with_its_place(
    service: Rig, given: dict[str, Any], pointers: list[str]
) -> None:
    """B-34: when it is registered, and not first when a job needs it; its text does not come back."""
    answer = service.register("unreadable", ssl={"mode": "verify-full", **given})
    refused(answer, 400, "FET-0001")
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert not any(text in answer.text for text in given.values() if isinstance(text, str) and text.isascii())


def test_a_kind_without_client_certificates_refuses_them(service: Rig) -> None:
    """The driver would leave them aside, or fail when a job needs them."""
    given = {"mode": "true", "cert": CERTIFICATE, "key": KEY}
    answer = service.register("certified", type="SQL_SERVER", ssl=given)
    refused(answer, 400, "FET-0001")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/ssl/cert", "/ssl/key"]


@pytest.mark.parametrize(
    "given", [{"ca": f"ä\n{AUTHORITY.pem}" * 2}, {"cert": CERTIFICATE, "key": KEY}, {"key": ELSEWHERE}]
)
def test_certificates_and_keys_are_taken(service: Rig, given: dict[str, Any]) -> None:
    """B-34: several authorities, a pair, and a key that Secrets Manager holds."""
    given = {"cert": CERTIFICATE, **given} if given.get("key") == ELSEWHERE else given
    answer = service.register(f"certified_{uuid4().hex[:8]}", ssl={"mode": "require", **given})
    assert answer.status == 201, answer


def test_a_hostile_body_gets_a_short_answer(service: Rig) -> None:
    """Lambda gives 6 MB: 100,000 unknown members, or one of a megabyte, must not come back whole."""
    members: dict[str, Any] = {f"m{number}": 1 for number in range(100_000)}
    many = service.register("hostile", **members)
    refused(many, 400, "FET-0400", "/m0")
    assert len(many.json()["errors"]) == 100
    assert "(and 99900 more)" in many.json()["detail"]
    member: dict[str, Any] = {"x" * 1_000_000: 1}
    long = service.register("hostile", **member)
    refused(long, 400, "FET-0400")
    assert len(long.text) < 4_096
    assert len(many.text) < 32_768


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "0x7f.1",
        "2130706434",
        "0177.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fd00::1",
        "0.0.0.0",  # noqa: S104 - an address to refuse, not to bind
    ],
)
def test_a_host_that_is_not_allowed_is_refused(service: Rig, host: str) -> None:
    """13.5, R-000-99: at create; every use checks again."""
    refused(service.register("forbidden", host=host), 400, "FET-0414")


def test_one_name_posted_by_many_at_once_is_made_once(service: Rig) -> None:
    """§13.1-5. B-32: exactly one 201."""
    at = service.stack["databases"]["my_postgres"]
    body = {
        "configName": "raced",
        "type": "POSTGRESQL",
        "host": at["host"],
        "port": at["port"],
        "databaseName": at["database"],
        "userName": at["user"],
        "password": at["password"],
    }
    event = {
        "version": "2.0",
        "rawPath": PATH,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "x-product-name": "payments"},
        "requestContext": {"http": {"method": "POST", "path": PATH}, "stage": "$default", "requestId": "r"},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
    with service.envelope(SUBMIT) as one, service.envelope(SUBMIT) as two, ThreadPoolExecutor(2) as threads:
        warm = {**event, "body": "{"}
        assert {each.invoke(warm).payload["statusCode"] for each in (one, two)} == {400}
        racing = [threads.submit(lambda by: [by.invoke(event) for _ in range(3)], by) for by in (one, two)]
        statuses = [report.payload["statusCode"] for race in racing for report in race.result()]
    assert sorted(statuses) == [201, *[409] * 5]
    listed = service.http("GET", PATH, query={"limit": "100"}).json()["items"]
    assert [item["configName"] for item in listed].count("raced") == 1


def test_lists_filter_and_page(service: Rig) -> None:
    """§13.3-4, §13.3-5, §13.3-6, §13.3-7, §13.3-8, §13.3-9, §13.3-10; B-12: no date hides any."""
    for number in range(5):
        registered(service, f"listed_{number}", product="lists", type="MYSQL" if number == 4 else "POSTGRESQL")

    def listed(**query: str) -> Any:
        return service.http("GET", PATH, query=query, x_product_name="Lists").json()

    assert [item["configName"] for item in listed()["items"]] == [f"listed_{n}" for n in (4, 3, 2, 1, 0)]
    assert [item["configName"] for item in listed(type="mysql")["items"]] == ["listed_4"]
    sizes, query = [], {"limit": "2"}
    while True:
        page = listed(**query)
        sizes.append(len(page["items"]))
        if "next" not in page:
            break
        query["cursor"] = page["next"]
    assert sizes == [2, 2, 1]
    assert service.http("GET", PATH, x_product_name="nobody").json() == {"items": [], "limit": 10}
    refused(service.http("GET", PATH, x_product_name="a b"), 400, "FET-0403")
