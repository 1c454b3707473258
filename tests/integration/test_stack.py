"""The local stack itself: what its file says, that several run side by side, and that `down` leaves nothing."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import psycopg
import pytest
from botocore.exceptions import ClientError

from infra.local import mariadb, sample
from infra.local import stack as local
from infra.local.api import Api
from infra.local.places import Place, StackError
from infra.local.processes import Process
from tests.stack import Stack

DATABASES = ["postgresql", "mongodb", *(["mariadb"] if mariadb.installed() else [])]


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run another stack beside the shared one."""
    place = Place.of(tmp_path_factory.mktemp("stacks") / "second.json")
    with local.running(place):
        yield place


def test_the_stack_file_has_all_that_an_outsider_needs(stack: Stack) -> None:
    described = stack.description
    assert set(described) == {
        "apiUrl", "endpointUrl", "region", "bucket", "tables", "bus", "eventsQueueUrl", "queues", "verifyKeyHex",
        "databases",
    }  # fmt: skip
    assert set(described["tables"]) == {"main", "connections"}
    assert set(described["queues"]) == {"work", "workDead", "notifications", "notificationsDead"}
    assert set(described["databases"]["my_postgres"]) == {"kind", "host", "port", "user", "password", "database"}
    assert len(bytes.fromhex(described["verifyKeyHex"])) == 32


def test_what_the_stack_file_names_is_there(stack: Stack) -> None:
    dynamodb, sqs = stack.client("dynamodb"), stack.client("sqs")
    for table in stack["tables"].values():
        assert dynamodb.describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE"
    for url in [stack["eventsQueueUrl"], *stack["queues"].values()]:
        assert "QueueArn" in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    stack.client("s3").head_bucket(Bucket=stack["bucket"])
    stack.client("events").describe_event_bus(Name=stack["bus"])


def test_health_answers(stack: Stack) -> None:
    assert stack.api.get("/health").status == 200


def test_every_event_on_the_bus_reaches_the_events_queue(stack: Stack) -> None:
    entry = {"Source": "test.stack", "DetailType": "heard", "Detail": "{}", "EventBusName": stack["bus"]}
    stack.client("events").put_events(Entries=[entry])
    sqs = stack.client("sqs")
    for _ in range(20):
        received = sqs.receive_message(QueueUrl=stack["eventsQueueUrl"], WaitTimeSeconds=1, MaxNumberOfMessages=10)
        if any(json.loads(message["Body"])["source"] == "test.stack" for message in received.get("Messages", [])):
            return
    pytest.fail("the event did not arrive")


def test_the_sweeper_is_scheduled(stack: Stack) -> None:
    events = stack.client("events")
    rules = [rule for rule in events.list_rules()["Rules"] if rule.get("ScheduleExpression") == "rate(1 minute)"]
    targets = [target["Arn"] for rule in rules for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]]
    assert any("Sweeper" in target for target in targets)


@pytest.mark.parametrize("schema_table", ["public.accounts", "accounting.invoices", "public.movements"])
def test_the_sample_is_there(stack: Stack, schema_table: str) -> None:
    rows = {"public.accounts": 5_000, "accounting.invoices": 20_000, "public.movements": 200_000}
    database = stack["databases"]["my_postgres"]
    with psycopg.connect(
        host=database["host"],
        port=database["port"],
        user=database["user"],
        password=database["password"],
        dbname=database["database"],
    ) as connection:
        assert connection.execute(f"SELECT count(*) FROM {schema_table}").fetchone() == (rows[schema_table],)


def test_stacks_run_side_by_side(stack: Stack, second: Place) -> None:
    other = Stack.of(second)
    assert other["endpointUrl"] != stack["endpointUrl"]
    assert other["verifyKeyHex"] != stack["verifyKeyHex"]
    assert {one.api.get("/health").status for one in (stack, other)} == {200}
    other.api.close()


