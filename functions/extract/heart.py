"""The heartbeat of an attempt: it renews the lease, carries the progress and brings the cancel.

It runs on a thread of its own until the attempt ends, through sealing too. All fenced writes of an
attempt go through it, so they never overtake one another.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws.extractions import Extractions
from fetcher.aws.telemetry import logger
from fetcher.core.checkpoint import Checkpoint
from fetcher.core.extraction import Extraction
from fetcher.core.stop import Stop
from fetcher.errors import CanceledError

MARGIN = 6
"""A worker that has not renewed by a sixth of the lease before its end stops all effects."""


class Heart:
    """Use as a context. `stop` is set when the claim is lost, cannot be renewed, or a cancel came.

    `claimed_at` is an instant of the monotonic clock from before the claim.
    """

    def __init__(
        self,
        extractions: Extractions,
        extraction: Extraction,
        stop: Stop,
        *,
        lease_seconds: float,
        every_seconds: float,
        claimed_at: float,
    ) -> None:
        self._extractions = extractions
        self._extraction = extraction
        self._stop = stop
        self._safe = lease_seconds * (1 - 1 / MARGIN)
        self._every = every_seconds
        self._began = time.monotonic()
        self._spent_before = extraction.spent_ms
        stop.renewed(claimed_at + self._safe)
        self._shown: Callable[[], Mapping[str, Any]] = lambda: extraction.progress
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._beat_on, name="heart", daemon=True)

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def extraction(self) -> Extraction:
        """The record as last written, with this moment's progress and clock."""
        return replace(self._extraction, progress=self._shown(), spent_ms=self._spent_ms())

    def show(self, progress: Callable[[], Mapping[str, Any]]) -> None:
        """Take the progress from here from now on."""
        self._shown = progress

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
        return self._spent_before + round((time.monotonic() - self._began) * 1000)

    def _write(self, write: Callable[[], Extraction]) -> None:
        with self._lock:
            at = time.monotonic()
            self._extraction = write()
            self._stop.renewed(at + self._safe)

    def _beat_on(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._write(lambda: self._extractions.beat(self._extraction, self._shown(), self._spent_ms()))
            except (ClientError, BotoCoreError):
                logger.warning("the lease could not be renewed this time", exc_info=True)
            except Exception as error:  # a lost claim, or a defect: without renewals nothing may go on
                self._stop.set(error)
                return
            self._stop.look()
            if self._extraction.cancel_requested_at is not None:
                self._stop.set(CanceledError("the job was canceled"))
