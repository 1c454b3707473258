"""Each cell of the matrix: a story played with a kill ends as it does without one."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fetcher.core.faults import Point
from tests.kills.driver import Driver, Kill
from tests.kills.sources import Sources, sources
from tests.kills.stories import REQUESTS, Cell, Story
from tests.rig import Rig, rig
from tests.stack import Stack

LOSE_AN_UPLOAD = {Point.UPLOAD_MADE, Point.BEGUN}
"""Behind these, an upload is known to nobody any more: the bucket's rule aborts it (`abort-uploads`)."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What must be the same whether a process died or not."""

    status: str
    family: str | None
    result: bytes | None
    records: int
    events: int
    left: tuple[str, ...]
    uploads: int


def played(sources: Sources, folder: Path, story: Story, tables: Mapping[str, Any], kill: Kill | None) -> Ended:
    """Play a story to its end, and say how that was."""
    folder.mkdir(parents=True)
    with Driver(sources.service, sources, folder, kill) as driver:
        job_id = story(driver, tables)
        assert kill is None or driver.killed, f"{kill} was never reached"
        driver.settle(job_id)
        driver.take_events(0.1)
    return _ended(sources.service, job_id, driver.events)


def _ended(service: Rig, job_id: str, events: Counter[str]) -> Ended:
    job = service.job(job_id)
    keys = [(item["PK"]["S"], item["SK"]["S"]) for item in service.items()]
    own = [object_key for object_key in service.objects() if job_id in object_key]
    stored = job["status"] == "completed" and job["resultPath"] in own
    expected = {job["resultPath"], job["manifestPath"]} if stored else set()
    return Ended(
        status=job["status"],
        family=(job.get("error") or {}).get("family"),
        result=service.result(job) if stored else None,
        records=keys.count((f"T#default#EXTRACTION#{job_id}", "OUTBOX#TERMINAL")),
        events=len({event for event in events if job_id in event}),
        left=tuple(sorted([*_left(service, job_id), *_orphans(own, expected)])),
        uploads=len([key for key in service.uploads() if job_id in key]),
    )


def _left(service: Rig, job_id: str) -> list[str]:
    """What must not outlive its job: markers and held slots."""
    items = service.items()
    markers = [item["SK"]["S"] for item in items if item["SK"]["S"] == f"ACTIVE#{job_id}"]
    return [*markers, *service.slots_held(job_id)]


def _orphans(own: list[str], expected: set[str]) -> list[str]:
    """Objects of the job under a prefix without a lifecycle rule; the rules expire all others."""
    ruled = ("requests/", "results/", "manifests/")
    return [key for key in own if key not in expected and not key.startswith(ruled)]


class Matrix:
    """A service whose jobs are killed, and what each story's end is when nobody dies."""

    def __init__(self, sources: Sources, folder: Path) -> None:
        self._sources = sources
        self._folder = folder
        self._calm: dict[tuple[Story, str, str], Ended] = {}

    def check(self, cell: Cell, size: str, datasources: str) -> None:
        """Play a cell's story with and without its kill: both must end the same, and leave nothing behind."""
        calm = self._undisturbed(cell.story, size, datasources)
        assert (calm.records, calm.events, calm.left, calm.uploads) == (1, 1, (), 0), calm
        ended = self._played(cell.story, size, datasources, cell.kill)
        assert replace(ended, uploads=0) == calm
        assert ended.uploads <= (cell.kill.point in LOSE_AN_UPLOAD), ended

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
    """Make a service with leases of a second or so, and the datasources that the stories read."""
    quick = {"FETCHER_LEASE_SECONDS": "1.5", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "0.5"}
    with rig(stack, folder, **quick) as service, sources(service) as made:
        yield Matrix(made, folder)
