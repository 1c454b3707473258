"""Ends a conversation that stalls, whose time is over, or that somebody canceled, for every engine.

Drivers block for ever on a silent wire; a socket that is shut down wakes all of them. Whatever the
driver then says, the session raises what the watchdog knows.

    no byte for the stall's seconds, and the source does not work for us    unavailable: it may be tried again
    no byte, but the source says on a second connection that it works       left to work, up to the deadline,
                                                                            while keepalives are answered
    a byte now and then                                                     alive, up to the deadline
    the deadline                                                            timeout: never tried again

After a stall and at the deadline the source is told on a second connection, too: it cannot always see that
the first one is gone. Where there is no second way, its own time limit for a statement is the bound.
"""

import contextlib
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Literal, Self

from fetcher.errors import CanceledError, FetcherError, TimedOutError, UnavailableError
from fetcher.settings import stall_seconds

TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
LAST_RECEIVED = struct.Struct("=52xI")
"""`tcpi_last_data_recv` of Linux' `struct tcp_info`: milliseconds since data came, acknowledgements not counted."""

PROBES = 3
"""Keepalives without an answer after which the kernel gives a connection up."""

log = logging.getLogger(__name__)

Verdict = Literal["stall", "deadline", "canceled"]

ERRORS: dict[Verdict, tuple[type[FetcherError], str]] = {
    "stall": (UnavailableError, "the source stopped answering in the middle of a conversation"),
    "deadline": (TimedOutError, "the time allowed for the source ran out"),
    "canceled": (CanceledError, "the extraction was canceled"),
}


class Watchdog:
    """Watches one session from its own thread; use as a context manager around the session's life.

    `working` is asked, from that thread, before silence counts as a stall: a server that is busy
    with a long sort sends nothing for minutes. `abandon` tells the source that nobody waits any more, after
    a stall or at the deadline; it bounds itself. The stall's length is `FETCHER_STALL_SECONDS`.
    """

    def __init__(
        self,
        seconds: float,
        *,
        working: Callable[[], bool] | None = None,
        abandon: Callable[[], object] | None = None,
    ) -> None:
        self._deadline = monotonic() + seconds
        self._stall = stall_seconds()
        self._working = working
        self._abandon = abandon
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
            self._keep_alive(self._socket)
        if self._verdict:
            self.end(self._verdict)

    def beat(self) -> None:
        """Note that the source has answered; a driver may also take many bytes before anyone can say so."""
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
    def waiting(self, explained: Callable[[Exception], FetcherError], *, blind: bool = False) -> Iterator[None]:
        """Watch for silence during the block, and let only `FetcherError`s out of it.

        `explained` translates any exception of the driver, of whatever class; the watchdog's own
        verdict comes first. It is `blind` to a driver that keeps its socket to itself, which then has a limit of its
        own: what takes longer than a stall there may be a slow wire.
        """
        self.beat()
        self._waiting = not blind
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

    def _keep_alive(self, wire: socket.socket) -> None:
        """Let the kernel ask the other end's, too: it knows of a flow that a gateway forgot while the source works."""
        every = max(1, round(self._stall / (1 + PROBES)))
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", every), ("TCP_KEEPINTVL", every), ("TCP_KEEPCNT", PROBES)):
            if hasattr(socket, name):
                wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._stall / 4, self.left() + 0.01)):
            if monotonic() >= self._deadline:
                return self._give_up("deadline")
            if self._is_silent() and not self._is_working():
                return self._give_up("stall")
        return None

    def _give_up(self, verdict: Verdict) -> None:
        self.end(verdict)
        if self._abandon is not None:
            try:
                self._abandon()
            except Exception:
                log.debug("the source could not be told", exc_info=True)

    def _is_silent(self) -> bool:
        return self._waiting and monotonic() - max(self._seen, self._received()) >= self._stall

    def _received(self) -> float:
        """When the last byte came, by the kernel: drivers collect a large answer without a sign of life."""
        with self._lock, contextlib.suppress(OSError, struct.error):
            if self._socket is not None and TCP_INFO is not None:
                info = self._socket.getsockopt(socket.IPPROTO_TCP, TCP_INFO, LAST_RECEIVED.size)
                return monotonic() - float(LAST_RECEIVED.unpack(info)[0]) / 1000
        return self._seen

    def _is_working(self) -> bool:
        """Ask the source, if it can be asked; bytes that arrived meanwhile are an answer too."""
        if self._working is not None and self._working():
            self.beat()
        return not self._is_silent()


def _decided(verdict: Verdict) -> FetcherError:
    family, message = ERRORS[verdict]
    return family(message)
