"""What happens to a job, and the point of each story at which somebody dies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fetcher.core.faults import ARMED, Point
from tests.kills.driver import LIMIT_SECONDS, Driver, Kill
from tests.kills.sources import HOURLY, NARROW, SHAKY
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER, until, work_event

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

Story = Callable[[Driver, Mapping[str, Any]], str]
"""Plays a job with these tables to its end and returns its id."""


def posted(driver: Driver, tables: Mapping[str, Any], filters: Any = None, **env: str) -> str:
    """Post a job that is like no other and return its id."""
    metadata = {"source": "payments", "correlationId": driver.folder.name}
    request = {"dataRequest": {"mappedFields": tables, "filters": filters}, "metadata": metadata}
    answer = driver.send("POST", "/v1/fetcher", request, **env)
    assert answer.status in {200, 202}, answer
    return str(answer.json()["jobId"])


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
    job_id = posted(driver, tables, FETCHER_WORK_QUEUE_URL="http://127.0.0.1:1/no-such-queue")

    def ended() -> bool:
        driver.sweep(job_id)
        driver.deliver(EXTRACT)
        return bool(driver.service.job(job_id)["status"] == "completed")

    until(ended, f"the end of {job_id}", LIMIT_SECONDS)
    driver.lose("FETCHER_NOTIFICATIONS_QUEUE_URL")
    driver.drive(job_id)
    return job_id


def handed_over(driver: Driver, tables: Mapping[str, Any]) -> str:
    """Each attempt has a second; then the next one goes on."""
    job_id = posted(driver, tables)
    driver.drive(job_id, FETCHER_MARGIN_SECONDS="119")
    return job_id


def taken_over(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A first worker dies behind a part; the second goes on from there."""
    job_id = posted(driver, tables)
    report = driver.service.invoke(EXTRACT, work_event(job_id), **{ARMED: Point.PART_STORED})
    assert report.outcome == "exited", report
    driver.drive(job_id)
    return job_id


