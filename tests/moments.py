"""Several at the same moment: what each is told, and whether that is one story.

Here: the request of a running job by two more, its cancel and its end. Requests are answered by processes of submit,
as deployed; the worker is a thread of the test.
"""

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from threading import Barrier
from typing import Any
from uuid import uuid4

from extract.services import Services
from fetcher.aws import ending
from fetcher.aws.records import Completed
from fetcher.core.lifecycle import Status
from tests.cloud import Cloud
from tests.envelope import Envelope
from tests.rig import Answer, http_event
from tests.scenarios import named

RESULT = {"path": "p", "rowCount": 0, "sizeBytes": 0}
ROWS = tuple(permutations(("two", "cancel", "finish")))
"""Every order of three of a moment, one behind the other, while the other request comes at any time."""
WITHIN_SECONDS = 0.03
"""How far apart those of a moment begin, at most."""


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do all of it at one instant; what each returned or raised, in order."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


def request(at: Cloud, connection: str = "my_postgres") -> dict[str, Any]:
    """A request like no other."""
    fields = {connection: {named(at, "small"): ["id"]}}
    return {"dataRequest": {"mappedFields": fields}, "metadata": {"source": "payments", "correlationId": uuid4().hex}}


def asked(process: Envelope, path: str, body: Any = None) -> Answer:
    """Post to one process of submit."""
    report = process.invoke(http_event("POST", path, body))
    assert report.outcome == "response", report
    return Answer.of(report)


@dataclass(frozen=True, slots=True)
class Told:
    """What one of several at the same moment was told; when it asked and when it knew, by the monotonic clock."""

    it: Any
    asked: float
    knew: float

    def before(self, later: "Told") -> bool:
        """Whether it was known before the other one asked, who then must not be told otherwise."""
        return self.knew < later.asked


Works = Mapping[str, Callable[[], Any]]


def in_a_row(works: Works, pause: float) -> dict[str, Told]:
    """Do one as soon as the one before is known, the first after a pause of seconds."""
    told = {}
    time.sleep(pause)
    for name, work in works.items():
        begun = time.monotonic()
        told[name] = Told(work(), begun, time.monotonic())
    return told


@dataclass(frozen=True, slots=True)
class Moment:
    """The request of a running job by two more, its cancel and its end, all at once, or three of them in a row."""

    first: str
    one: Told
    two: Told
    cancel: Told
    finish: Told

    @classmethod
    def of(
        cls, at: Cloud, submits: tuple[Envelope, Envelope], services: Services, number: int, jitter: random.Random
    ) -> "Moment":
        """Post a job, take it as a worker, and let the moment come: every other one is a row, in every order."""
        body = request(at)
        first = at.post(body).json()["jobId"]
        worker = services.extractions.claim("default", first, 0, uuid4().hex)
        assert worker is not None

        def finish() -> Status:
            ended = services.extractions.terminate(worker, Completed(RESULT), claimed=True)
            ending.follow(services, ended)
            return ended.status

        works: Works = {
            "one": partial(at.post, body),
            "two": partial(asked, submits[0], "/v1/fetcher", body),
            "cancel": partial(asked, submits[1], f"/v1/fetcher/{first}/cancel"),
            "finish": finish,
        }
        row = ROWS[number // 2 % len(ROWS)]
        groups = [("one",), row] if number % 2 else [(name,) for name in works]
        told = at_once(
            *(
                partial(in_a_row, {name: works[name] for name in group}, jitter.random() * WITHIN_SECONDS)
                for group in groups
            )
        )
        assert not [each for each in told if isinstance(each, Exception)], told
        return cls(first, **{name: each for group in told for name, each in group.items()})

    @property
    def posts(self) -> tuple[Told, Told]:
        """Both requests."""
        return self.one, self.two

    @property
    def canceled(self) -> bool:
        """Whether the cancel was accepted."""
        assert self.cancel.it.status in {202, 409}, self.cancel
        return bool(self.cancel.it.status == 202)

    def successor(self) -> str | None:
        """Hold each answer against what the others were told; the id of the job that a post made."""
        made = [post.it.json()["jobId"] for post in self.posts if post.it.status == 202]
        assert len(made) <= (1 if self.canceled else 0), "another job of a request that was answered for"
        assert self.finish.it is (Status.FAILED if self.canceled else Status.COMPLETED)
        for post in self.posts:
            answer = post.it.json()
            old = answer["jobId"] == self.first
            assert (post.it.status, answer["jobId"]) in {
                (200, self.first),
                *((code, job) for job in made for code in (200, 202)),
            }
            seen = {"pending"} if not old else {"processing"} if self.canceled else {"processing", "completed"}
            assert answer["status"] in seen, "an answer with what answers for nothing"
            assert not (old and self.canceled and self.cancel.before(post)), "the canceled job answered"
            assert old or not post.before(self.cancel), "a new job before there was a cancel"
        return made[0] if made else None

    def stored(self, at: Cloud, successor: str | None) -> None:
        """One lock, of the job that answers; no job that nobody was told of; one at most that goes on."""
        items, its = at.items(), at.record(self.first)["requestHash"]
        jobs = {item["extractionId"]["S"]: item for item in items if item.get("requestHash") == its}
        assert jobs.keys() == {self.first, successor} - {None}
        locks = [item["extractionId"]["S"] for item in items if item["PK"]["S"].endswith(f"#HASH#{its['S']}")]
        assert locks == [successor or self.first]
        going = [job for job, item in jobs.items() if item["status"]["S"] in {"pending", "processing"}]
        assert going == ([successor] if successor else [])
        if successor is not None:
            assert jobs[successor]["createdAt"]["S"] >= jobs[self.first]["cancelRequestedAt"]["S"]
            assert jobs[self.first]["error"]["M"]["family"]["S"] == "canceled"
