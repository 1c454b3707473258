"""Ends a conversation that stalls, whose time is over, or that somebody canceled, for every engine.

Drivers block for ever on a silent wire; a socket that is shut down wakes all of them. Whatever the
driver then says, the session raises what the watchdog knows.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Literal, Self

from fetcher.errors import CanceledError, FetcherError, TimedOutError, UnavailableError
from fetcher.settings import load

STALL = load().stall_seconds
"""Seconds without progress after which a wire counts as dead: `FETCHER_STALL_SECONDS`, 30 unless it is set."""

Verdict = Literal["stall", "deadline", "canceled"]

ERRORS: dict[Verdict, tuple[type[FetcherError], str]] = {
    "stall": (UnavailableError, "the source stopped answering in the middle of a conversation"),
    "deadline": (TimedOutError, "the time allowed for the source ran out"),
    "canceled": (CanceledError, "the extraction was canceled"),
}


class Watchdog:
    """Watches one session from its own thread; use as a context manager around the session's life.

    `working` is asked, from that thread, before silence counts as a stall: a server that is busy
    with a long sort sends nothing for minutes.
    """

    def __init__(self, seconds: float, *, working: Callable[[], bool] | None = None) -> None:
        self._deadline = monotonic() + seconds
        self._stall = STALL
        self._working = working
        self._seen = monotonic()
        self._waiting = False
        self._verdict: Verdict | None = None
        self._socket: socket.socket | None = None
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def guard(self, descriptor: int) -> None:
        """Take a duplicate of the session's socket, which stays valid when the driver closes its own.

        A second one, of another attempt to connect, takes the place of the first.
        """
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = socket.socket(fileno=os.dup(descriptor))
        if self._verdict:
            self.end(self._verdict)

    def beat(self) -> None:
        """Note that bytes have arrived."""
        self._seen = monotonic()

    def left(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self._deadline - monotonic())

    @property
    def ended(self) -> Verdict | None:
        """Why the conversation was ended from here, if it was."""
        return self._verdict

    def end(self, verdict: Verdict) -> None:
        """Shut the socket down. The first verdict stays; any thread may call this, any number of times."""
        self.note(verdict)
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def note(self, verdict: Verdict) -> None:
        """Decide what the next error means, without touching the wire yet."""
        with self._lock:
            self._verdict = self._verdict or verdict

    @contextmanager
    def waiting(self, explained: Callable[[Exception], FetcherError]) -> Iterator[None]:
        """Watch for silence during the block, and let only `FetcherError`s out of it.

        `explained` translates any exception of the driver, of whatever class; the watchdog's own
        verdict comes first.
        """
        self.beat()
        self._waiting = True
        try:
            if self._verdict:
                raise _decided(self._verdict)
            yield
        except Exception as error:
            if not self.left():
                self.note("deadline")
            if self._verdict:
                raise _decided(self._verdict) from error
            if isinstance(error, FetcherError):
                raise
            raise explained(error) from error
        finally:
            self._waiting = False

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._stall / 4, self.left() + 0.01)):
            if monotonic() >= self._deadline:
                return self.end("deadline")
            if self._is_silent() and not self._is_working():
                return self.end("stall")
        return None

    def _is_silent(self) -> bool:
        return self._waiting and monotonic() - self._seen >= self._stall

    def _is_working(self) -> bool:
        """Ask the source, if it can be asked; bytes that arrived meanwhile are an answer too."""
        if self._working is not None and self._working():
            self.beat()
        return not self._is_silent()


def _decided(verdict: Verdict) -> FetcherError:
    family, message = ERRORS[verdict]
    return family(message)