def begun_again(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A first worker dies behind a part; the connection changes, so the second one starts from the beginning."""
    job_id = posted(driver, tables)
    report = driver.service.invoke(EXTRACT, work_event(job_id), **{ARMED: Point.PART_STORED})
    assert report.outcome == "exited", report
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


def erased(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The caller erases the result."""
    job_id = ordinary(driver, tables)
    answer = driver.send("DELETE", f"/v1/fetcher/{job_id}/result")
    assert answer.status in {204, 404, 410}, answer
    return job_id


def poisoned(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The message was received five times; the dead-letter queue's consumer has it."""
    job_id = posted(driver, tables)
    driver.lose("FETCHER_WORK_QUEUE_URL")

    def failed() -> bool:
        driver.invoke(DEAD_LETTER, work_event(job_id))
        return bool(driver.service.job(job_id)["status"] == "failed")

    until(failed, f"the end of {job_id}", LIMIT_SECONDS)
    driver.drive(job_id)
    return job_id


def released(driver: Driver, tables: Mapping[str, Any]) -> str:
    """A worker fails without dying, since its signing key cannot be read; the next one can read it."""
    job_id = posted(driver, tables)
    driver.deliver(EXTRACT, FETCHER_MASTER_SECRET_ID="no-such-secret")

    def completed() -> bool:
        driver.invoke(EXTRACT, work_event(job_id))
        return bool(driver.service.job(job_id)["status"] == "completed")

    until(completed, f"the end of {job_id}", LIMIT_SECONDS)
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

    def completed() -> bool:
        """The wait is over: its message comes, whichever generation it is of."""
        for generation in (0, 1):
            driver.invoke(EXTRACT, work_event(job_id, generation))
        return bool(driver.service.job(job_id)["status"] == "completed")

    until(completed, f"the end of {job_id}", LIMIT_SECONDS)
    driver.drive(job_id)
    return job_id


def reconfigured(driver: Driver, tables: Mapping[str, Any]) -> str:
    """The connection is changed and tested before a job reads it."""
    path = f"/v1/management/connections/{driver.service.connection_id('my_third')}"
    workers = 1 + len(driver.folder.name) % 5
    changed = driver.send("PATCH", path, {"limits": {"maxWorkers": workers}})
    assert (changed.status, changed.json()["limits"]["maxWorkers"]) == (200, workers)
    tested = driver.send("POST", f"{path}/test")
    assert (tested.status, tested.json()["status"]) == (200, "success")
    return ordinary(driver, {"my_third": tables["my_postgres"]})


@dataclass(frozen=True, slots=True)
class Cell:
    """One kill: a story, and who dies where."""

    story: Story
    kill: Kill

    def __str__(self) -> str:
        handler = self.kill.handler.removesuffix(".handler").removesuffix(".app")
        return f"{self.story.__name__}-{handler}-{self.kill.point}"


def _cells(handler: str, story: Story, *points: Point) -> tuple[Cell, ...]:
    return tuple(Cell(story, Kill(handler, point)) for point in points)


THE_END = (Point.ENDING, Point.FINISHED)
AROUND = (
    *_cells(SUBMIT, large_body, Point.STORING_BODY, Point.BODY_STORED),
    *_cells(SUBMIT, ordinary, Point.ACCEPTING, Point.ACCEPTED, Point.SENT, Point.DISPATCHED),
    *_cells(SUBMIT, canceled, Point.CANCELING, Point.CANCEL_MARKED, Point.FINISHED),
    *_cells(SUBMIT, reconfigured, Point.CHANGING, Point.CHANGED, Point.RATED),
    *_cells(SUBMIT, erased, Point.ERASING, Point.OBJECTS_ERASED, Point.ERASED),
    *_cells(NOTIFY, ordinary, Point.PUBLISHING, Point.PUBLISHED, Point.MARKED),
    *_cells(SWEEPER, never_sent, Point.SWEEPING, Point.SWEPT, Point.SENT_AGAIN),
    *_cells(SWEEPER, never_sent, Point.OUTBOX_SWEPT, Point.NOTIFIED_AGAIN),
    *_cells(DEAD_LETTER, poisoned, Point.FINISHED),
)
"""Before and after the worker: submit, notify, sweeper, dead letter."""

WORKER = (
    *_cells(EXTRACT, ordinary, Point.CLAIMING, Point.CLAIMED, Point.TAKING, Point.TAKEN, Point.OPENED),
    *_cells(EXTRACT, ordinary, Point.REMEMBERED, Point.PLANNED, Point.FIRST_PAGE, Point.READ),
    *_cells(EXTRACT, ordinary, Point.SEALED, Point.STORED, Point.MANIFEST_STORED),
    *_cells(EXTRACT, ordinary, *THE_END, Point.FREEING, Point.FREED, Point.NOTIFIED),
    *_cells(EXTRACT, invalid, Point.CLEANED),
    *_cells(EXTRACT, released, Point.RELEASING, Point.RELEASED, Point.HIDDEN),
    *_cells(EXTRACT, slot_waited_for, Point.HANDING_OVER, Point.HANDED_OVER, Point.NEXT_SENT),
    *_cells(EXTRACT, source_cut, Point.RETRIED),
    *_cells(EXTRACT, source_used_up, Point.CLOSING, Point.CLOSED, Point.HANDED_OVER, Point.NEXT_SENT),
)
"""In the worker, whatever the size of the result."""

PARTS = (
    *_cells(EXTRACT, ordinary, Point.BEATEN, Point.UPLOAD_MADE, Point.UPLOAD_NOTED, Point.PART_SENT, Point.PART_STORED),
    *_cells(EXTRACT, ordinary, Point.SEALED, Point.STORED),
    *_cells(EXTRACT, handed_over, Point.HANDING_OVER, Point.HANDED_OVER, Point.NEXT_SENT),
    *_cells(EXTRACT, taken_over, Point.GONE_ON),
    *_cells(EXTRACT, begun_again, Point.BEGUN, Point.DROPPED),
)
"""In the worker, when the result is stored in parts."""

MORE = (
    *_cells(SUBMIT, canceled, Point.ENDING, Point.CLEANED, Point.NOTIFIED),
    *_cells(DEAD_LETTER, poisoned, Point.ENDING, Point.CLEANED, Point.NOTIFIED),
    *_cells(EXTRACT, invalid, *THE_END, Point.FREEING, Point.FREED, Point.NOTIFIED),
)
MORE_PARTS = (
    *_cells(EXTRACT, ordinary, Point.READ, Point.MANIFEST_STORED, Point.FINISHED),
    *_cells(EXTRACT, handed_over, Point.FREED),
    *_cells(EXTRACT, taken_over, Point.PART_STORED, Point.SEALED),
)
"""The same points by other ways; for the soak."""
