"""The ways a job can go, each played to its end behind the proxies of `tests.cloud`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from fetcher.aws.extractions import Extractions
from fetcher.core.clock import now_ms
from tests.cloud import Cloud, cloud
from tests.cloudproxy import Fault
from tests.integration.test_bounds import source
from tests.rig import EXTRACT, SWEEPER
from tests.stack import Stack

BOUND = 24 * 1024 * 1024
TABLES = {
    "small": "SELECT n AS id, repeat('x', 10) AS text FROM generate_series(1, 50) n",
    "parts": "SELECT n AS id, repeat(chr(97 + n % 26), 16384) AS text FROM generate_series(1, 1100) n",
    "over": "SELECT n AS id, repeat('x', 16384) AS text FROM generate_series(1, 1600) n",
    "slow": "SELECT n AS id, pg_sleep(0.1)::text AS text FROM generate_series(1, 10) n",
}
"""17 MiB are three parts; 25 MiB are over the bound, and found to be so after the first parts are stored."""


@dataclass(frozen=True, slots=True)
class Way:
    """A scenario: what is asked for, what happens before and after the queues are driven, and how the job ends."""

    table: str
    play: Callable[[Cloud, str], None] = lambda at, job_id: None
    after: Callable[[Cloud, str], None] = lambda at, job_id: None
    ends: str = "completed"
    filters: Any = None


def _cancel(at: Cloud, job_id: str) -> None:
    answer = at.insist("POST", f"/v1/fetcher/{job_id}/cancel")
    assert answer.status in {202, 409}, answer


def _cancel_alone(at: Cloud, job_id: str) -> None:
    """As a submit function that died between the cancel and the end."""
    extractions = Extractions(at.dynamodb, at.env["FETCHER_MAIN_TABLE"], now_ms, lease_ms=1, window_ms=1, dispatch_ms=1)
    assert extractions.cancel("default", job_id)


def _stalled(at: Cloud, job_id: str) -> None:
    """As five workers that died leave it, found by the sweeper."""
    at.set(at.record(job_id)["META"], "stalled", {"N": "5"})
    at.pass_time(job_id)
    at.invoke(SWEEPER, {})


def _poison(at: Cloud, job_id: str) -> None:
    at.dead_letter(f'{{"v":1,"tenant":"default","extractionId":"{job_id}","generation":0}}')


def _in_a_hurry(at: Cloud, job_id: str) -> None:
    """An attempt whose time is up as soon as it has begun."""
    at.hurry(EXTRACT)
    at.drained(EXTRACT)


def _killed(at: Cloud, job_id: str) -> None:
    """A worker that dies after the second part."""
    at.kill_next_worker()
    at.drained(EXTRACT)
    at.pass_time(job_id)


def _released(at: Cloud, job_id: str) -> None:
    """A worker that fails without dying, after the seal of a small result."""
    at.proxies[EXTRACT].also = Fault("s3:PutObject results", "busy key")
    at.drained(EXTRACT)


def _sealed(at: Cloud) -> None:
    """A worker that fails without dying, after the seal of an upload: everything is there to be cleaned up."""
    at.proxies[EXTRACT].also = Fault("s3:CompleteMultipartUpload results", "busy key")
    at.once(EXTRACT)


def _canceled_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at)
    _cancel(at, job_id)


def _swept_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at)
    _cancel_alone(at, job_id)


def _claimed_sealed(at: Cloud, job_id: str) -> None:
    _swept_sealed(at, job_id)
    at.drained(EXTRACT)


def _poison_sealed(at: Cloud, job_id: str) -> None:
    _sealed(at)
    _poison(at, job_id)


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
}


@contextmanager
def clouded(stack: Stack, folder: Path) -> Iterator[Cloud]:
    """A rig behind proxies with the tables of the scenarios."""
    settings = {
        "FETCHER_LEASE_SECONDS": "60",
        "FETCHER_HEARTBEAT_SECONDS": "0.2",
        "FETCHER_DISPATCH_SECONDS": "30",
        "ENGINE_MAX_RESULT_BYTES": str(BOUND),
    }
    with cloud(stack, folder, **settings) as at:
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


def named(at: Cloud, table: str) -> str:
    """A table of this rig's own: others use the same database at the same time."""
    return f"public.{at.name.replace('-', '_')}_{table}"


def posted(at: Cloud, way: Way) -> str:
    """Post the way's job, as a patient client does, and return its id."""
    table = named(at, way.table)
    request: dict[str, Any] = {"mappedFields": {"my_postgres": {table: ["*"]}}}
    if way.filters:
        request["filters"] = {"my_postgres": {table: way.filters}}
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
