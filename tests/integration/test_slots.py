"""Source slots: how many jobs read a connection at once, and what the others do meanwhile (`design.md` §6 j)."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fetcher.core.faults import Point
from tests.integration.test_bounds import UNHURRIED, active_queries, source, view
from tests.rig import EXTRACT, Rig, sqs_event, until, work_event

pytestmark = pytest.mark.stack

LEASE_SECONDS = 2
SWEEP_SECONDS = 5
SLOW = "SELECT n, pg_sleep(0.06)::text AS s FROM generate_series(1, 25) n"
SLOWER = "SELECT n, pg_sleep(0.06)::text AS s FROM generate_series(1, 80) n"


@pytest.fixture(scope="module", autouse=True)
def connections(service: Rig) -> dict[str, str]:
    """Two narrow connections to one database; their ids by name."""
    view(service, "paced", SLOW)
    made = {name: service.register(name, limits={"maxWorkers": most}) for name, most in (("two", 2), ("one", 1))}
    assert {name: answer.json()["limits"]["maxWorkers"] for name, answer in made.items()} == {"two": 2, "one": 1}
    return {name: answer.json()["id"] for name, answer in made.items()}


def posted(service: Rig, name: str, *datasources: str, table: str = "paced") -> str:
    """Post a job that reads a slow view of these datasources."""
    return service.posted({datasource: {table: ["*"]} for datasource in datasources}, name)


def held(service: Rig) -> dict[str, list[str]]:
    """The jobs that hold slots, by connection."""
    found: dict[str, list[str]] = {}
    for item in service.items():
        if item["SK"]["S"].startswith("SLOT#") and "holder" in item:
            found.setdefault(item["PK"]["S"].split("#")[-1], []).append(item["holder"]["S"])
    return found


def number(service: Rig, job_id: str, attribute: str) -> int:
    """A number of the stored record."""
    return int(service.record(job_id).get(attribute, {"N": "0"})["N"])


def message(service: Rig, seconds: float = 20) -> Any:
    """Wait for the next message of the work queue."""

    def received() -> Any:
        return service.sqs.receive_message(
            QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"],
            MaxNumberOfMessages=1,
            AttributeNames=["ApproximateReceiveCount"],
        ).get("Messages")

    found = until(received, "a message", seconds)[0]
    service.sqs.delete_message(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"], ReceiptHandle=found["ReceiptHandle"])
    return found


@pytest.fixture(autouse=True)
def calm(service: Rig) -> None:
    """Begin with free slots and nothing queued."""
    drained(service)
    for item in service.items():
        if item["SK"]["S"].startswith("SLOT#"):
            where = {name: item[name] for name in ("PK", "SK")}
            service.dynamodb.delete_item(TableName=service.env["FETCHER_MAIN_TABLE"], Key=where)


def drained(service: Rig) -> None:
    """Forget what is queued: a test hands its own messages over."""
    service.sqs.purge_queue(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"])


def killed(service: Rig, job_id: str, point: Point, **env: str) -> None:
    """A worker that dies at this point."""
    assert service.invoke(EXTRACT, work_event(job_id), FETCHER_FAULT=point, **env).outcome == "exited"


@contextmanager
def occupied(service: Rig, connection: str) -> Iterator[None]:
    """The only slot of a connection is another job's, for as long as the test wants it to be."""
    where = {"PK": {"S": f"T#default#SOURCE#{connection}"}, "SK": {"S": "SLOT#00"}}
    item = {**where, "holder": {"S": "another"}, "attempt": {"S": "its"}, "leaseUntil": {"N": "9999999999999"}}
    service.dynamodb.put_item(TableName=service.env["FETCHER_MAIN_TABLE"], Item=item)
    yield
    service.dynamodb.delete_item(TableName=service.env["FETCHER_MAIN_TABLE"], Key=where)


def leases_over(service: Rig, job_id: str) -> bool:
    """Whether neither the job's claim nor a slot is held any more."""
    slots = [item for item in service.items() if item["SK"]["S"].startswith("SLOT#") and "holder" in item]
    leases = [number(service, job_id, "leaseUntil"), *(int(slot["leaseUntil"]["N"]) for slot in slots)]
    return max(leases) < time.time_ns() // 1_000_000


