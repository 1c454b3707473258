"""The heartbeat of an attempt: it renews the lease, carries the progress and brings the cancel.

It runs on a thread of its own until the attempt ends, through sealing too. All fenced writes of an
attempt go through it, so they never overtake one another. A second thread looks at the clocks meanwhile: a
renewal that AWS neither takes nor refuses may last longer than the lease.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws.extractions import Extractions
from fetcher.aws.slots import Held, Slots
from fetcher.aws.telemetry import logger
from fetcher.core.checkpoint import Checkpoint
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.stop import A_SLOT, Stop, Waiting
from fetcher.errors import CanceledError, LostClaimError
from fetcher.settings import Settings

MARGIN = 6
"""A worker that has not renewed by a sixth of the lease before its end stops all effects."""

RENEWALS = 10
"""Source slots are renewed when this part of their lease has passed: rarer than the claim, which carries progress."""


class Heart:
    """Use as a context. `stop` is set when claim or slots are lost or cannot be renewed, or a cancel came.

    `claimed_at` is an instant of the stop's clock from before the claim.
    """

    def __init__(
        self,
        extractions: Extractions,
        renewals: Slots,
        extraction: Extraction,
        stop: Stop,
        settings: Settings,
        *,
        claimed_at: float,
    ) -> None:
        self._extractions = extractions
        self._extraction = extraction
        self._stop = stop
        lease_seconds = settings.lease_ms / 1000
        self._safe = lease_seconds * (1 - 1 / MARGIN)
        self._renew_after = lease_seconds / RENEWALS
        self._every = settings.heartbeat_seconds
        self._began: float | None = None
        self._spent_before = extraction.spent_ms
        self._renewals = renewals
        self._held: Held | None = None
        self._claim_renewed = self._slots_renewed = claimed_at
        stop.renewed(claimed_at + self._safe)
        self._shown: Callable[[], Mapping[str, Any]] = lambda: extraction.progress
        self._lock = Lock()
        self._ended = Event()
        self._threads = [
            Thread(target=self._beat_on, name="heart", daemon=True),
            Thread(target=self._look_on, name="lease", daemon=True),
        ]

    def __enter__(self) -> "Heart":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def extraction(self) -> Extraction:
        """The record as last written, with this moment's progress and clock."""
        return replace(self._extraction, progress=self._shown(), spent_ms=self._spent_ms())

    def show(self, progress: Callable[[], Mapping[str, Any]]) -> None:
        """Take the progress from here from now on."""
        self._shown = progress

    @property
    def holds(self) -> bool:
        """Whether the source slots are taken."""
        return self._held is not None

    def hold(self, held: Held, taken_at: float) -> None:
        """Renew these source slots too; `taken_at` is an instant of the stop's clock from before they were taken.

        The extraction's time runs from here: waiting for a slot is not part of it.
        """
        with self._lock:
            self._held = held
            self._slots_renewed = taken_at
            self._put_off()
        self._began = self._stop.now()

    def tried(self) -> None:
        """Count a try in vain. Raises `LostClaimError`."""
        self._write(lambda: self._extractions.retry(self._extraction, self._shown(), self._spent_ms()))

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint now. Raises `LostClaimError`."""
        self._write(lambda: self._extractions.beat(self._extraction, self._shown(), self._spent_ms(), checkpoint))

    def begin(self, checkpoint: Checkpoint) -> None:
        """Note a new upload in place of an earlier one. Raises `LostClaimError`."""
        self._write(lambda: self._extractions.begin(self._extraction, checkpoint))

    def go_on(self) -> None:
        """Take a block of part numbers of the checkpoint's upload. Raises `LostClaimError`."""
        self._write(lambda: self._extractions.go_on(self._extraction))

    def seal(self, sealed: Mapping[str, Any]) -> None:
        """Fix what may become the object. Raises `LostClaimError`."""
        self._write(lambda: self._extractions.seal(self._extraction, self._shown(), self._spent_ms(), sealed))

    def _spent_ms(self) -> int:
        if self._began is None:
            return self._spent_before
        return self._spent_before + round((self._stop.now() - self._began) * 1000)

    def _write(self, write: Callable[[], Extraction]) -> None:
        """Write under the claim, unless it was given up: renewed then, it would only keep others from the job."""
        with self._lock:
            self._stop.look()
            if isinstance(reason := self._stop.reason, LostClaimError):
                raise reason
            at = self._stop.now()
            self._extraction = write()
            self._claim_renewed = at
            self._put_off()

    def _put_off(self) -> None:
        """Effects are allowed as long as both the claim and the slots are surely mine."""
        renewed = min(self._claim_renewed, self._slots_renewed) if self._held else self._claim_renewed
        self._stop.renewed(renewed + self._safe)

    def _renew_slots(self) -> None:
        """Renew the slots when a part of their lease has passed; one that is another's ends this attempt."""
        at = self._stop.now()
        if self._held is None or at - self._slots_renewed < self._renew_after:
            return
        if not self._renewals.renew(self._held):
            self._stop.set(Waiting(0, A_SLOT))
            return
        with self._lock:
            self._slots_renewed = at
            self._put_off()

    def _look_on(self) -> None:
        """Let the stop come when a clock runs out, also while a source and AWS are silent."""
        while not self._ended.wait(min(self._every, self._stop.due() or self._every)):
            self._stop.look()

    def _beat_on(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._write(lambda: self._extractions.beat(self._extraction, self._shown(), self._spent_ms()))
                self._renew_slots()
                reach(Point.BEATEN)
            except (ClientError, BotoCoreError):
                logger.warning("the lease could not be renewed this time", exc_info=True)
            except Exception as error:  # a lost claim, or a defect: without renewals nothing may go on
                self._stop.set(error)
                return
            if self._extraction.cancel_requested_at is not None:
                self._stop.set(CanceledError("the job was canceled"))
