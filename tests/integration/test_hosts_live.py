"""Where connections may go, in submit and in extract, when names change their mind between the two."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.test_connections_changing import PATH, job, refused
from tests.resolver import Resolving, is_numeric, resolving
from tests.rig import SUBMIT, Answer
from tests.stack import Stack

pytestmark = pytest.mark.stack

HERE, METADATA, PRIVATE = "127.0.0.1", "169.254.169.254", "10.0.0.1"
NAME = "moves.example"
SPELLED = ["167772161", "0xa.1", "0xA000001", "012.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1", "64:ff9b::a00:1"]
"""10.0.0.1, as C libraries and IPv6 also write it."""


@pytest.fixture(scope="module")
def named(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resolving]:
    """A service in which a name is whatever the test says; loopback is allowed, as on every laptop."""
    with resolving(stack, tmp_path_factory.mktemp("named")) as made:
        made.names({NAME: [HERE]})
        answer = made.register("moving", host=NAME)
        assert answer.status == 201, answer
        yield made


@pytest.fixture(autouse=True)
def _here(named: Resolving) -> None:
    named.names({NAME: [HERE]})


def fresh(service: Resolving) -> Answer:
    """Post a job that is no duplicate of another test's."""
    body = {"mappedFields": {"moving": {"public.accounts": ["id"]}}}
    return service.post({"dataRequest": body, "metadata": {"source": "payments", "correlationId": str(uuid4())}})


def ended(service: Resolving, posted: Answer) -> Any:
    """Let extract work once, and return the job."""
    assert posted.status == 202, posted
    assert service.work() is not None
    return service.job(posted.json()["jobId"])


def test_a_name_is_followed_while_it_stays_where_it_may(named: Resolving) -> None:
    """Else the others here would pass for a resolver that never answers."""
    assert ended(named, job(named, "moving", ["id"]))["status"] == "completed"


@pytest.mark.parametrize("answers", [[METADATA], [HERE, PRIVATE], [PRIVATE, HERE], ["fd00:ec2::254"]])
def test_a_name_that_moves_between_submit_and_extract_is_not_followed(named: Resolving, answers: Sequence[str]) -> None:
    """R-000-99, B-40: extract looks and checks for itself; one forbidden address among several is enough."""
    posted = job(
        named, "moving", [f"{'id'}", "email", "country"][: 1 + len(answers)] + ["created_at"] * (PRIVATE in answers[0])
    )
    named.names({NAME: answers})
    found = ended(named, posted)
    assert found["status"] == "failed"
    assert (found["error"]["family"], found["error"]["code"]) == ("refused", "FET-2020")
    assert not any(address in str(found["error"]) for address in (METADATA, PRIVATE, NAME))


@pytest.mark.parametrize("answers", [[METADATA], [HERE, PRIVATE], ["224.0.0.1"]])
def test_a_name_that_moves_after_it_was_registered_is_not_followed_by_submit(
    named: Resolving, answers: Sequence[str]
) -> None:
    """R-000-99, §13.5-2: at create, at test, at schema and at the probe of a job."""
    one = named.connection_id("moving")
    named.names({NAME: answers})
    refused(named.register("another", host=NAME), 400, "FET-0414")
    refused(named.http("GET", f"{PATH}/{one}/schema"), 400, "FET-0414")
    refused(job(named, "moving", ["created_at"]), 400, "FET-0414")
    tested = named.http("POST", f"{PATH}/{one}/test")
    assert (tested.status, tested.json()["status"], tested.json()["code"]) == (200, "failure", "FET-0414")
    refused(named.http("PATCH", f"{PATH}/{one}", {"host": NAME}), 400, "FET-0414")


@pytest.mark.parametrize("host", SPELLED)
def test_an_address_spelled_in_another_way_is_still_that_address(named: Resolving, host: str) -> None:
    """R-000-99, §13.5-3: in submit, and in extract for an item that was written past it."""
    assert ":" in host or is_numeric(host)
    refused(named.register("spelled", host=host), 400, "FET-0414")
    posted = fresh(named)
    _written(named, host)
    try:
        found = ended(named, posted)
    finally:
        _written(named, NAME)
    assert (found["status"], found["error"]["family"]) == ("failed", "refused")


def _written(service: Resolving, host: str) -> None:
    """Change the stored host past the API."""
    items = service.dynamodb.scan(TableName=service.env["FETCHER_CONNECTIONS_TABLE"])["Items"]
    item = next(each for each in items if each.get("configName", {}).get("S") == "moving" and "host" in each)
    service.dynamodb.update_item(
        TableName=service.env["FETCHER_CONNECTIONS_TABLE"],
        Key={"PK": item["PK"], "SK": item["SK"]},
        UpdateExpression="SET host = :host",
        ExpressionAttributeValues={":host": {"S": host}},
    )


@pytest.mark.parametrize("host", ["a.example,b.example", "a.example:27017", "mongodb://a.example", "a.example/?x=y"])
def test_a_host_is_one_host_and_no_seed_list(named: Resolving, host: str) -> None:
    """R-000-99: a list would be resolved by the driver, past the check."""
    named.names({"a.example": [HERE], "b.example": [PRIVATE]})
    refused(named.register("seeds", host=host, type="MONGODB"), 400, "FET-0001", "/host")


def test_the_guard_is_on_in_every_stage_and_loopback_is_a_laptops_alone(named: Resolving) -> None:
    """§13.5-1, §13.5-4, §13.5-5, B-40: a public name is taken, whatever is behind it; this machine is not."""
    named.names({"public.example": ["8.8.8.8"], "localhost": [HERE], NAME: [HERE]})
    at = named.stack["databases"]["my_postgres"]
    body = {"type": "POSTGRESQL", "port": 5432, "databaseName": "d", "userName": "u", "password": "x"}
    with named.envelope(SUBMIT, {"FETCHER_STAGE": "prod", "FETCHER_AUTHORIZER": "iam"}) as deployed:
        named._opened[SUBMIT], kept = deployed, named._opened[SUBMIT]
        try:
            for number, host in enumerate((HERE, "localhost", "::1", NAME, at["host"])):
                made = named.http(
                    "POST", PATH, {**body, "configName": f"loop_{number}", "host": host}, x_product_name="payments"
                )
                refused(made, 400, "FET-0414")
            public = {**body, "configName": "public", "host": "public.example"}
            assert named.http("POST", PATH, public, x_product_name="payments").status == 201
        finally:
            named._opened[SUBMIT] = kept
    one = named.connection_id("moving")
    assert named.http("POST", f"{PATH}/{one}/test").json()["status"] == "success"
