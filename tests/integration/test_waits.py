"""Waits that leave the worker, the gate that they close, and tries that are counted over all attempts (design §8)."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from fetcher.core.faults import Point
from fetcher.core.retry import STANDARD
from tests import hourly
from tests.faultproxy import faulty
from tests.integration.test_bounds import source, view
from tests.rig import EXTRACT, Rig, until, work_event

pytestmark = pytest.mark.stack

HOURLY = "hourly"
MORE_THAN_A_PART = 12 * 1024 * 1024
"""Bytes on the wire: a part is in them, and the whole table is not."""

PATIENT = {"FETCHER_LEASE_SECONDS": "60"}
ALL_BUT_A_MOMENT = 299_900
"""Milliseconds of the five minutes."""

FAILING = """
CREATE OR REPLACE FUNCTION public.rolled_back() RETURNS int LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END $$
"""


def posted(service: Rig, datasource: str, table: str, name: str) -> str:
    """Post a job and return its id."""
    return service.posted({datasource: {table: ["*"]}}, name)


def worked(service: Rig, job_id: str, generation: int = 0, **env: str) -> str:
    """Hand the job to a worker; return how that ended."""
    report = service.invoke(EXTRACT, work_event(job_id, generation), **env)
    if report.outcome == "response":
        assert report.payload == {"batchItemFailures": []}, report
    return report.outcome


def numbers(service: Rig, job_id: str) -> dict[str, int]:
    """The numbers of the stored record; those that are not there are 0."""
    item = service.record(job_id)
    names = ("generation", "tries", "retries", "waits", "stalled", "lookAt", "leaseUntil", "spentMs")
    return {name: int(item.get(name, {"N": "0"})["N"]) for name in names}


def put(service: Rig, key: dict[str, Any], name: str, value: int) -> None:
    """Set a number of an item, as time or other workers would have."""
    service.dynamodb.update_item(
        TableName=service.env["FETCHER_MAIN_TABLE"],
        Key=key,
        UpdateExpression="SET #n = :v",
        ExpressionAttributeNames={"#n": name},
        ExpressionAttributeValues={":v": {"N": str(value)}},
    )


def where(job_id: str) -> dict[str, Any]:
    """Where the record of a job is."""
    return {"PK": {"S": f"T#default#EXTRACTION#{job_id}"}, "SK": {"S": "META"}}


def delayed(service: Rig) -> int:
    """Messages that the work queue keeps back."""
    name = "ApproximateNumberOfMessagesDelayed"
    found = service.sqs.get_queue_attributes(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"], AttributeNames=[name])
    return int(found["Attributes"][name])


def now() -> int:
    """Milliseconds since the epoch, on the clock that the handlers share with this process."""
    return time.time_ns() // 1_000_000


def slots(service: Rig) -> list[Any]:
    """Slots that anybody holds."""
    return [item for item in service.items() if item["SK"]["S"].startswith("SLOT#") and "holder" in item]


@pytest.fixture(autouse=True)
def calm(service: Rig) -> None:
    """Begin with nothing queued: each test hands its own messages over."""
    service.sqs.purge_queue(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"])


@pytest.fixture
def limited(service: Rig) -> Iterator[str]:
    """The id of a connection whose user may connect without limit so far."""
    with hourly.user(service.stack, HOURLY) as server:
        answer = service.register(HOURLY, **server)
        assert answer.status == 201, answer
        yield answer.json()["id"]


def use_up(service: Rig) -> None:
    """Connect and ask as the limited user until the server says that it is enough."""
    at = service.stack["databases"]["my_mariadb"]

    def ask() -> None:
        opened = pymysql.connect(host=at["host"], port=at["port"], user=HOURLY, password=hourly.PASSWORD)
        with closing(opened) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def refused() -> bool:
        try:
            ask()
        except pymysql.err.OperationalError as error:
            return "1226" in str(error)
        return False

    until(refused, "the end of the hour's share")


@pytest.mark.parametrize("limit", ["MAX_CONNECTIONS_PER_HOUR", "MAX_QUERIES_PER_HOUR"])
def test_an_hour_that_is_used_up_closes_the_gate_for_everybody(service: Rig, limited: str, limit: str) -> None:
    """Design §8: MariaDB's own 1226; the worker leaves, others do not even try, and the checkpoint waits with them."""
    first = posted(service, HOURLY, "cards", f"first {limit}")
    second = posted(service, HOURLY, "cards", f"second {limit}")
    with hourly.used_up(service.stack, HOURLY, limit):
        use_up(service)
        begun = now()
        worked(service, first)
        gate = {"PK": {"S": f"T#default#SOURCE#{limited}"}, "SK": {"S": "GATE"}}
        stored = service.dynamodb.get_item(TableName=service.env["FETCHER_MAIN_TABLE"], Key=gate)["Item"]
        assert 899_000 <= int(stored["notBefore"]["N"]) - begun <= 900_000 + now() - begun
        found = numbers(service, first)
        assert (found["tries"], found["waits"], found["stalled"], found["generation"]) == (1, 1, 0, 1)
        assert service.job(first)["progress"]["current"] == "waiting for the source"
        assert (delayed(service), slots(service)) == (1, [])
        worked(service, second)
        found = numbers(service, second)
        assert (found["tries"], found["waits"], found["spentMs"]) == (0, 1, 0)
    put(service, gate, "notBefore", now() - 1)  # a quarter of an hour later
    for job_id, retries in ((first, 1), (second, 0)):
        worked(service, job_id, 1)
        assert service.job(job_id)["status"] == "completed", service.job(job_id)
        manifest = service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()
        assert (manifest["retries"], manifest["waits"]) == (retries, 1)
    service.http("DELETE", f"/v1/management/connections/{limited}")


