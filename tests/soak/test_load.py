"""Many jobs of every size on the deployed template, while handlers are killed and wires break.

`FETCHER_SOAK_JOBS` jobs are posted over `FETCHER_SOAK_SECONDS`; without them, 500 over ten minutes.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from infra.local import demo
from infra.local import stack as local
from infra.local.api import Api
from infra.local.places import ROOT, Place
from tests.faultproxy import FaultProxy, faulty
from tests.soak import chaos, leftovers, report
from tests.soak.client import Posted, look, post
from tests.soak.jobs import Kind, mixed, possible
from tests.soak.watching import Watch, drained, hasten, watching
from tests.stack import Stack

pytestmark = pytest.mark.soak

JOBS = int(os.environ.get("FETCHER_SOAK_JOBS", "500"))
SECONDS = float(os.environ.get("FETCHER_SOAK_SECONDS", "600"))
END_SECONDS = 300 + SECONDS
"""From the last post until all jobs must have ended: a laptop is slower than the posters."""

MESSAGE_SECONDS = min(30.0, 8 + JOBS / 20)
"""How long the sweeper trusts a message that it sent: the longer the queue, the later its message is received."""

POSTERS = 4
SEED = 20
KILLED_PERCENT = 1.5
"""At each visit of a named point; a job of several parts visits a few dozen."""

PARAMETERS = {"LeaseSeconds": "4", "HeartbeatSeconds": "0.5", "DispatchSeconds": "1", "StallSeconds": "4"}
MAY_FAIL = {"unavailable", "internal"}
"""How a job may end that chance hit again and again. It is never lost, never wrong, and says so."""
FEW = 3
MOST = 0.97
"""Of the jobs that can complete, how many do at least, but one: a job is tried five times, so only bad luck ends it.

