"""Shows a running job: a bar on a terminal, a line for each change elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Job = Mapping[str, Any]
Show = Callable[[Job], None]
BAR = 12
"""Characters of the bar: what stands beside it fits a terminal of 80."""


@contextmanager
def shown(console: Console, indent: str = "") -> Iterator[Show]:
    """Give a function to call with each state of the job as `GET /v1/fetcher/{id}` returns it."""
    if not console.is_terminal:
        yield _lines(console, indent)
        return
    columns = (SpinnerColumn(), BarColumn(BAR), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting", total=None)

        def show(job: Job) -> None:
            done, total = _tables(job)
            text = "\n".join(filter(None, (_counted(job), _now(job))))
            bar.update(task, description=text, completed=done, total=total or None)

        yield show


def described(job: Job) -> str:
    """Say in one line how far a job is."""
    return ", ".join(filter(None, (_counted(job), _now(job))))


def _counted(job: Job) -> str:
    progress = job.get("progress") or {}
    done, total = _tables(job)
    rows, size = int(progress.get("rows", 0)), int(progress.get("bytes", 0))
    return f"{job['status']}: {done} of {total} tables, {rows:,} rows, {size / 1e6:.1f} MB"


def _now(job: Job) -> str:
    """Say what is being read and how fast, or what is waited for, which the service says in words."""
    progress = job.get("progress") or {}
    rate, current = progress.get("rate"), str(progress.get("current", ""))
    speed = f"{rate['rows']:,} rows/s, {rate['bytes'] / 1e6:.1f} MB/s" if rate else ""
    doing = current if current.startswith("waiting ") or not current else f"reading {current}"
    return ", ".join(filter(None, (speed, doing)))


def _tables(job: Job) -> tuple[int, int]:
    tables = (job.get("progress") or {}).get("tables") or {}
    return int(tables.get("done", 0)), int(tables.get("total", 0))


def _lines(console: Console, indent: str) -> Show:
    last = ""

    def show(job: Job) -> None:
        nonlocal last
        line = described(job)
        if line != last:
            last = line
            console.print(f"{indent}{line}", highlight=False)

    return show
