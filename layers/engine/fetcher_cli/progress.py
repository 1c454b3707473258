"""Shows a running job: a bar on a terminal, a line for each change elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Job = Mapping[str, Any]
Show = Callable[[Job], None]


@contextmanager
def shown(console: Console) -> Iterator[Show]:
    """Give a function to call with each state of the job."""
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting", total=None)

        def show(job: Job) -> None:
            done, total = _tables(job)
            bar.update(task, description=described(job), completed=done, total=total or None)

        yield show


def described(job: Job) -> str:
    """Say in one line how far a job is."""
    progress = job.get("progress") or {}
    done, total = _tables(job)
    rows, size = int(progress.get("rows", 0)), int(progress.get("bytes", 0))
    current = f", reading {progress['current']}" if "current" in progress else ""
    return f"{job['status']}: {done} of {total} tables, {rows:,} rows, {size / 1e6:.1f} MB{current}"


def _tables(job: Job) -> tuple[int, int]:
    tables = (job.get("progress") or {}).get("tables") or {}
    return int(tables.get("done", 0)), int(tables.get("total", 0))


def _lines(console: Console) -> Show:
    last = ""

    def show(job: Job) -> None:
        nonlocal last
        line = described(job)
        if line != last:
            last = line
            console.print(line)

    return show
