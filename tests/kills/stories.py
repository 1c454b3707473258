"""What happens to a job, whoever dies meanwhile."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fetcher.core.faults import ARMED, Point
from fetcher.core.lifecycle import STALLED_LIMIT
from tests.kills.driver import LIMIT_SECONDS, Driver, Kill
from tests.kills.sources import ENDLESS, HOURLY, NARROW, SHAKY
from tests.rig import DEAD_LETTER, EXTRACT, SUBMIT, until, work_event

SMALL = {"public.accounts": ["id", "email"]}
SECOND = {"accounting.invoices": ["id", "amount"]}
LARGE = {"public.movements": ["*"]}
"""Over 8 MiB, so that it is stored in parts."""

REQUESTS: Mapping[tuple[str, str], dict[str, Any]] = {
    ("small", "one"): {"my_postgres": SMALL},
    ("small", "several"): {"my_postgres": SMALL, "my_second": SECOND},
    ("large", "one"): {"my_postgres": LARGE},
    ("large", "several"): {"my_postgres": LARGE, "my_second": SECOND},
}
"""Tables by size and number of datasources."""

OVER = {"ENGINE_MAX_RESULT_BYTES": str(18 * 1024 * 1024)}
"""More than two parts, and less than the large table."""

NOWHERE = "http://127.0.0.1:1/no-such-queue"

HAVE_A_JOB = [Kill(SUBMIT, point) for point in (Point.ACCEPTED, Point.SENT, Point.DISPATCHED)]
"""Behind these the request is a job, so who asks again hears of that one."""

Story = Callable[[Driver, Mapping[str, Any]], str]
"""Plays a job with these tables to its end and returns its id."""


def posted(driver: Driver, tables: Mapping[str, Any], filters: Any = None, **env: str) -> str:
    """Post a job that is like no other and return its id."""
    metadata = {"source": "payments", "correlationId": driver.folder.name}
    request = {"dataRequest": {"mappedFields": tables, "filters": filters}, "metadata": metadata}
    answer = driver.send("POST", "/v1/fetcher", request, **env)
    assert answer.status == (200 if driver.killed and driver.kill in HAVE_A_JOB else 202), answer
    driver.job_id = str(answer.json()["jobId"])
    return driver.job_id


def dies(driver: Driver, job_id: str, point: Point) -> None:
    """Let a worker die at this point, in calm stories too. Its lease is over when the story says so."""
    report = driver.service.invoke(EXTRACT, work_event(job_id), **{ARMED: point})
    assert report.outcome == "exited", report


def left_behind(driver: Driver, tables: Mapping[str, Any]) -> str:
    """Post a job whose worker dies with all that one can hold: claim, slots, object and manifest; its message too."""
    job_id = posted(driver, tables)
    driver.lose("FETCHER_WORK_QUEUE_URL")
    dies(driver, job_id, Point.MANIFEST_STORED)
    return job_id


def comes_to(driver: Driver, job_id: str, status: str, do: Callable[[], object]) -> None:
    """Do something again and again, since a kill may come between, until the job's status is this."""

    def there() -> bool:
        do()
        return bool(driver.service.job(job_id)["status"] == status)

    until(there, f"the end of {job_id}", LIMIT_SECONDS)


def swept_to_its_end(driver: Driver, job_id: str, **env: str) -> str:
    """Let nobody but the sweeper look at the job, until it has ended; then do what else is due."""
    comes_to(driver, job_id, "failed", partial(driver.sweep, job_id, **env))
    driver.drive(job_id)
    return job_id


def ordinary(driver: Driver, tables: Mapping[str, Any]) -> str:
    """Nothing else happens."""
    job_id = posted(driver, tables)
    driver.drive(job_id)
    return job_id