def ended(service: Rig, job_id: str, status: str = "completed") -> Any:
    """Drive queue and sweeper until the job has ended like this."""

    def over() -> Any:
        service.sweep()
        service.work()
        job = service.job(job_id)
        assert job["status"] in {status, "pending", "processing"}, job
        return job if job["status"] == status else None

    return until(over, f"the end of {job_id}", 60)


class Watch:
    """Looks, at the source itself, who is reading at each moment. The server is shared with other tests of the run."""

    def __init__(self, service: Rig) -> None:
        self._service = service
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._seen: set[frozenset[str]] = set()

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def most(self, *jobs: str) -> int:
        """How many of these jobs were reading at one moment, at most."""
        names = {f"fetcher-{job}" for job in jobs}
        return max((len(seen & names) for seen in self._seen), default=0)

    def _look(self) -> None:
        # Not a session whose job has ended and that the server has not closed yet.
        reading = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE state = 'active'"
        with source(self._service) as connection:
            while not self._done.wait(0.01):
                self._seen.add(frozenset(name for (name,) in connection.execute(reading)))


@contextmanager
def workers(service: Rig, count: int) -> Iterator[None]:
    """So many execution environments, warm, that take messages from the queue side by side. None of them dies."""
    done, warm = threading.Event(), threading.Barrier(count + 1, timeout=120)
    queue = service.env["FETCHER_WORK_QUEUE_URL"]

    def work() -> None:
        with service.envelope(EXTRACT, UNHURRIED) as envelope:
            assert envelope.invoke(work_event("nobody")).outcome == "response"
            warm.wait()
            while not done.wait(0.05):
                for found in service.sqs.receive_message(QueueUrl=queue, VisibilityTimeout=300).get("Messages", []):
                    report = envelope.invoke(sqs_event(found["Body"], found["ReceiptHandle"]))
                    assert report.payload == {"batchItemFailures": []}, report
                    service.sqs.delete_message(QueueUrl=queue, ReceiptHandle=found["ReceiptHandle"])

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    warm.wait()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def completed(service: Rig, jobs: list[str]) -> list[Any]:
    """Wait until all of these have completed, with a sweep now and then for what could not be queued in time."""
    swept = time.monotonic()

    def over() -> Any:
        nonlocal swept
        if time.monotonic() - swept > SWEEP_SECONDS:
            service.sweep()
            swept = time.monotonic()
        found = [service.job(job_id) for job_id in jobs]
        assert not [job for job in found if job["status"] == "failed"], found
        return found if all(job["status"] == "completed" for job in found) else None

    return list(until(over, "the end of all", 120))


def test_n_slots_are_n_readers_at_one_moment_and_everybody_gets_a_turn(service: Rig) -> None:
    """Design §4, item 3: four jobs on two slots, by four workers; counted where it matters, at the source."""
    drained(service)
    with Watch(service) as watch, workers(service, 4):
        jobs = [posted(service, f"many {n}", "two") for n in range(4)]
        found = completed(service, jobs)
    assert watch.most(*jobs) == 2
    assert all(job["rowCount"] == 25 for job in found)
    assert held(service) == {}
    assert max(job["attempts"] for job in found) > 1
    waits = [service.http("GET", f"/v1/fetcher/{job['id']}/manifest").json()["waits"] for job in found]
    assert [job["attempts"] - 1 for job in found] == waits


