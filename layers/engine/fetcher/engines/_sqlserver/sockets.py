"""The socket that the driver opens and hides.

It is one that is open now and was not before connecting, and whose other end is the port connected to. It is looked
for from a thread while the driver connects, because a server that falls silent in the middle of the TLS handshake
would hold the driver for ever. Connects of this kind take turns, so the sockets of two of them cannot be mixed up;
those of other kinds go to other ports. Where there is no `/proc` none is found, and the driver's own patience counts.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

DESCRIPTORS = Path("/proc/self/fd")
EVERY = 0.02

_connecting = Lock()


@contextmanager
def finding(port: int, takers: Sequence[Callable[[int], None]]) -> Iterator[None]:
    """Let one connect to this port run in the block, and give its socket to the takers as soon as it is there."""
    with _connecting:
        known, ended = {name for _, name in _sockets()}, Event()

        def look() -> None:
            for each, name in _sockets():
                if name not in known and _peer(each) == port:
                    known.add(name)
                    with suppress(OSError):
                        for taker in takers:
                            taker(each)

        def keep_looking() -> None:
            while not ended.wait(EVERY):
                look()

        seeker = Thread(target=keep_looking, name="socket seeker", daemon=True)
        seeker.start()
        try:
            yield
        finally:
            ended.set()
            seeker.join()
            look()


def _sockets() -> Iterator[tuple[int, str]]:
    """Yield descriptors with the kernel's names of their sockets: a number may be another socket's a moment later."""
    with suppress(OSError):
        for entry in list(DESCRIPTORS.iterdir()):
            with suppress(OSError):
                name = str(entry.readlink())
                if name.startswith("socket:"):
                    yield int(entry.name), name


def _peer(descriptor: int) -> int | None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        if copy.family in {socket.AF_INET, socket.AF_INET6}:
            return int(copy.getpeername()[1])
    return None
