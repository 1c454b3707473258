"""A crash anywhere between two effects, and the service recovers to the same end (`design.md` §6)."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from fetcher.core.faults import Point
from tests.integration.test_bounds import source, view
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, Rig, sqs_event, until, work_event

pytestmark = pytest.mark.stack

SMALL = {"public.accounts": ["id", "email"]}
LARGE = {"public.movements": ["*"]}
"""Over 8 MiB, so that it is stored in parts."""

LEASE_SECONDS = 2
BLOCK = 256 // 8 + 2
"""Part numbers of one worker, by the bound of 256 MiB."""
LAST_WRITER = 10_000 // BLOCK - 1
"""How many workers had an upload after which no other has room in it."""
MARGIN_SECONDS = 60
"""Of the Lambda's time, kept for the hand-over; what is above it is an attempt's."""


@pytest.fixture(scope="module")
def undisturbed(service: Rig) -> dict[str, bytes]:
    """The bytes that each job gives when nothing goes wrong."""
    return {name: finished(service, posted(service, tables, f"calm {name}")) for name, tables in TABLES.items()}


TABLES = {"small": SMALL, "large": LARGE}


def posted(service: Rig, tables: Mapping[str, Any], name: str, datasource: str = "my_postgres") -> str:
    """Post a job and return its id."""
    return service.posted({datasource: tables}, name)


def killed(service: Rig, job_id: str, point: Point) -> None:
    """Hand the job's message to a worker that dies at this point."""
    report = service.invoke(EXTRACT, work_event(job_id), FETCHER_FAULT=point)
    assert report.outcome == "exited", report


def finished(service: Rig, job_id: str) -> bytes:
    """Drive the queue and the sweeper until the job has ended well, and return its bytes."""
    job = ended(service, job_id)
    assert job["status"] == "completed", job
    return service.result(job)


def ended(service: Rig, job_id: str) -> Any:
    """Drive the queue and the sweeper until the job has ended, and return it."""

    def over() -> Any:
        service.sweep()
        service.work()
        job = service.job(job_id)
        return job if job["status"] in {"completed", "failed"} else None

    return until(over, f"the end of {job_id}", 40)


def put(service: Rig, job_id: str, name: str, value: int) -> None:
    """Set a number of the stored record."""
    service.dynamodb.update_item(
        TableName=service.env["FETCHER_MAIN_TABLE"],
        Key={name: service.record(job_id)[name] for name in ("PK", "SK")},
        UpdateExpression="SET #n = :v",
        ExpressionAttributeNames={"#n": name},
        ExpressionAttributeValues={":v": {"N": str(value)}},
    )


def event_ids(service: Rig, job_id: str, seconds: float = 60) -> list[str]:
    """Drive notify and the sweeper until an event of the job was published; return all its ids."""
    found: list[str] = []

    def published() -> bool:
        service.sweep()
        while service.notify() is not None:
            continue
        events = service.published(0.3)
        found.extend(event["detail"]["id"] for event in events if event["detail"]["jobId"] == job_id)
        return bool(found)

    until(published, f"the event of {job_id}", seconds)
    return found


def manifest(service: Rig, job_id: str) -> Any:
    """The manifest of a finished job."""
    return service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()


def test_a_take_over_goes_on_from_the_checkpoint(service: Rig, undisturbed: dict[str, bytes]) -> None:
    """R-002-3: behind the last stored part, in a block of part numbers of its own, to the same bytes."""
    job_id = posted(service, LARGE, "resume")
    killed(service, job_id, Point.PART_STORED)
    item = service.record(job_id)
    done = sum(int(rows["N"]) for rows in item["checkpoint"]["M"]["mark"]["M"]["rows"]["L"])
    assert 0 < done < 200_000
    assert finished(service, job_id) == undisturbed["large"]
    table = manifest(service, job_id)["datasources"][0]
    assert (table["snapshots"], table["tables"][0]["rows"]) == (2, 200_000)
    assert "one_snapshot" in [claim["code"] for claim in manifest(service, job_id)["notProven"]]