def test_a_waiting_job_uses_no_receive_no_try_and_none_of_its_time(service: Rig, connections: dict[str, str]) -> None:
    """Design §6 j: a new message each time, of the next generation, after seconds; `stalled` untouched."""
    waiting = posted(service, "waiting", "one")
    drained(service)
    with occupied(service, connections["one"]):
        assert service.invoke(EXTRACT, work_event(waiting)).payload == {"batchItemFailures": []}
    found = message(service)
    assert json.loads(found["Body"])["generation"] == 1
    assert found["Attributes"]["ApproximateReceiveCount"] == "1"
    job = service.job(waiting)
    assert (job["status"], job["progress"]["current"]) == ("processing", "waiting for a slot")
    assert service.invoke(EXTRACT, work_event(waiting)).payload == {"batchItemFailures": []}
    counted = {name: number(service, waiting, name) for name in ("generation", "waits", "spentMs", "stalled", "tries")}
    assert counted == {"generation": 1, "waits": 1, "spentMs": 0, "stalled": 0, "tries": 0}
    assert "claimToken" not in service.record(waiting)
    service.sweep()
    assert service.job(waiting)["status"] == "processing"
    service.sqs.send_message(QueueUrl=service.env["FETCHER_WORK_QUEUE_URL"], MessageBody=found["Body"])
    done = ended(service, waiting)
    assert "current" not in done["progress"]
    assert held(service) == {}


def test_a_cancel_ends_a_waiting_job_at_once(service: Rig, connections: dict[str, str]) -> None:
    """Design §6 j: nobody has claimed it, so the cancel itself ends it; its slots are nobody's."""
    waiting = posted(service, "cancel waiting", "one", "two")
    with occupied(service, connections["one"]):
        assert service.invoke(EXTRACT, work_event(waiting)).payload == {"batchItemFailures": []}
        assert held(service) == {connections["one"]: ["another"]}
    assert service.job(waiting)["status"] == "processing"
    assert service.http("POST", f"/v1/fetcher/{waiting}/cancel").status == 202
    job = service.job(waiting)
    assert (job["status"], job["error"]["family"]) == ("failed", "canceled")
    assert service.invoke(EXTRACT, work_event(waiting, 1)).payload == {"batchItemFailures": []}
    assert service.job(waiting) == job
    assert held(service) == {}


