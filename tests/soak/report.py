"""The figures of a soak, as the table that `benchmarks/README.md` shows."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faultproxy import Fault
from tests.soak.client import Posted
from tests.soak.watching import Watch


@dataclass(frozen=True, slots=True)
class Faults:
    """What went wrong: handlers that died at work, and how wires broke."""

    deaths: int
    breaks: Sequence[Fault]


def written(file: Path, jobs: Sequence[Posted], watch: Watch, faults: Faults, seconds: float) -> str:
    """Write the table and return it. `seconds` is from the first post to the last end."""
    lines = [
        "| figure | seen |",
        "|--|--|",
        *(f"| {name} | {value} |" for name, value in _figures(jobs, watch, faults, seconds)),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file.read_text()


def _figures(jobs: Sequence[Posted], watch: Watch, faults: Faults, seconds: float) -> Iterator[tuple[str, str]]:
    done = [posted for posted in jobs if posted.completed]
    kinds = Counter(posted.kind.name for posted in jobs)
    yield "jobs", f"{len(jobs)}: " + ", ".join(f"{count} {name}" for name, count in kinds.most_common())
    yield "ended", f"{len(done)} completed, {_failures(jobs)}"
    yield "length", f"{seconds:.0f} s, {len(jobs) / seconds * 60:.0f} jobs a minute"
    rows, size = (sum(int(posted.job[name]) for posted in done) for name in ("rowCount", "sizeBytes"))
    yield "delivered", f"{rows:,} rows, {size / 1e6:,.0f} MB; {rows / seconds:,.0f} rows/s"
    attempts = Counter(int(posted.job["attempts"]) for posted in jobs)
    yield "jobs by attempts", ", ".join(f"{count} × {number}" for number, count in sorted(attempts.items()))
    yield "handlers killed", str(faults.deaths)
    yield "wires broken", _counted(faults.breaks)
    unanswered = sum(len(posted.refusals) for posted in jobs)
    yield "posts without an acceptance, posted again", str(unanswered)
    yield "one post, p50 · p99", _quantiles([one for posted in jobs for one in posted.latencies])
    yield "post to end, p50 · p99", _quantiles([posted.seconds for posted in jobs])
    repeats = sum(watch.events.values()) - len(watch.events)
    yield "events", f"{len(watch.events)} ids, {repeats} delivered again"
    for function, peak in sorted(watch.peaks.items()):
        yield f"peak memory of {function}", f"{peak / 2**20:.0f} MiB"


def _failures(jobs: Sequence[Posted]) -> str:
    families = Counter(posted.job["error"]["family"] for posted in jobs if posted.job.get("status") == "failed")
    return ", ".join(f"{count} failed as {family}" for family, count in sorted(families.items())) or "none failed"


def _counted(breaks: Sequence[Fault]) -> str:
    ways = ", ".join(f"{count} × {way}" for way, count in Counter(breaks).most_common())
    return f"{len(breaks)}: {ways}" if breaks else "none"


def _quantiles(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return f"{cuts[49]:.2f} s · {cuts[98]:.2f} s"
