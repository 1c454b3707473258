"""One stop signal for all that works on an extraction: the first reason wins and reaches the source too."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Protocol

from fetcher.errors import FetcherError, LostClaimError, TimedOutError, UnavailableError

_log = logging.getLogger(__name__)


class Paused(Exception):  # noqa: N818 - no error: the attempt's time is up, the extraction goes on in the next
    """Stop here and let the next attempt go on from the checkpoint."""


A_SLOT, THE_SOURCE = "a slot", "the source"
"""What an extraction can wait for, in the words that people read."""


class Waiting(Exception):  # noqa: N818 - no error: the extraction goes on when the wait is over
    """Give everything back and go on in so many seconds; `for_what` is one of the above."""

    def __init__(self, seconds: float, for_what: str) -> None:
        super().__init__(f"waiting for {for_what}")
        self.seconds = seconds
        self.for_what = for_what


class Cancelable(Protocol):
    """What a stop ends: a session, or the wait for one that is being opened."""

    def cancel(self) -> object:
        """End it; any thread may call this at any moment."""
        ...


class Stop:
    """Shared by the reading threads, the heartbeat and whoever waits for them.

    `seconds` is what is left of the extraction's clock, `attempt_seconds` of this attempt's; once one of
    them has run out, every `check` says so. `now` is the clock that all of it is measured by.
    """

    def __init__(
        self, seconds: float, attempt_seconds: float = math.inf, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = monotonic
        self._deadline = monotonic() + seconds
        self._pause = monotonic() + attempt_seconds
        self._lease = math.inf
        self._lock = Lock()
        self._reason: Exception | None = None
        self._changed = Event()
        self._sessions: list[Cancelable] = []

    @property
    def reason(self) -> Exception | None:
        """Why everything should stop, or None."""
        return self._reason

    def remaining(self) -> float:
        """Seconds left of the extraction's clock, never negative."""
        return max(0.0, self._deadline - self.now())

    def due(self) -> float:
        """Seconds until the first of the clocks runs out, never negative."""
        return max(0.0, min(self._lease, self._deadline, self._pause) - self.now())

    def renewed(self, until: float) -> None:
        """Effects are allowed until this instant of the monotonic clock, unless it is put off again."""
        self._lease = until

    @contextmanager
    def put_off(self, seconds: float) -> Iterator[None]:
        """Let the attempt's own time, and no other clock, run out so much later: sealing has a time of its own."""
        self._pause += seconds
        try:
            yield
        finally:
            self._pause -= seconds

    def set(self, reason: Exception) -> None:
        """Stop for this reason, unless there is one already, and cancel at every source."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            self._changed.set()
            sessions = list(self._sessions)
        for session in sessions:
            Thread(target=_cancel, args=(session,), name="cancel", daemon=True).start()

    def look(self) -> None:
        """Set the reason when a clock has run out; called at each page, and beside the heartbeat between pages."""
        if self._reason is not None:
            return
        now = self.now()
        if now >= self._lease:
            self.set(LostClaimError("the lease could not be renewed in time"))
        elif now >= self._deadline:
            self.set(TimedOutError("the extraction ran out of its time"))
        elif now >= self._pause:
            self.set(Paused("the attempt ran out of its time"))

    def check(self) -> None:
        """Raise the reason to stop, if there is one."""
        self.look()
        if self._reason is not None:
            raise self._reason

    def recover(self, error: UnavailableError, seconds: float) -> None:
        """Forget that something was unavailable, or the cause of this error, and wait before it is asked again.

        Every other reason stays, or ends the wait, and is raised.
        """
        with self._lock:
            if isinstance(self._reason, UnavailableError) or self._reason is error.__cause__:
                self._reason = None
                self._changed.clear()
        self._changed.wait(min(seconds, self.remaining()))
        self.check()

    @contextmanager
    def watching(self, session: Cancelable) -> Iterator[None]:
        """Cancel this, too, when the stop comes."""
        with self._lock:
            self._sessions.append(session)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._sessions.remove(session)


def _cancel(session: Cancelable) -> None:
    try:
        session.cancel()
    except FetcherError as error:
        _log.warning("a session could not be canceled at its source", extra={"code": error.code})