def test_a_part_is_stored_before_the_checkpoint_that_trusts_it(service: Rig, undisturbed: dict[str, bytes]) -> None:
    """R-002-5, R-002-6, R-002-10: between the two, what is stored is read once more, and the bytes are the same."""
    job_id = posted(service, LARGE, "page and checkpoint")
    killed(service, job_id, Point.PART_SENT)
    known = service.record(job_id)["checkpoint"]["M"]
    upload = {"Bucket": service.env["FETCHER_BUCKET"], "Key": known["key"]["S"], "UploadId": known["uploadId"]["S"]}
    assert len(service.s3.list_parts(**upload)["Parts"]) == 1
    assert (known["parts"]["L"], "mark" in known) == ([], False)
    assert finished(service, job_id) == undisturbed["large"]


def test_a_large_job_is_handed_from_attempt_to_attempt(service: Rig) -> None:
    """R-004-69, R-AWS-5: a part of a second an attempt, ten attempts and more, the same bytes as in one.

    An attempt that stored no part gets longer, one that stored several gets shorter: 29 parts make ten attempts then,
    however fast the machine. The time that the job has spent grows over all of them (design §6).
    """
    with source(service) as connection:
        connection.execute("CREATE TABLE public.many (id int PRIMARY KEY, text text NOT NULL)")
        connection.execute("INSERT INTO public.many SELECT n, repeat('x', 16384) FROM generate_series(1, 14500) n")
    calm = finished(service, posted(service, {"public.many": ["*"]}, "in one"))
    job_id = posted(service, {"public.many": ["*"]}, "hand over")
    put(service, job_id, "spentMs", 100_000)
    budget, times = 0.6, [100_000]
    with service.envelope(EXTRACT) as worker:
        while service.job(job_id)["status"] not in {"completed", "failed"}:
            before, generation = checkpointed(service, job_id), int(service.record(job_id)["generation"]["N"])
            report = worker.invoke(work_event(job_id, generation), MARGIN_SECONDS + budget)
            assert report.payload == {"batchItemFailures": []}, report
            times.append(spent(service, job_id))
            stored = checkpointed(service, job_id) - before
            budget *= 1.3 if stored < 1 else 0.7 if stored > 1 else 1
    job = service.job(job_id)
    assert job["status"] == "completed", job
    assert job["attempts"] >= 10
    assert times == sorted(times)
    assert times[-1] > times[1]
    assert service.result(job) == calm
    [datasource] = manifest(service, job_id)["datasources"]
    assert datasource["snapshots"] >= 5
    assert datasource["tables"][0]["rows"] == job["rowCount"] == 14_500
    assert event_ids(service, job_id) == [f"fetcher.job.completed.{job_id}"]


def checkpointed(service: Rig, job_id: str) -> int:
    """Parts that are stored and known."""
    found = service.record(job_id).get("checkpoint", {}).get("M", {})
    return len(found.get("parts", {"L": []})["L"])


@pytest.mark.parametrize(("writer", "attempts"), [(LAST_WRITER - 1, 2), (LAST_WRITER, 1)])
def test_part_numbers_never_go_beyond_what_s3_takes(
    service: Rig, undisturbed: dict[str, bytes], writer: int, attempts: int
) -> None:
    """R-AWS-7: the last worker whose block of numbers fits goes on; the next one begins a new upload."""
    job_id = posted(service, LARGE, f"writer {writer}")
    killed(service, job_id, Point.PART_STORED)
    known = service.record(job_id)
    put(service, job_id, "writer", writer)
    assert finished(service, job_id) == undisturbed["large"]
    assert manifest(service, job_id)["datasources"][0]["snapshots"] == attempts
    gone_on = service.record(job_id)["result"]["M"]["path"] == known["checkpoint"]["M"]["key"]
    assert gone_on == (attempts == 2)


def test_a_changed_connection_is_read_from_the_beginning(service: Rig, undisturbed: dict[str, bytes]) -> None:
    """R-002-13: a checkpoint of another plan or connection version is not used."""
    job_id = posted(service, LARGE, "changed")
    killed(service, job_id, Point.PART_STORED)
    service.touch_connection("my_postgres")
    assert finished(service, job_id) == undisturbed["large"]
    assert manifest(service, job_id)["datasources"][0]["snapshots"] == 1


