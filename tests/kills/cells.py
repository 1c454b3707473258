"""The cells of the matrix: which story is played, and who dies where."""

from collections.abc import Iterator
from dataclasses import dataclass

from fetcher.core.faults import Point
from tests.kills import stories
from tests.kills.driver import Kill
from tests.kills.stories import Story, ordinary
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER


@dataclass(frozen=True, slots=True)
class Cell:
    """One kill: a story, and who dies where."""

    story: Story
    kill: Kill

    def __str__(self) -> str:
        handler = self.kill.handler.removesuffix(".handler").removesuffix(".app")
        by_itself = "-lease-runs-out" if self.kill.lease_seconds else ""
        return f"{self.story.__name__}-{handler}-{self.kill.point}{by_itself}"


def _cells(handler: str, story: Story, *points: Point, lease_seconds: str | None = None) -> tuple[Cell, ...]:
    return tuple(Cell(story, Kill(handler, point, lease_seconds)) for point in points)


THE_END = (Point.ENDING, Point.FINISHED)
FREED = (Point.FREEING, Point.FREED)
CLEANING = (Point.OBJECT_DELETED, Point.EACH_DELETED, Point.CLEANED)
SHORT = "2"
"""Seconds of a lease that runs out by itself; every other one, the driver ends."""

AROUND = (
    *_cells(SUBMIT, stories.large_body, Point.STORING_BODY, Point.BODY_STORED),
    *_cells(SUBMIT, ordinary, Point.ACCEPTING, Point.ACCEPTED, Point.SENT, Point.DISPATCHED),
    *_cells(SUBMIT, stories.canceled, Point.CANCELING, Point.CANCEL_MARKED, Point.FINISHED),
    *_cells(SUBMIT, stories.reconfigured, Point.CHANGING, Point.CHANGED, Point.RATED),
    *_cells(SUBMIT, stories.erased, Point.ERASING, Point.ERASED, Point.EACH_DELETED, Point.OBJECTS_ERASED),
    *_cells(NOTIFY, ordinary, Point.PUBLISHING, Point.PUBLISHED, Point.MARKED),
    *_cells(SWEEPER, stories.never_sent, Point.SWEEPING, Point.SWEPT, Point.SENT_AGAIN),
    *_cells(SWEEPER, stories.never_sent, Point.OUTBOX_SWEPT, Point.NOTIFIED_AGAIN),
    *_cells(SWEEPER, stories.taken_in_vain, Point.GIVING_BACK, Point.GIVEN_BACK),
    *_cells(SWEEPER, stories.stalled, Point.FINISHED),
    *_cells(SUBMIT, stories.canceled_behind_a_worker, Point.OBJECT_DELETED, Point.CLEANED),
    *_cells(DEAD_LETTER, stories.poisoned, Point.FINISHED),
)
"""Before and after the worker: submit, notify, sweeper, dead letter."""

WORKER = (
    *_cells(EXTRACT, ordinary, Point.TAKEN, Point.FIRST_PAGE, Point.STORED, Point.FINISHED, lease_seconds=SHORT),
    *_cells(EXTRACT, ordinary, Point.CLAIMING, Point.CLAIMED, Point.TAKING, Point.OPENED),
    *_cells(EXTRACT, ordinary, Point.REMEMBERED, Point.PLANNED, Point.READ),
    *_cells(EXTRACT, ordinary, Point.SEALED, Point.MANIFEST_STORED),
    *_cells(EXTRACT, ordinary, Point.ENDING, *FREED, Point.NOTIFIED),
    *_cells(EXTRACT, stories.invalid, Point.CLEANED),
    *_cells(EXTRACT, stories.released, Point.RELEASING, Point.RELEASED, Point.HIDDEN),
    *_cells(EXTRACT, stories.slot_waited_for, Point.HANDING_OVER, Point.HANDED_OVER, Point.NEXT_SENT),
    *_cells(EXTRACT, stories.source_cut, Point.RETRIED),
    *_cells(EXTRACT, stories.source_used_up, Point.CLOSING, Point.CLOSED),
)
"""In the worker, whatever the size of the result."""

