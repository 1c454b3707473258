"""Each cell of the matrix: a story played with a kill ends as it does without one."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fetcher.aws.slots import Holder, Slots
from fetcher.core.clock import now_ms
from fetcher.core.faults import Point
from fetcher.model import DEFAULT_WORKERS
from tests.cloud import expiring, objects_of, of_one_request
from tests.kills.cells import Cell
from tests.kills.driver import Driver, Kill
from tests.kills.sources import Sources, sources
from tests.kills.stories import REQUESTS, Story, erased
from tests.rig import Rig, rig
from tests.stack import Stack

UPLOAD, SLOT = "an open upload", "a slot that is named after the job, its lease over"
MANIFESTS, BODIES, RESULTS = "manifests/", "requests/", "results/"

MAY_STAY: Mapping[str, Mapping[Point, Set[str]]] = {
    "completed": {
        Point.BODY_STORED: {BODIES},  # of a job that is none, since it was never accepted
        Point.UPLOAD_MADE: {UPLOAD},  # known to nobody yet
        Point.BEGUN: {UPLOAD},  # known to nobody any more
        Point.BEATEN: {UPLOAD},  # the heart dies wherever the reading thread is
        Point.RENEWING: {UPLOAD},
        Point.MANIFEST_STORED: {MANIFESTS},  # the next attempt stores one of its own
        Point.ENDING: {MANIFESTS},
        Point.FINISHED: {SLOT},
        Point.FREEING: {SLOT},
    },
    "failed": {
        Point.FINISHED: {RESULTS, MANIFESTS, UPLOAD, SLOT},
        Point.ABORTED: {RESULTS, MANIFESTS, SLOT},
        Point.OBJECT_DELETED: {MANIFESTS, SLOT},
        Point.EACH_DELETED: {SLOT},  # of one manifest
        Point.CLEANED: {SLOT},
        Point.FREEING: {SLOT},
    },
}
"""What nobody comes back for when somebody died there, by how the job ends; nothing stays behind any other point.

The bucket's rules expire the objects and abort the upload, and whoever needs the slot takes it. Nobody looks at a job
again that has ended, for more than its event.
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended: what must be the same whether a process died or not, and what stayed behind."""

    status: str
    family: str | None
    result: str | None
    """The SHA-256 of its bytes."""
    jobs: int
    """Made of the one request."""
    records: int
    """Of an end, in all of these jobs."""
    events: frozenset[str]
    """Which were published, by their ids without the job's."""
    markers: int
    missing: frozenset[str] = frozenset()
    """What the job names and is not there, though nobody erased it."""
    stayed: frozenset[str] = frozenset()
    """What is there and nothing names: kinds of objects, an upload, a slot."""


def played(sources: Sources, folder: Path, story: Story, tables: Mapping[str, Any], kill: Kill | None) -> Ended:
    """Play a story to its end, and say how that was."""
    folder.mkdir(parents=True)
    service = sources.service
    before = {*service.objects(), *service.uploads()}
    with Driver(service, sources, folder, kill) as driver:
        job_id = story(driver, tables)
        assert kill is None or driver.killed, f"{kill} was never reached"
        driver.settle(job_id)
        driver.take_events(0.1)
    ended = _ended(service, job_id, driver.events, before)
    if kill is not None and kill.lease_seconds is not None:
        _others_have_all_slots(service, job_id)
    for each in of_one_request(service, job_id):
        service.forget(each)
    return ended