def test_a_killed_holders_slot_is_its_own_next_attempts_at_once_and_others_later(
    service: Rig, connections: dict[str, str]
) -> None:
    """Design §4, §6 j: the holder is the extraction; for everybody else the lease decides."""
    holder, other = posted(service, "killed holder", "one"), posted(service, "killed other", "one")
    service.invoke(EXTRACT, work_event("nobody"))  # a warm process, for what must be quicker than the lease
    killed(service, holder, Point.FIRST_PAGE, FETCHER_LEASE_SECONDS="8")
    assert held(service)[connections["one"]] == [holder]
    service.invoke(EXTRACT, work_event(other))
    assert service.job(other)["progress"]["current"] == "waiting for a slot"
    until(lambda: number(service, holder, "leaseUntil") < time.time_ns() // 1_000_000, "the end of the lease")
    assert service.invoke(EXTRACT, work_event(holder)).payload == {"batchItemFailures": []}
    job = service.job(holder)
    assert (job["status"], job["attempts"], number(service, holder, "waits")) == ("completed", 2, 0)
    killed(service, dead := posted(service, "dead", "one"), Point.TAKEN)
    until(lambda: leases_over(service, dead), "the end of the leases")
    service.invoke(EXTRACT, work_event(other, 1))
    assert (service.job(other)["status"], service.job(dead)["status"]) == ("completed", "processing")
    ended(service, dead)
    assert held(service) == {}


def test_a_slot_is_renewed_as_long_as_its_job_reads(service: Rig) -> None:
    """Design §6 j: renewed with the heartbeat, over several leases; nobody else reads meanwhile."""
    view(service, "slower", SLOWER)
    long, other = posted(service, "long", "one", table="slower"), posted(service, "short", "one")
    reader = threading.Thread(target=service.invoke, args=(EXTRACT, work_event(long)))
    with Watch(service) as watch, service.envelope(EXTRACT) as envelope:
        reader.start()
        until(lambda: held(service), "the reader's slot")
        generation = 0
        while service.job(other)["status"] != "completed":
            envelope.invoke(work_event(other, generation))
            generation = number(service, other, "generation")
        reader.join()
    assert (service.job(long)["status"], watch.most(long, other)) == ("completed", 1)
    assert service.job(long)["attempts"] == 1


def test_a_slot_that_becomes_anothers_in_the_middle_of_a_read_is_waited_for(
    service: Rig, connections: dict[str, str]
) -> None:
    """Design §6 j: the read ends, at the source too, and the job waits; nobody failed, and every row comes once."""
    view(service, "slower", SLOWER)
    job_id = posted(service, "lost slot", "one", table="slower")
    drained(service)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(service.invoke, EXTRACT, work_event(job_id), FETCHER_LEASE_SECONDS="8")
        until(lambda: active_queries(service, job_id), "the query", 60)
        with occupied(service, connections["one"]):
            assert working.result(60).payload == {"batchItemFailures": []}
            assert active_queries(service, job_id) == 0
            assert held(service) == {connections["one"]: ["another"]}
            assert service.job(job_id)["progress"]["current"] == "waiting for a slot"
            assert "claimToken" not in service.record(job_id)
            assert json.loads(message(service)["Body"])["generation"] == 1
            spent = number(service, job_id, "spentMs")
            assert spent > 0
            assert service.invoke(EXTRACT, work_event(job_id, 1)).payload == {"batchItemFailures": []}
    counted = {name: number(service, job_id, name) for name in ("generation", "waits", "spentMs", "stalled", "tries")}
    assert counted == {"generation": 2, "waits": 2, "spentMs": spent, "stalled": 0, "tries": 0}
    assert service.invoke(EXTRACT, work_event(job_id, 2)).payload == {"batchItemFailures": []}
    done = service.job(job_id)
    assert (done["status"], done["attempts"]) == ("completed", 3), done
    assert [row["n"] for row in json.loads(service.result(done))["one"]["slower"]] == list(range(1, 81))
    assert held(service) == {}


def test_a_worker_that_dies_when_it_begins_to_wait_is_followed_by_the_sweeper(
    service: Rig, connections: dict[str, str]
) -> None:
    """R-000-73: the wait is written, its message was never sent, and no lease has to end."""
    waiting = posted(service, "dying waiting", "one")
    with occupied(service, connections["one"]):
        killed(service, waiting, Point.HANDED_OVER)
    drained(service)
    assert "claimToken" not in service.record(waiting)
    assert service.job(waiting)["progress"]["current"] == "waiting for a slot"
    where = {"PK": {"S": f"T#default#EXTRACTION#{waiting}"}, "SK": {"S": "META"}}
    service.dynamodb.update_item(
        TableName=service.env["FETCHER_MAIN_TABLE"],
        Key=where,
        UpdateExpression="SET lookAt = :now",
        ExpressionAttributeValues={":now": {"N": "1"}},
    )
    ended(service, waiting)
    assert held(service) == {}


@pytest.mark.parametrize("end", ["completed", "failed", "canceled", "dead letter"])
def test_no_slot_is_held_after_the_end_of_any_job(service: Rig, end: str) -> None:
    """Design §6 j: freed by whoever wrote the end."""
    drained(service)
    view(service, "breaks", "SELECT 1 / (n - 3) AS n FROM generate_series(1, 5) n")
    table = "breaks" if end == "failed" else "paced"
    job_id = posted(service, f"end {end}", "one", "two", table=table)
    if end in {"completed", "failed"}:
        service.invoke(EXTRACT, work_event(job_id))
    else:
        killed(service, job_id, Point.PLANNED)
        assert len(held(service)) == 2
        until(lambda: leases_over(service, job_id), "the end of the leases")
        if end == "canceled":
            assert service.http("POST", f"/v1/fetcher/{job_id}/cancel").status == 202
        else:
            service.invoke("extract.dead_letter.handler", work_event(job_id))
    assert service.job(job_id)["status"] == ("completed" if end == "completed" else "failed")
    assert held(service) == {}


def test_two_datasources_are_taken_all_or_none_so_nobody_waits_for_ever(service: Rig) -> None:
    """Design §6 j: in sorted order, whatever order the request has them in."""
    drained(service)
    with Watch(service) as watch, workers(service, 3):
        jobs = [posted(service, f"both {n}", *(("one", "two") if n % 2 else ("two", "one"))) for n in range(3)]
        completed(service, jobs)
    assert watch.most(*jobs) == 1
    assert held(service) == {}