def test_a_running_stack_is_neither_started_again_nor_ended_by_the_attempt(second: Place) -> None:
    before = second.file.read_text()
    with pytest.raises(StackError, match="make down"), local.running(second):
        pytest.fail("it was started again")
    assert second.file.read_text() == before
    other = Stack.of(second)
    assert other.api.get("/health").status == 200
    other.api.close()


def test_a_stack_on_somebody_elses_endpoint_is_removed_from_it(
    second: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Stack.of(second)
    monkeypatch.setenv("AWS_ENDPOINT_URL", host["endpointUrl"])
    place = Place.of(tmp_path / "guest.json")
    with local.running(place) as described:
        assert described["endpointUrl"] == host["endpointUrl"]
        assert described["tables"] != host["tables"]
        assert [process.name for process in local.Started.load(place).processes] == DATABASES
    names = [bucket["Name"] for bucket in host.client("s3").list_buckets()["Buckets"]]
    assert [name for name in names if name.endswith("-artifacts")] == ["fetcher-artifacts"]
    assert host.api.get("/health").status == 200
    host.api.close()


def test_down_ends_exactly_what_up_started(stack: Stack, tmp_path: Path) -> None:
    place = Place.of(tmp_path / "third.json")
    described = local.up(place)
    started = local.Started.load(place)
    local.down(place)
    assert not any(process.alive() for process in started.processes)
    assert not Path(started.databases).exists()
    assert list(tmp_path.iterdir()) == []
    for address in (urlsplit(described["endpointUrl"]).port, described["databases"]["my_postgres"]["port"]):
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", address)) != 0
    assert stack.api.get("/health").status == 200


def test_a_parameter_that_the_template_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="nowhere"):
        local.up(Place.of(tmp_path / "refused.json"), {"Stage": "nowhere"})


def test_an_up_that_fails_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.of(tmp_path / "broken.json")
    begun: list[Process] = []

    def fail(*_: object) -> None:
        begun.extend(local.Started.load(place).processes)
        raise StackError("broken on purpose")

    monkeypatch.setattr(sample, "fill", fail)
    with pytest.raises(StackError, match="on purpose"):
        local.up(place)
    assert [process.name for process in begun] == ["endpoint", "postgresql"]
    assert not any(process.alive() for process in begun)
    assert not place.file.exists()
    assert not place.record.exists()


def test_a_stranger_to_the_endpoint_is_refused(stack: Stack) -> None:
    stranger = boto3.Session("AKIAIOSFODNN7EXAMPLE", "not the secret", region_name=stack["region"])
    dynamodb = stranger.client("dynamodb", endpoint_url=stack["endpointUrl"])
    with pytest.raises(ClientError, match="UnrecognizedClientException"):
        dynamodb.scan(TableName=stack["tables"]["main"])


@pytest.mark.soak
def test_a_job_completes_without_enforced_roles_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTH", "false")
    with local.running(Place.of(tmp_path / "open.json")) as described:
        api = Api(described["apiUrl"])
        assert _status_of_a_small_job(api, described["databases"]["my_postgres"]) == "completed"
        api.close()


def _status_of_a_small_job(api: Api, database: Mapping[str, Any]) -> str:
    connection = {
        "configName": "my_postgres",
        "type": "POSTGRESQL",
        "host": database["host"],
        "port": database["port"],
        "databaseName": database["database"],
        "userName": database["user"],
        "password": database["password"],
    }
    assert api.post("/v1/management/connections", connection, x_product_name="payments").status == 201
    selection = {"mappedFields": {"my_postgres": {"public.accounts": ["id"]}}}
    accepted = api.post("/v1/fetcher", {"dataRequest": selection, "metadata": {"source": "payments"}})
    assert accepted.status == 202
    until = time.monotonic() + 60
    while (job := api.get(accepted.headers["Location"]).json())["status"] in {"pending", "processing"}:
        assert time.monotonic() < until, job
        time.sleep(0.2)
    return str(job["status"])


def test_down_without_up_does_nothing(tmp_path: Path) -> None:
    local.down(Place.of(tmp_path / "none.json"))
    assert list(tmp_path.iterdir()) == []