def test_a_wait_that_no_message_can_carry_is_the_sweepers(service: Rig) -> None:
    """Design §8: beyond 900 s by `lookAt` alone; nothing is queued meanwhile."""
    job_id = posted(service, "my_postgres", "public.accounts", "long wait")
    service.sqs.purge_queue(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"])
    own = service.connection_id("my_postgres")
    gate = {"PK": {"S": f"T#default#SOURCE#{own}"}, "SK": {"S": "GATE"}}
    put(service, gate, "notBefore", now() + 7_200_000)
    worked(service, job_id)
    found = numbers(service, job_id)
    assert found["lookAt"] > now() + 7_000_000
    assert service.waiting("FETCHER_WORK_QUEUE_URL") == delayed(service) == 0
    service.sweep()
    assert service.job(job_id)["status"] == "processing"
    put(service, gate, "notBefore", now() - 1)
    put(service, where(job_id), "lookAt", now() - 1)
    assert service.sweep() >= 1
    until(service.work, "the sweeper's message")
    assert service.job(job_id)["status"] == "completed"


def test_a_wait_beyond_what_a_job_may_wait_ends_it(service: Rig) -> None:
    """Design §4: `MaxQueuedHours` binds a job that waits, too; nobody would ever sweep it."""
    job_id = posted(service, "my_postgres", "public.accounts", "too long")
    own = service.connection_id("my_postgres")
    gate = {"PK": {"S": f"T#default#SOURCE#{own}"}, "SK": {"S": "GATE"}}
    put(service, gate, "notBefore", now() + 60_000)
    worked(service, job_id, FETCHER_MAX_QUEUED_HOURS="0.01")
    put(service, gate, "notBefore", now() - 1)
    job = service.job(job_id)
    assert (job["status"], job["error"]["family"]) == ("failed", "timeout")


def test_tries_are_counted_over_all_attempts(service: Rig) -> None:
    """R-002-59, design §8: neither a crash nor a take-over gives new tries; the fifth in vain ends the job."""
    with source(service) as connection:
        connection.execute(FAILING.encode())
    view(service, "rolled back", "SELECT public.rolled_back() AS n FROM generate_series(1, 3)")
    job_id = posted(service, "my_postgres", "rolled back", "tries")
    for tries in (1, 2):
        until(lambda: numbers(service, job_id)["leaseUntil"] < now(), "the end of the lease")
        assert worked(service, job_id, FETCHER_FAULT=Point.RETRIED) == "exited"
        assert numbers(service, job_id)["tries"] == tries
    put(service, where(job_id), "tries", 4)
    until(lambda: numbers(service, job_id)["leaseUntil"] < now(), "the end of the lease")
    worked(service, job_id)
    job = service.job(job_id)
    assert (job["status"], job["error"]["family"]) == ("failed", "unavailable")
    assert numbers(service, job_id)["tries"] == 5
    assert slots(service) == []


def parts(service: Rig, job_id: str) -> int:
    """How many parts of a job's result are noted."""
    return len(service.record(job_id).get("checkpoint", {"M": {}})["M"].get("parts", {"L": []})["L"])


def test_a_source_that_always_breaks_behind_a_part_gets_further_until_the_clock_ends_it(service: Rig) -> None:
    """Design §8: a checkpoint gives new tries, for the source has given rows; the job's own time bounds them all."""
    at = service.stack["databases"]["my_postgres"]
    with faulty(at["host"], at["port"], "rst", MORE_THAN_A_PART) as wire:
        wire.each = True
        answer = service.register("breaking", port=wire.port)
        assert answer.status == 201, answer
        job_id = posted(service, "breaking", "public.movements", "breaking")
        put(service, where(job_id), "tries", STANDARD.tries - 1)
        for tried in (1, 2):
            noted = parts(service, job_id)
            assert worked(service, job_id, 0, FETCHER_FAULT=Point.RETRIED, **PATIENT) == "exited"
            found = numbers(service, job_id)
            assert (found["tries"], found["retries"]) == (1, tried)
            assert parts(service, job_id) > noted
            put(service, where(job_id), "leaseUntil", now() - 1)
        put(service, where(job_id), "spentMs", ALL_BUT_A_MOMENT)
        worked(service, job_id, 0, **PATIENT)
        job = service.job(job_id)
        assert (job["status"], job["error"]["family"]) == ("failed", "timeout"), job
        assert numbers(service, job_id)["tries"] < STANDARD.tries
    assert (slots(service), service.uploads()) == ([], [])
    assert service.http("DELETE", f"/v1/management/connections/{answer.json()['id']}").status == 204