@pytest.mark.parametrize(("spent_ms", "status"), [(299_000, "failed"), (290_000, "completed")])
def test_what_earlier_attempts_spent_is_no_time_of_this_one(service: Rig, spent_ms: int, status: str) -> None:
    """Design §6, R-000-40: five minutes summed over attempts; two seconds of them end a job, or are counted."""
    view(service, "two seconds", "SELECT n, pg_sleep(0.2)::text AS s FROM generate_series(1, 10) n")
    job_id = posted(service, {"two seconds": ["*"]}, f"spent {spent_ms}")
    put(service, job_id, "spentMs", spent_ms)
    job = ended(service, job_id)
    assert (job["status"], job.get("error", {}).get("family")) == (status, "timeout" if status == "failed" else None)
    assert spent(service, job_id) >= spent_ms + (2_000 if status == "completed" else 0)


def test_the_time_that_a_job_spent_never_falls(service: Rig, undisturbed: dict[str, bytes]) -> None:
    """Design §6: neither by a death, nor by a new upload from the beginning."""
    job_id = posted(service, LARGE, "time goes on")
    put(service, job_id, "spentMs", 100_000)
    seen = [100_000]
    for point in (Point.PART_STORED, Point.UPLOAD_NOTED):
        killed(service, job_id, point)
        seen.append(spent(service, job_id))
        service.touch_connection("my_postgres")
        until(lambda: int(service.record(job_id)["leaseUntil"]["N"]) < time.time() * 1000, "the end of the lease")
    assert finished(service, job_id) == undisturbed["large"]
    seen.append(spent(service, job_id))
    assert seen == sorted(set(seen)), "each attempt adds to it"


def spent(service: Rig, job_id: str) -> int:
    """Milliseconds of the job's own time that are gone."""
    return int(service.record(job_id)["spentMs"]["N"])


@pytest.mark.parametrize(
    ("how", "after"),
    [
        ("gone", "nothing"),
        ("deleted", "nothing"),
        ("another's", "nothing"),
        ("another's", "a checkpoint"),
    ],
)
def test_a_connection_that_is_gone_or_anothers_ends_the_job(service: Rig, how: str, after: str) -> None:
    """R-000-6: it is found again at every claim; what was read of it before becomes no result."""
    name = f"was_{how[:3]}_{after[0]}"
    connection = service.register(name).json()["id"]
    job_id = posted(service, LARGE, f"{how} after {after}", name)
    if after == "a checkpoint":
        killed(service, job_id, Point.PART_STORED)
        assert [key for key in service.uploads() if job_id in key]
    lose(service, connection, how)
    job = ended(service, job_id)
    shown = {name: job["error"][name] for name in ("code", "family", "datasource", "phase")}
    assert shown == {"code": "FET-2010", "family": "invalid", "datasource": name, "phase": "starting"}
    assert "resultPath" not in job
    assert job["attempts"] == (1 if after == "nothing" else 2)
    assert not [key for key in service.objects() + service.uploads() if job_id in key]
    assert not service.slots_held(job_id)
    assert event_ids(service, job_id) == [f"fetcher.job.failed.{job_id}"]


def lose(service: Rig, connection: str, how: str) -> None:
    """Take a connection from a job that uses it, past the API, which would refuse that."""
    table = service.env["FETCHER_CONNECTIONS_TABLE"]
    key = {"PK": {"S": f"T#default#CONNECTION#{connection}"}, "SK": {"S": "META"}}
    if how == "gone":
        service.dynamodb.delete_item(TableName=table, Key=key)
        return
    name, value = ("productName", "lending") if how == "another's" else ("deletedAt", "2026-01-01T00:00:00Z")
    service.dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET #n = :v",
        ExpressionAttributeNames={"#n": name},
        ExpressionAttributeValues={":v": {"S": value}},
    )