PARTS = (
    *_cells(EXTRACT, ordinary, Point.RENEWING, lease_seconds=SHORT),
    *_cells(EXTRACT, ordinary, Point.BEATEN, Point.UPLOAD_MADE, Point.UPLOAD_NOTED, Point.PART_SENT, Point.PART_STORED),
    *_cells(EXTRACT, ordinary, Point.SEALED, Point.STORED),
    *_cells(EXTRACT, stories.handed_over, Point.HANDING_OVER, Point.HANDED_OVER, Point.NEXT_SENT),
    *_cells(EXTRACT, stories.taken_over, Point.GONE_ON),
    *_cells(EXTRACT, stories.begun_again, Point.BEGUN, Point.DROPPED),
    *_cells(EXTRACT, stories.over_the_bound, Point.FINISHED, Point.ABORTED),
)
"""In the worker, when the result is stored in parts."""

MORE = (
    *_cells(SUBMIT, stories.canceled, Point.ENDING, Point.CLEANED, Point.NOTIFIED),
    *_cells(SUBMIT, stories.canceled_behind_a_worker, Point.ENDING, Point.EACH_DELETED, *FREED, Point.NOTIFIED),
    *_cells(SUBMIT, stories.reconfigured, Point.REMEMBERED),
    *_cells(DEAD_LETTER, stories.poisoned, Point.ENDING, *CLEANING, *FREED, Point.NOTIFIED),
    *_cells(SWEEPER, stories.stalled, Point.SWEEPING, Point.SWEPT, Point.ENDING, *CLEANING, *FREED, Point.NOTIFIED),
    *_cells(SWEEPER, stories.canceled_and_swept, Point.SWEPT, *THE_END, *CLEANING, *FREED, Point.NOTIFIED),
    *_cells(SWEEPER, stories.waited_too_long, Point.SWEPT, *THE_END, Point.NOTIFIED),
    *_cells(EXTRACT, stories.invalid, *THE_END, *FREED, Point.NOTIFIED),
    *_cells(SWEEPER, stories.event_taken_in_vain, Point.GIVING_BACK, Point.GIVEN_BACK),
    *_cells(EXTRACT, stories.canceled_while_read, *THE_END, Point.CLEANED, *FREED, Point.NOTIFIED),
    *_cells(EXTRACT, stories.canceled_and_taken_over, *CLEANING),
    *_cells(EXTRACT, stories.read_again, Point.OBJECT_DELETED),
    *_cells(EXTRACT, stories.source_used_up, Point.HANDED_OVER, Point.NEXT_SENT),
)
MORE_PARTS = (
    *_cells(SUBMIT, stories.canceled_behind_a_worker, Point.ABORTED),
    *_cells(DEAD_LETTER, stories.poisoned, Point.ABORTED),
    *_cells(SWEEPER, stories.stalled, Point.ABORTED),
    *_cells(EXTRACT, stories.canceled_and_taken_over, Point.ABORTED),
    *_cells(EXTRACT, stories.begun_again, Point.ABORTED),
    *_cells(EXTRACT, ordinary, Point.READ, Point.MANIFEST_STORED, Point.FINISHED),
    *_cells(EXTRACT, stories.over_the_bound, Point.ENDING, Point.CLEANED, *FREED, Point.NOTIFIED),
    *_cells(EXTRACT, stories.handed_over, Point.FREED),
    *_cells(EXTRACT, stories.taken_over, Point.PART_STORED, Point.SEALED),
)
"""The same points by other ways; for the soak."""

SMALL_ONLY = {
    stories.stalled,
    stories.canceled_behind_a_worker,
    stories.canceled_and_swept,
    stories.canceled_and_taken_over,
    stories.poisoned,
    stories.read_again,
    stories.taken_in_vain,
    stories.event_taken_in_vain,
}
"""What is left behind in these stories is an object and a manifest, or a message, whatever their size.

Where it was stored in parts there is an upload to abort besides: those kills are in `MORE_PARTS`.
"""

ALIKE = {stories.waited_too_long, stories.canceled_while_read, stories.source_used_up}
"""In these, nothing or something of their own is read."""


def every_run() -> Iterator[tuple[Cell, str, str]]:
    """Yield all cells with each size and number of datasources that can make a difference to them."""
    for cell in (*AROUND, *WORKER, *MORE):
        for size in ("small",) if cell.story in SMALL_ONLY | ALIKE else ("small", "large"):
            for datasources in ("one",) if cell.story in ALIKE else ("one", "several"):
                yield cell, size, datasources
    yield from ((cell, "large", datasources) for cell in (*PARTS, *MORE_PARTS) for datasources in ("one", "several"))
