"""The ways a job can go, each played to its end behind the proxies of `tests.cloud`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from fetcher.aws.extractions import Extractions
from fetcher.core.clock import now_ms
from fetcher.core.faults import Point
from fetcher.model import DEFAULT_WORKERS
from fetcher_cli.failures import request_of
from tests import hourly
from tests.cloud import QUEUES, Cloud, cloud
from tests.cloudproxy import Fault
from tests.integration.test_bounds import source
from tests.rig import DEAD_LETTER, EXTRACT, SWEEPER, message_of
from tests.stack import Stack

BOUND = 24 * 1024 * 1024
TABLES = {
    "small": "SELECT n AS id, repeat('x', 10) AS text FROM generate_series(1, 50) n",
    "parts": "SELECT n AS id, repeat(chr(97 + n % 26), 16384) AS text FROM generate_series(1, 1100) n",
    "over": "SELECT n AS id, repeat('x', 16384) AS text FROM generate_series(1, 1600) n",
    "slow": "SELECT n AS id, pg_sleep(0.1)::text AS text FROM generate_series(1, 10) n",
}
"""17 MiB are three parts; 25 MiB are over the bound, and found to be so after the first parts are stored."""


HOURLY = "hourly"
"""A connection to MariaDB whose user's share of an hour can be used up; named like this for each rig's own user."""


@dataclass(frozen=True, slots=True)
class Way:
    """A scenario: what is asked for, what happens before and after the queues are driven, and how the job ends.

    `jobs` are made of its request: one, unless the caller asks for another.
    """

    table: str
    play: Callable[[Cloud, str], None] = lambda at, job_id: None
    after: Callable[[Cloud, str], None] = lambda at, job_id: None
    ends: str = "completed"
    filters: Any = None
    connection: str = "my_postgres"
    jobs: int = 1


def _cancel(at: Cloud, job_id: str) -> None:
    answer = at.insist("POST", f"/v1/fetcher/{job_id}/cancel")
    assert answer.status in {202, 409}, answer


def _cancel_alone(at: Cloud, job_id: str) -> None:
    """As a submit function that died between the cancel and the end."""
    extractions = Extractions(at.dynamodb, at.env["FETCHER_MAIN_TABLE"], now_ms, lease_ms=1, window_ms=1, dispatch_ms=1)
    assert extractions.cancel("default", job_id)


def _stalled(at: Cloud, job_id: str) -> None:
    """As five workers that died leave it, found by the sweeper."""
    at.set(at.items_of(job_id)["META"], "stalled", {"N": "5"})
    at.pass_time(job_id)
    at.invoke(SWEEPER, {})


def _poison(at: Cloud, job_id: str) -> None:
    at.sqs.send_message(QueueUrl=at.env[QUEUES[DEAD_LETTER]], MessageBody=message_of(job_id))
    at.drained(DEAD_LETTER)


def _in_a_hurry(at: Cloud, job_id: str) -> None:
    """An attempt whose time is up as soon as it has begun."""
    at.hurry(EXTRACT)
    at.drained(EXTRACT)


def _killed(at: Cloud, job_id: str) -> None:
    """A worker that dies after the first part."""
    at.kill_next_worker(Point.PART_STORED)
    at.drained(EXTRACT)
    at.pass_time(job_id)


def _released(at: Cloud, job_id: str) -> None:
    """A worker that fails without dying, after the seal of a small result."""
    at.proxies[EXTRACT].also = Fault("s3:PutObject results", "busy key")
    at.drained(EXTRACT)


def _sealed(at: Cloud, job_id: str) -> None:
    """A worker that dies after the seal of an upload: all is there to be cleaned up, and its slots are held."""
    at.kill_next_worker(Point.SEALED)
    at.once(EXTRACT)
    at.pass_time(job_id)


def _canceled_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at, job_id)
    _cancel(at, job_id)


def _swept_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at, job_id)
    _cancel_alone(at, job_id)


def _claimed_sealed(at: Cloud, job_id: str) -> None:
    _swept_sealed(at, job_id)
    at.drained(EXTRACT)


def _poison_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at, job_id)
    _poison(at, job_id)


def _source(at: Cloud, job_id: str) -> dict[str, dict[str, str]]:
    """The partition of what is known of the job's source."""
    [source] = at.items_of(job_id)["META"]["connections"]["M"].values()
    return {"PK": {"S": f"T#default#SOURCE#{source['S']}"}}


def _without_a_slot(at: Cloud, job_id: str) -> None:
    """A worker that finds every slot of its source to be another job's, which then ends."""
    slots = [{**_source(at, job_id), "SK": {"S": f"SLOT#{n:02d}"}} for n in range(DEFAULT_WORKERS)]
    table = at.env["FETCHER_MAIN_TABLE"]
    anothers = {"holder": {"S": "another"}, "attempt": {"S": "its"}, "leaseUntil": {"N": "9999999999999"}}
    for slot in slots:
        at.dynamodb.put_item(TableName=table, Item={**slot, **anothers})
    at.drained(EXTRACT)
    for slot in slots:
        at.dynamodb.delete_item(TableName=table, Key=slot)
    at.forget_messages()