def test_a_live_lease_is_not_taken(service: Rig) -> None:
    """R-000-60, 68, 69: it is `processing`; a second delivery has no effect while the first one's lease lives."""
    job_id = posted(service, SMALL, "live lease")
    killed(service, job_id, Point.CLAIMED)
    again = service.invoke(EXTRACT, work_event(job_id))
    assert again.payload == {"batchItemFailures": []}
    job = service.job(job_id)
    assert (job["status"], job["attempts"]) == ("processing", 1)
    finished(service, job_id)


def test_a_large_body_is_kept_in_s3_and_reads_back_the_same(service: Rig) -> None:
    """R-000-12: over 100 KB the item carries a reference only."""
    values = [f"{n:0200d}" for n in range(600)]
    asked = {
        "mappedFields": {"my_postgres": SMALL},
        "filters": {"my_postgres": {"public.accounts": {"email": {"nin": values}}}},
    }
    answer = service.post({"dataRequest": asked, "metadata": {"source": "payments", "correlationId": "large body"}})
    assert answer.status == 202, answer
    job_id = answer.json()["jobId"]
    assert f"requests/default/{job_id}.json" in service.objects()
    assert service.job(job_id)["filters"] == asked["filters"]
    assert all(len(json.dumps(item, default=str)) < 16_000 for item in service.items())
    finished(service, job_id)


@pytest.mark.parametrize("point", [Point.PUBLISHED, Point.MARKED])
def test_an_event_that_is_sent_twice_carries_one_id(service: Rig, point: Point) -> None:
    """R-000-81: at least once, under one id."""
    job_id = posted(service, SMALL, f"publish {point}")
    finished(service, job_id)
    report = service.invoke(NOTIFY, work_event(job_id), FETCHER_FAULT=point)
    assert report.outcome == "exited", report
    expected = 2 if point is Point.PUBLISHED else 1
    ids = event_ids(service, job_id)
    while len(ids) < expected:
        ids += event_ids(service, job_id)
    service.sweep()
    service.notify()
    ids += [event["detail"]["id"] for event in service.published(1) if event["detail"]["jobId"] == job_id]
    assert set(ids) == {f"fetcher.job.completed.{job_id}"}
    assert len(ids) == expected


def test_a_poison_message_fails_its_job_with_an_event(service: Rig) -> None:
    """R-000-76: the dead-letter consumer ends what nobody works on."""
    job_id = posted(service, SMALL, "poison")
    report = service.invoke(DEAD_LETTER, work_event(job_id))
    assert report.payload == {"batchItemFailures": []}
    job = service.job(job_id)
    assert (job["status"], job["error"]["family"], job["error"]["phase"]) == ("failed", "internal", "queued")
    assert event_ids(service, job_id) == [f"fetcher.job.failed.{job_id}"]


def test_a_dead_letter_never_fails_a_live_worker_nor_a_newer_generation(service: Rig) -> None:
    """Design §4: only the message's own generation, and only when nobody holds the claim."""
    job_id = posted(service, SMALL, "poison while alive")
    service.invoke(DEAD_LETTER, work_event(job_id, generation=-1))  # its process has started: it comes within the lease
    killed(service, job_id, Point.CLAIMED)
    service.invoke(DEAD_LETTER, work_event(job_id))
    service.invoke(DEAD_LETTER, work_event(job_id, generation=-1))
    assert service.job(job_id)["status"] == "processing"
    finished(service, job_id)


def test_an_extraction_that_five_workers_could_not_further_fails(service: Rig) -> None:
    """Design §4: `stalled` counts claims over a dead lease; five end the job, by whoever comes next."""
    job_id = posted(service, SMALL, "stalled")
    for _ in range(6):
        service.invoke(EXTRACT, work_event(job_id), FETCHER_FAULT=Point.CLAIMED)
        time.sleep(LEASE_SECONDS + 0.1)

    def failed() -> Any:
        service.sweep()
        service.work()
        job = service.job(job_id)
        return job if job["status"] == "failed" else None

    error = until(failed, "the end")["error"]
    assert (error["family"], error["phase"]) == ("internal", "starting")


def test_a_message_of_an_unknown_version_goes_back(service: Rig) -> None:
    """Design §4: rolling upgrades."""
    event = sqs_event('{"v":2}')
    report = service.invoke(EXTRACT, event)
    assert report.payload == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
