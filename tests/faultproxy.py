"""A TCP proxy that breaks the wire at an exact byte, in the ways that wires break, or only makes it slow."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Literal

Fault = Literal["none", "rst", "fin", "half", "garbage", "stall"]
SLICE_SECONDS = 0.05
"""How often a bounded rate gives bytes on."""
RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class FaultProxy:
    """Forwards to `target`. Once `fault` is set, it happens to each connection `after` bytes later.

    Bytes are the server's; `passed` counts them, `heard` keeps what clients said, and `asked` counts what they
    sent at once. `half` closes only the server's direction; `stall` keeps the connection open and silent, in both
    directions: what the client sends, its end too, does not get through. With `alone` it happens to the first
    connection that gets so far, and others pass: a flow that a gateway forgot, on a way that is open. With `each` the
    bytes are each connection's own: a server that never gets further than that. With `ready` the fault waits for that,
    behind the bytes before it. `breaks` are the faults that happened, one a connection.

    Behind the next `quick` bytes the way is slow: `latency` are seconds before bytes go on, each of the `turns` in
    which they come; `rate` is the most bytes a second. `said` keeps what servers said, if there is one.
    """

    target: tuple[str, int]
    fault: Fault = "none"
    after: int = 0
    port: int = 0
    passed: int = 0
    alone: bool = False
    each: bool = False
    ready: threading.Event | None = None
    quick: int = 0
    latency: float = 0
    rate: float = 0
    turns: int = 0
    said: bytearray | None = None
    heard: bytearray = field(default_factory=bytearray)
    asked: int = 0
    broken: threading.Event = field(default_factory=threading.Event)
    breaks: list[Fault] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _sockets: list[socket.socket] = field(default_factory=list)
    _silent: list[socket.socket] = field(default_factory=list)

    def accept(self, listener: socket.socket) -> None:
        """Serve until the listener closes."""
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self.target)
                self._sockets += [client, server]
                threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
                threading.Thread(target=self._copy_until_fault, args=(server, client), daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        self._ended.set()
        if self.ready is not None:
            self.ready.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        """Give on what the client sends, its end or its reset too."""
        ending = socket.SHUT_WR
        try:
            while received := source.recv(65536):
                self.heard += received
                self.asked += 1
                if target not in self._silent:
                    target.sendall(received)
        except OSError:
            ending = socket.SHUT_RDWR
        if target not in self._silent:
            with suppress(OSError):
                target.shutdown(ending)

    def _copy_until_fault(self, server: socket.socket, client: socket.socket) -> None:
        try:
            self._served(server, client)
        except OSError:  # a server that hangs up on unread bytes resets the wire: its client must hear of it
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _served(self, server: socket.socket, client: socket.socket) -> None:
        own = self.after
        while received := server.recv(65536):
            fault = self.fault
            armed = fault != "none" and not (self.alone and self.broken.is_set())
            left = own if self.each else self.after
            if armed and len(received) >= left:
                client.sendall(received[:left])
                if self.ready is not None:
                    self.ready.wait()
                return self._break(fault, server, client, received[left:])
            if armed and self.each:
                own -= len(received)
            elif armed:
                self.after -= len(received)
            self.passed += len(received)
            if self.said is not None:
                self.said += received
            self._pass(client, received)
        return client.shutdown(socket.SHUT_WR)

    def _pass(self, client: socket.socket, received: bytes) -> None:
        quick, slow = received[: self.quick], received[self.quick :]
        self.quick -= len(quick)
        client.sendall(quick)
        if not slow:
            return
        self.turns += 1
        time.sleep(self.latency)
        size = int(self.rate * SLICE_SECONDS) or len(slow)
        for at in range(0, len(slow), size):
            client.sendall(slow[at : at + size])
            if self.rate:
                time.sleep(SLICE_SECONDS)

    def _break(self, fault: Fault, server: socket.socket, client: socket.socket, rest: bytes) -> None:
        self.breaks.append(fault)
        if fault == "stall":
            self._silent.append(server)
        self.after = self.after if self.each else 0  # for whoever comes next
        self.broken.set()
        match fault:
            case "rst":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.shutdown(socket.SHUT_RD)  # the other direction's thread lets go of it
                client.close()
            case "fin":
                client.shutdown(socket.SHUT_RDWR)
            case "half":
                client.shutdown(socket.SHUT_WR)
            case "garbage":
                client.sendall(Random(7).randbytes(max(4096, len(rest))))
                client.shutdown(socket.SHUT_WR)
            case _:
                self._ended.wait()


@contextmanager
def faulty(host: str, port: int, fault: Fault = "none", after: int = 0) -> Iterator[FaultProxy]:
    """Run a proxy on a free port of 127.0.0.1."""
    proxy = FaultProxy((host, port), fault, after)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.port = listener.getsockname()[1]
        acceptor = threading.Thread(target=proxy.accept, args=(listener,), daemon=True)
        acceptor.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(5)  # first: whom it has just let in is to be closed too
            proxy.close()
