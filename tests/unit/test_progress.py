"""What a job shows while it runs: counters, the table at hand, and how fast it goes (`design.md` §6.1)."""

from fetcher.core.progress import WINDOW, Progress
from tests.clock import Clock


def test_what_is_shown_before_while_and_after_a_table_is_read() -> None:
    """R-000-77: rows, bytes, tables; the table at hand and the rate only while there is one."""
    progress = Progress(1, Clock())
    nothing = {"rows": 0, "bytes": 0, "tables": {"done": 0, "total": 1}}
    assert progress.shown() == nothing
    progress.began("pg", "public.accounts")
    assert progress.shown() == {**nothing, "current": "pg/public.accounts", "rate": {"rows": 0, "bytes": 0}}
    progress.page(3, 90)
    progress.ended()
    assert progress.shown() == {"rows": 3, "bytes": 90, "tables": {"done": 1, "total": 1}}


def test_the_rate_is_of_the_last_seconds_not_of_the_whole_read() -> None:
    """A source that slows down shows at once, and one that stands still shows as zero."""
    clock = Clock()
    progress = Progress(1, clock)
    progress.began("pg", "t")
    for _ in range(100):
        clock.now += 0.1
        progress.page(100, 5_000)
    assert progress.shown()["rate"] == {"rows": 1_000, "bytes": 50_000}
    for _ in range(12):
        clock.now += 1
        progress.page(10, 500)
    assert progress.shown()["rate"] == {"rows": 10, "bytes": 500}
    clock.now += 2 * WINDOW
    assert progress.shown()["rate"]["rows"] == 0


def test_what_earlier_attempts_read_is_counted_but_is_no_speed() -> None:
    clock = Clock()
    progress = Progress(3, clock)
    progress.credit(1_000_000, 1 << 30, 1)
    progress.began("pg", "t")
    clock.now += 1
    progress.page(7, 70)
    shown = progress.shown()
    assert (shown["rows"], shown["bytes"], shown["tables"]) == (1_000_007, (1 << 30) + 70, {"done": 1, "total": 3})
    assert shown["rate"] == {"rows": 7, "bytes": 70}


def test_what_is_read_again_is_counted_once() -> None:
    """R-000-77: an upload that cannot be gone on with takes its rows along."""
    progress = Progress(2, Clock())
    progress.credit(1_000, 5_000, 1)
    assert progress.shown() == {"rows": 1_000, "bytes": 5_000, "tables": {"done": 1, "total": 2}}
    progress.anew()
    progress.began("pg", "t")
    progress.page(3, 90)
    progress.ended()
    assert (progress.shown()["rows"], progress.shown()["tables"]) == (3, {"done": 1, "total": 2})


def test_many_small_pages_keep_few_notes() -> None:
    """Memory of a read does not grow with its pages."""
    clock = Clock()
    progress = Progress(1, clock)
    progress.began("pg", "t")
    for _ in range(5_000):
        clock.now += 0.01
        progress.page(1, 1)
    assert len(progress._noted) < 30
    assert progress.shown()["rate"] == {"rows": 100, "bytes": 100}