def _ended(service: Rig, job_id: str, events: Counter[str], before: Set[str]) -> Ended:
    job, items, jobs = service.job(job_id), service.items(), of_one_request(service, job_id)
    own = [item for item in items if item["PK"]["S"].rpartition("#")[2] in jobs]
    objects, uploads = set(service.objects()), set(service.uploads())
    named = objects_of({item["SK"]["S"]: item for item in own if item["PK"]["S"].endswith(f"#{job_id}")})
    held = [item for item in items if item.get("holder", {}).get("S") in jobs]
    others = {item["extractionId"]["S"] for item in items if "requestHash" in item} - {*jobs}
    stayed = {_ruled(key) for key in objects - before - named if not any(other in key for other in others)}
    return Ended(
        status=job["status"],
        family=(job.get("error") or {}).get("family"),
        result=sha256(service.result(job)).hexdigest() if job.get("resultPath") in objects else None,
        jobs=len(jobs),
        records=len([item for item in own if item["SK"]["S"] == "OUTBOX#TERMINAL"]),
        events=frozenset(event.replace(each, "") for event in events for each in jobs if each in event),
        markers=len([item for item in items if item["SK"]["S"].removeprefix("ACTIVE#") in jobs]),
        missing=frozenset(named - objects),
        stayed=frozenset({*stayed, *([UPLOAD] if uploads - before else []), *([SLOT] if held else [])}),
    )


def _others_have_all_slots(service: Rig, job_id: str) -> None:
    """Take every slot of the job's connections for jobs that are none of ours, as workers do, and give them back."""
    slots = Slots(service.dynamodb, service.env["FETCHER_MAIN_TABLE"], now_ms, lease_ms=60_000)
    for connection in {each["S"] for each in service.record(job_id)["connections"]["M"].values()}:
        others = [Holder("default", f"somebody-else-{number}", "its-attempt", 1) for number in range(DEFAULT_WORKERS)]
        taken = [slots.take(other, {connection: DEFAULT_WORKERS}) for other in others]
        for other in others:
            slots.free(other, [connection], ended=True)
        assert {held.numbers[connection] for held in taken if held is not None} == set(range(DEFAULT_WORKERS))


def _ruled(key: str) -> str:
    """The prefix of the template's rule that lets an object expire; its key, if there is none."""
    prefixes, _ = expiring()
    return next((prefix for prefix in prefixes if key.startswith(prefix)), key)


def may_stay(cell: Cell, status: str, datasources: str) -> Set[str]:
    """What may stay when a cell has ended like this; of several slots, the others' when one is freed."""
    assert expiring()[1], "the template's rule that aborts uploads"
    rest = {SLOT} if datasources == "several" and cell.kill.point is Point.FREED else set()
    return {*MAY_STAY[status].get(cell.kill.point, ()), *rest}


class Matrix:
    """A service whose jobs are killed, and what each story's end is when nobody dies."""

    def __init__(self, sources: Sources, folder: Path) -> None:
        self._sources = sources
        self._folder = folder
        self._calm: dict[tuple[Story, str, str], Ended] = {}

    def check(self, cell: Cell, size: str, datasources: str) -> None:
        """Play a cell's story with and without its kill: both must end the same, and leave nothing behind."""
        calm = self._undisturbed(cell.story, size, datasources)
        assert calm.events == {f"fetcher.job.{calm.status}."}, calm
        assert (calm.jobs, calm.records, calm.markers) == (1, 1, 0), calm
        assert not calm.missing | calm.stayed, calm
        assert (calm.result is not None) == (calm.status == "completed" and cell.story is not erased), calm
        ended = self._played(cell.story, size, datasources, cell.kill)
        assert replace(ended, stayed=frozenset()) == calm
        assert ended.stayed <= may_stay(cell, calm.status, datasources), ended

    def _undisturbed(self, story: Story, size: str, datasources: str) -> Ended:
        key = (story, size, datasources)
        if key not in self._calm:
            self._calm[key] = self._played(story, size, datasources, None)
        return self._calm[key]

    def _played(self, story: Story, size: str, datasources: str, kill: Kill | None) -> Ended:
        folder = self._folder / secrets.token_hex(4)
        return played(self._sources, folder, story, REQUESTS[size, datasources], kill)


@contextmanager
def matrix(stack: Stack, folder: Path) -> Iterator[Matrix]:
    """Make a service and the datasources that the stories read.

    Its leases outlast what a busy machine does to a worker that lives; those of one that died, the driver ends, unless
    they are short and run out by themselves.
    """
    quick = {"FETCHER_LEASE_SECONDS": "60", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "0.5"}
    with rig(stack, folder, **quick) as service, sources(service) as made:
        yield Matrix(made, folder)