It ended two of 479 that were seen. Of the few of a short soak it may so end one, in one run of sixty, and never two.
"""

LONG_SECONDS = 600
"""From how long on every way of a wire to break comes up."""

JOBS_A_DEATH, SECONDS_A_BREAK = 10, 60
"""How much of a soak brings one more of each fault, at least: about a tenth of what was seen."""


@dataclass(frozen=True, slots=True)
class Field:
    """A running stack whose PostgreSQL is reached through a proxy."""

    stack: Stack
    proxy: FaultProxy
    folder: Path

    @property
    def killed(self) -> Path:
        """What the worker leaves behind whose death is sure."""
        return self.folder / "killed"

    def deaths(self) -> int:
        """Count the handlers that died so far."""
        return chaos.deaths(self.folder / "endpoint.log")

    def sweep(self) -> None:
        """Let the sweeper run now, whose own schedule is a minute, and look again soon."""
        hasten(self.stack, MESSAGE_SECONDS)
        self.stack.client("lambda").invoke(FunctionName=self.function("Sweeper"), Payload=b"{}")

    def function(self, name: str) -> str:
        """Find a deployed function by its name in the template."""
        listed = self.stack.client("lambda").list_functions()["Functions"]
        return next(str(each["FunctionName"]) for each in listed if f"-{name}Function-" in each["FunctionName"])


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    """Start a stack of its own, with its databases registered."""
    place = Place.of(ROOT / ".local" / f"soak-{os.getpid()}.json")
    with local.running(place, PARAMETERS) as description:
        stack = Stack(description, Api(description["apiUrl"]), local.session(place))
        at = description["databases"]["my_postgres"]
        with faulty(at["host"], at["port"]) as proxy:
            for name, database in description["databases"].items():
                port = proxy.port if name == "my_postgres" else database["port"]
                demo.register(stack.api, name, {**database, "port": port})
            yield Field(stack, proxy, place.folder)
        stack.api.close()


def test_nothing_is_lost_and_nothing_is_twice_under_load_and_faults(field: Field) -> None:
    """R-000-63, 71..73, R-002-3, 9, 10: every job ends once, with the right bytes or an honest error, and one event."""
    kinds = possible(field.stack["databases"])
    calm = _calm(field.stack.api, kinds)
    digests = {posted.kind.name: posted.job.get("resultSha256") for posted in calm}
    watch = Watch()
    begun = time.monotonic()
    with watching(watch, field.stack, field.sweep), _faults(field) as happened:
        jobs = _posted(field.stack.api, kinds)
        assert not [posted for posted in jobs if not posted.ids], "a job was never accepted"
        _looked_after(field.stack.api, jobs)
        _published(watch, jobs)
        faults = happened()
    seconds = max(posted.begun + posted.seconds for posted in jobs) - begun
    drained(watch, field.stack)
    print(report.written(ROOT / ".local" / "soak.md", jobs, watch, faults, seconds))  # noqa: T201 - the figures are the point
    for posted in jobs:
        _ended_well(posted, digests, watch)
    _most_completed(jobs)
    _much_went_wrong(field, faults)
    leftovers.stored(field.stack, jobs)
    leftovers.nothing_left(field.stack, [*calm, *jobs])
    assert not watch.failures


def _calm(api: Api, kinds: tuple[Kind, ...]) -> list[Posted]:
    """Run each kind once before anything breaks."""
    jobs = [post(api, kind, f"calm {kind.name}", Random(0)) for kind in kinds]
    _looked_after(api, jobs)
    assert [posted.job["status"] for posted in jobs] == ["failed" if kind.fails else "completed" for kind in kinds]
    return jobs


@contextmanager
def _faults(field: Field) -> Iterator[Callable[[], report.Faults]]:
    """Let things go wrong; yield how to learn what did."""
    with ExitStack() as faults:
        faults.enter_context(chaos.broken_wires(field.proxy, SEED))
        functions = field.stack.client("lambda")
        faults.callback(chaos.disarm, functions)
        chaos.arm(functions, KILLED_PERCENT, field.killed)
        before = field.deaths()
        yield lambda: report.Faults(field.deaths() - before, tuple(field.proxy.breaks))


def _posted(api: Api, kinds: tuple[Kind, ...]) -> list[Posted]:
    """Post all jobs at an even pace, from a few clients at once."""
    random, begun = Random(SEED), time.monotonic()

    def one(number: int, kind: Kind, correlation: str) -> Posted:
        time.sleep(max(0.0, begun + number * SECONDS / JOBS - time.monotonic()))
        return post(api, kind, correlation, random)

    with ThreadPoolExecutor(POSTERS, thread_name_prefix="poster") as posters:
        drawn = enumerate(mixed(kinds, JOBS, SEED))
        posting = [posters.submit(one, number, kind, correlation) for number, (kind, correlation) in drawn]
        return [future.result() for future in posting]


def _looked_after(api: Api, jobs: list[Posted]) -> None:
    """Look at the jobs until each has ended."""
    until = time.monotonic() + END_SECONDS
    while going := [posted for posted in jobs if not posted.ended]:
        assert time.monotonic() < until, f"{len(going)} jobs never ended, such as {going[0]}"
        for posted in going:
            look(api, posted)
        time.sleep(0.2)


def _published(watch: Watch, jobs: list[Posted], seconds: float = 400) -> None:
    """Wait for the event of each job; one whose publisher was killed is sent again later and later, up to an hour."""
    until = time.monotonic() + seconds
    while missing := [posted for posted in jobs if posted.job["id"] not in watch.jobs]:
        assert time.monotonic() < until, f"{len(missing)} events never came, such as that of {missing[0].job}"
        time.sleep(0.2)


def _ended_well(posted: Posted, digests: Mapping[str, str | None], watch: Watch) -> None:
    job = posted.job
    assert posted.ids == {job["id"]}, "one request became two jobs"
    assert watch.jobs[job["id"]] == {f"fetcher.job.{job['status']}.{job['id']}"}
    if posted.kind.fails:
        assert job["error"]["family"] in {posted.kind.fails, *MAY_FAIL}, job
    elif posted.completed:
        assert job["resultSha256"] == digests[posted.kind.name], job
    else:
        assert job["error"]["family"] in MAY_FAIL, job


def _much_went_wrong(field: Field, faults: report.Faults) -> None:
    """Without faults the rest would prove nothing: one of each is sure, and a long soak has many, in every way."""
    assert field.killed.exists(), "no worker was killed while it read"
    assert faults.deaths >= max(1, JOBS // JOBS_A_DEATH), faults
    assert len(faults.breaks) >= max(1, SECONDS // SECONDS_A_BREAK), faults
    if SECONDS >= LONG_SECONDS:
        assert set(faults.breaks) == set(chaos.WAYS), faults


def _most_completed(jobs: list[Posted]) -> None:
    """Faults are overcome, not reported: all but a few jobs complete, and some of every kind do."""
    able = [posted for posted in jobs if not posted.kind.fails]
    assert sum(posted.completed for posted in able) >= MOST * len(able) - 1
    drawn = Counter(posted.kind.name for posted in able)
    completed = {posted.kind.name for posted in able if posted.completed}
    assert {name for name, count in drawn.items() if count > FEW} <= completed