def _used_up(at: Cloud, job_id: str) -> None:
    """A worker whose source says that this hour's share is used up; then the hour is over."""
    with hourly.used_up(at.stack, hourly_user(at)):
        at.drained(EXTRACT)
    gate = {**_source(at, job_id), "SK": {"S": "GATE"}}
    at.dynamodb.delete_item(TableName=at.env["FETCHER_MAIN_TABLE"], Key=gate)
    at.forget_messages()


def _short_lease(at: Cloud, job_id: str) -> None:
    """A worker that has to renew its slots while it reads."""
    at.lease(5)
    at.drained(EXTRACT)


def _tried_again(at: Cloud, job_id: str) -> None:
    """A client that posts the request of its failed job again, and says so."""
    body = request_of(at.insist("GET", f"/v1/fetcher/{job_id}").json())
    answer = at.insist("POST", "/v1/fetcher", body.decode(), x_retry_of=job_id)
    assert answer.status in {200, 202}, answer
    following = answer.json()["jobId"]
    assert set(at.drive(following)) == {f"fetcher.job.completed.{following}"}
    assert at.job(following)["retryOf"] == job_id
    at.forget(following)


def _shown(at: Cloud, job_id: str) -> None:
    assert at.insist("GET", f"/v1/fetcher/{job_id}").json()["filters"]


def _erased(at: Cloud, job_id: str) -> None:
    assert at.insist("GET", f"/v1/fetcher/{job_id}/result").status == 303
    assert at.insist("GET", f"/v1/fetcher/{job_id}/manifest").status == 200
    assert at.insist("GET", "/v1/fetcher").status == 200
    assert at.insist("DELETE", f"/v1/fetcher/{job_id}/result").status == 204


MANY = {"text": {"nin": [f"{n:0200d}" for n in range(600)]}}

WAYS = {
    "small": Way("small"),
    "large body": Way("small", after=_shown, filters=MANY),
    "parts": Way("parts"),
    "killed": Way("parts", _killed),
    "slow": Way("slow"),
    "handed over": Way("small", _in_a_hurry),
    "released": Way("small", _released),
    "over": Way("over", ends="limit"),
    "canceled": Way("small", _cancel, ends="canceled"),
    "canceled, sealed": Way("parts", _canceled_sealed, ends="canceled"),
    "canceled, swept": Way("parts", _swept_sealed, ends="canceled"),
    "canceled, claimed": Way("parts", _claimed_sealed, ends="canceled"),
    "poison": Way("parts", _poison_sealed, ends="internal"),
    "stalled": Way("small", _stalled, ends="internal"),
    "erased": Way("small", after=_erased),
    "waited for a slot": Way("small", _without_a_slot),
    "waited for the source": Way("cards", _used_up, connection=HOURLY),
    "renewed": Way("slow", _short_lease),
    "tried again": Way("small", _stalled, after=_tried_again, ends="internal", jobs=2),
}


@contextmanager
def clouded(stack: Stack, folder: Path, *, impatient: bool = False) -> Iterator[Cloud]:
    """A rig behind proxies with the tables of the scenarios."""
    settings = {
        "FETCHER_LEASE_SECONDS": "60",
        "FETCHER_HEARTBEAT_SECONDS": "0.2",
        "FETCHER_DISPATCH_SECONDS": "30",
        "ENGINE_MAX_RESULT_BYTES": str(BOUND),
    }
    with cloud(stack, folder, settings, impatient=impatient) as at:
        with source(at) as database:
            for name, sql in TABLES.items():
                table = named(at, name)
                if name == "slow":
                    database.execute(f"CREATE VIEW {table} AS {sql}".encode())
                else:
                    database.execute(f"CREATE TABLE {table} AS {sql}".encode())
                    database.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (id)".encode())
        assert at.register().status == 201
        yield at


@contextmanager
def with_hourly(at: Cloud) -> Iterator[None]:
    """Add the connection whose share of an hour can be used up."""
    with hourly.user(at.stack, hourly_user(at)) as server:
        assert at.register(HOURLY, **server).status == 201
        yield


def hourly_user(at: Cloud) -> str:
    """The user behind that connection."""
    return at.name.replace("-", "_")


def named(at: Cloud, table: str) -> str:
    """A table of this rig's own: others use the same database at the same time."""
    return f"public.{at.name.replace('-', '_')}_{table}"


def posted(at: Cloud, way: Way) -> str:
    """Post the way's job, as a patient client does, and return its id."""
    table = named(at, way.table) if way.table in TABLES else way.table
    request: dict[str, Any] = {"mappedFields": {way.connection: {table: ["*"]}}}
    if way.filters:
        request["filters"] = {way.connection: {table: way.filters}}
    body = {"dataRequest": request, "metadata": {"source": "payments", "correlationId": uuid4().hex}}
    answer = at.insist("POST", "/v1/fetcher", body)
    assert answer.status in {200, 202}, answer
    return str(answer.json()["jobId"])


def played(at: Cloud, way: Way) -> tuple[str, list[str]]:
    """Play a way to its end; the job's id and the ids of its events."""
    job_id = posted(at, way)
    way.play(at, job_id)
    ids = at.drive(job_id)
    way.after(at, job_id)
    return job_id, ids