def large_body(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The body is kept in S3."""
    ids = {"id": {"nin": [str(number) for number in range(10**12, 10**12 + 9_000)]}}
    job_id = posted(driver, tables, filters={"my_postgres": dict.fromkeys(tables["my_postgres"], ids)})
    driver.drive(job_id)
    return job_id


def invalid(driver: Driver, tables: Mapping[str, Any]) -> str:
    """One field does not exist."""
    (name, *_) = tables["my_postgres"]
    wrong = {**tables["my_postgres"], name: ["id", "no_such_field"]}
    job_id = posted(driver, {**tables, "my_postgres": wrong})
    driver.drive(job_id)
    return job_id


def never_sent(driver: Driver, tables: Mapping[str, Any]) -> str:
    """Neither message of the job reaches its queue; the sweeper sends them."""
    job_id = posted(driver, tables, FETCHER_WORK_QUEUE_URL=NOWHERE)

    def sweep_and_work() -> None:
        driver.sweep(job_id)
        driver.deliver(EXTRACT)

    comes_to(driver, job_id, "completed", sweep_and_work)
    driver.lose("FETCHER_NOTIFICATIONS_QUEUE_URL")
    driver.drive(job_id)
    return job_id


def swept_in_vain(driver: Driver, job_id: str, queue: str) -> None:
    """Let a sweeper come that cannot send to this queue what it took."""

    def failed() -> bool:
        return driver.sweep(job_id, **{queue: NOWHERE}).outcome != "response"

    until(failed, f"a sweep in vain of {job_id}", LIMIT_SECONDS)


def taken_in_vain(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The sweeper cannot send the job's message, and gives the job back; the next sweep sends it."""
    job_id = posted(driver, tables, FETCHER_WORK_QUEUE_URL=NOWHERE)
    swept_in_vain(driver, job_id, "FETCHER_WORK_QUEUE_URL")
    driver.drive(job_id)
    return job_id


def event_taken_in_vain(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The sweeper cannot send the hint at the job's event, and gives the event back; the next sweep sends it."""
    job_id = posted(driver, tables)
    comes_to(driver, job_id, "completed", partial(driver.deliver, EXTRACT))
    driver.lose("FETCHER_NOTIFICATIONS_QUEUE_URL")
    swept_in_vain(driver, job_id, "FETCHER_NOTIFICATIONS_QUEUE_URL")
    driver.drive(job_id)
    return job_id


def handed_over(driver: Driver, tables: Mapping[str, Any]) -> str:
    """An attempt has a second; when one was not enough, which is soon, the next one goes on at ease."""
    job_id = posted(driver, tables)

    def handed() -> bool:
        driver.sweep(job_id)
        driver.deliver(EXTRACT, FETCHER_MARGIN_SECONDS="119")
        return int(driver.service.record(job_id)["generation"]["N"]) > 0

    until(handed, f"a hand-over of {job_id}", LIMIT_SECONDS)
    driver.drive(job_id)
    return job_id


def taken_over(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A first worker dies behind a part; the second goes on from there."""
    job_id = posted(driver, tables)
    dies(driver, job_id, Point.PART_STORED)
    driver.expire(job_id)
    driver.drive(job_id)
    return job_id


def read_again(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A first worker dies behind a small object; the second one reads again under another name, and drops it."""
    job_id = posted(driver, tables)
    dies(driver, job_id, Point.STORED)
    driver.expire(job_id)
    driver.drive(job_id)
    return job_id


def begun_again(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A first worker dies behind a part; the connection changes, so the second one starts from the beginning."""
    job_id = posted(driver, tables)
    dies(driver, job_id, Point.PART_STORED)
    driver.expire(job_id)
    driver.service.touch_connection("my_postgres")
    driver.drive(job_id)
    return job_id


def slot_waited_for(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The only slot is another job's for a while."""
    with driver.service.slot_held(NARROW):
        job_id = posted(driver, {NARROW: tables["my_postgres"]})
        driver.invoke(EXTRACT, work_event(job_id))  # itself, whatever else is left in the queue
    driver.drive(job_id)
    return job_id


def canceled(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller cancels before a worker comes."""
    job_id = posted(driver, tables)
    answer = driver.send("POST", f"/v1/fetcher/{job_id}/cancel")
    assert answer.status in {202, 409}, answer
    driver.drive(job_id)
    return job_id


def canceled_behind_a_worker(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller cancels when a worker has died and its lease is over: the cancel itself ends the job."""
    job_id = left_behind(driver, tables)
    driver.expire(job_id)
    answer = driver.send("POST", f"/v1/fetcher/{job_id}/cancel")
    assert answer.status in {202, 409}, answer
    driver.drive(job_id)
    return job_id


def canceled_while_read(driver: Driver, _tables: Mapping[str, Any]) -> str:
    """The caller cancels while a worker reads, which hears of it by its heartbeat."""
    job_id = posted(driver, {"my_postgres": ENDLESS})
    worker = threading.Thread(target=driver.invoke, args=(EXTRACT, work_event(job_id)), daemon=True)
    worker.start()

    def read() -> bool:
        job = driver.service.job(job_id)
        return bool(job["status"] == "processing" and job["progress"]["rows"])

    until(read, "the first rows", LIMIT_SECONDS)
    answer = driver.send("POST", f"/v1/fetcher/{job_id}/cancel")
    assert (answer.status, answer.json()["status"]) == (202, "processing"), answer
    worker.join(LIMIT_SECONDS)
    driver.drive(job_id)
    return job_id


def left_and_canceled(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller cancels while the lease of a worker that died lasts, which is over then."""
    job_id = left_behind(driver, tables)
    answer = driver.send("POST", f"/v1/fetcher/{job_id}/cancel")
    assert (answer.status, answer.json()["status"]) == (202, "processing"), answer
    driver.expire(job_id)
    return job_id


def canceled_and_swept(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller cancels while the lease of a worker that died lasts; when it is over, the sweeper ends the job."""
    job_id = left_and_canceled(driver, tables)
    return swept_to_its_end(driver, job_id)


def canceled_and_taken_over(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller cancels while the lease of a worker that died lasts; when it is over, the next worker ends the job."""
    job_id = left_and_canceled(driver, tables)
    comes_to(driver, job_id, "failed", partial(driver.invoke, EXTRACT, work_event(job_id)))
    driver.drive(job_id)
    return job_id


def stalled(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A worker dies as four did before it, which the record alone says here; the sweeper ends the job."""
    job_id = left_behind(driver, tables)
    driver.expire(job_id, stalled=STALLED_LIMIT)
    return swept_to_its_end(driver, job_id)


def waited_too_long(driver: Driver, tables: Mapping[str, Any]) -> str:
    """No worker comes for as long as the deployment lets a job wait, which is no time here; the sweeper ends it."""
    job_id = posted(driver, tables)
    driver.lose("FETCHER_WORK_QUEUE_URL")
    driver.expire(job_id)
    return swept_to_its_end(driver, job_id, FETCHER_MAX_QUEUED_HOURS="0.0000001")


def over_the_bound(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The result is larger than allowed, which shows when parts of it are stored."""
    job_id = posted(driver, tables)
    driver.drive(job_id, **OVER)
    return job_id


def erased(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller erases the result."""
    job_id = ordinary(driver, tables)
    answer = driver.send("DELETE", f"/v1/fetcher/{job_id}/result")
    assert answer.status in {204, 404, 410}, answer
    return job_id


def poisoned(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The message was received five times, the last time by a worker that died; the dead-letter consumer has it."""
    job_id = left_behind(driver, tables)
    driver.expire(job_id)
    comes_to(driver, job_id, "failed", partial(driver.invoke, DEAD_LETTER, work_event(job_id)))
    driver.drive(job_id)
    return job_id


def released(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A worker fails without dying, since its signing key cannot be read; the next one can read it."""
    job_id = posted(driver, tables)
    driver.deliver(EXTRACT, FETCHER_MASTER_SECRET_ID="no-such-secret")
    comes_to(driver, job_id, "completed", partial(driver.invoke, EXTRACT, work_event(job_id)))
    driver.drive(job_id)
    return job_id


def source_cut(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The wire to the source breaks once; the worker tries again."""
    job_id = posted(driver, {SHAKY: tables["my_postgres"]})
    driver.sources.cut()
    driver.drive(job_id)
    return job_id


def source_used_up(driver: Driver, _tables: Mapping[str, Any]) -> str:
    """The server wants to be left alone for a while; the job waits for it outside of any worker."""
    job_id = posted(driver, {HOURLY: {"cards": ["id", "number"]}})
    with driver.sources.used_up():
        driver.invoke(EXTRACT, work_event(job_id))  # itself, whatever else is left in the queue

    def receive() -> None:
        """The wait is over: its message comes, whichever generation it is of."""
        for generation in (0, 1):
            driver.invoke(EXTRACT, work_event(job_id, generation))

    comes_to(driver, job_id, "completed", receive)
    driver.drive(job_id)
    return job_id


def reconfigured(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The connection is changed and tested, and its schema asked for, before a job reads it."""
    path = f"/v1/management/connections/{driver.service.connection_id('my_third')}"
    workers = 1 + int(driver.folder.name, 16) % 50
    changed = driver.send("PATCH", path, {"limits": {"maxWorkers": workers}})
    assert (changed.status, changed.json()["limits"]["maxWorkers"]) == (200, workers)
    tested = driver.send("POST", f"{path}/test")
    assert (tested.status, tested.json()["status"]) == (200, "success")
    asked = driver.send("GET", f"{path}/schema")
    assert "accounts" in [table["name"] for table in asked.json()["tables"]], asked
    return ordinary(driver, {"my_third": tables["my_postgres"]})
