"""What a way of reading costs: wall time, CPU of client and server, peak memory; and tables of it."""

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_SECOND = 0.000029
"""US dollars that Lambda charges for a second of one CPU, at any memory size."""
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| | ratio | wall s | rows/s | MB/s | client cpu s | server cpu s | peak MiB | $ per GB |",
    "|--|--|--|--|--|--|--|--|--|",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of wall time and of the client's CPU; MiB of peak memory and bytes of output where they are known."""

    wall: float
    cpu: float
    peak: float | None = None
    size: int = 0
    server: float = 0.0


Way = Callable[[], Cost]


def program(command: Sequence[str], variables: Mapping[str, str]) -> Way:
    """Run a program that measures itself, and prints what it has seen as its last line."""

    def run() -> Cost:
        done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True, text=True)
        return Cost(**json.loads(done.stdout.splitlines()[-1]))

    return run


def pipeline(command: str, variables: Mapping[str, str]) -> Way:
    """Run a pipe of command-line tools, which the kernel accounts for."""

    def run() -> Cost:
        before, children = os.times(), ["bash", "-o", "pipefail", "-c", command]
        subprocess.run(children, env=variables, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Cost(after.elapsed - before.elapsed, cpu)

    return run


def interleaved(ways: Mapping[str, Way], rounds: int, server: int) -> dict[str, Cost]:
    """Run A B C, A B C, …: noise of the machine then meets all of them, and the median drops it."""
    seen: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            before = _worked(server)
            cost = way()
            seen[name].append(Cost(cost.wall, cost.cpu, cost.peak, cost.size, _worked(server) - before))
    return {name: _median(costs) for name, costs in seen.items()}


def _worked(pid: int) -> float:
    """Add up the CPU seconds of a server, of its children, and of those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    alive = map(int, children.read_text().split()) if children.exists() else ()
    return _spent(pid, ended=True) + sum(_spent(child, ended=False) for child in alive)


def _spent(pid: int, *, ended: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended, and counts with its parent from now on
        return 0.0
    return sum(map(int, fields[11 : 15 if ended else 13])) / TICKS


def _median(costs: Sequence[Cost]) -> Cost:
    peaks = [each.peak for each in costs if each.peak is not None]
    return Cost(
        statistics.median(each.wall for each in costs),
        statistics.median(each.cpu for each in costs),
        statistics.median(peaks) if peaks else None,
        costs[0].size,
        statistics.median(each.server for each in costs),
    )


def table(title: str, rows: int, costs: Mapping[str, Cost]) -> list[str]:
    """Write a Markdown table; the first way is the reference of the ratios."""
    reference = next(iter(costs.values()))
    lines = [_row(name, rows, cost, cost.wall / reference.wall) for name, cost in costs.items()]
    return [f"**{title}**: {rows:,} rows", "", *HEAD, *lines, ""]


def _row(name: str, rows: int, cost: Cost, ratio: float) -> str:
    peak = "–" if cost.peak is None else f"{cost.peak:.0f}"
    speed = f"{cost.size / cost.wall / 1e6:.0f}" if cost.size else "–"
    price = f"{cost.cpu / cost.size * 1e9 * CPU_SECOND:.5f}" if cost.size else "–"
    seconds = f"{cost.wall:.2f} | {rows / cost.wall:,.0f} | {speed} | {cost.cpu:.2f} | {cost.server:.2f}"
    return f"| {name} | {ratio:.2f} | {seconds} | {peak} | {price} |"
