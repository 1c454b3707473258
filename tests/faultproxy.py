"""A TCP proxy that breaks the wire at an exact byte, in the ways that wires break."""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["none", "rst", "fin", "half", "garbage", "stall"]
RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class FaultProxy:
    """Forwards to `target`. Once `fault` is set, it happens to each connection `after` bytes later.

    Bytes are the server's; `passed` counts them. `half` closes only the
    server's direction; `stall` keeps the connection open and silent.
    """

    target: tuple[str, int]
    fault: Fault = "none"
    after: int = 0
    port: int = 0
    passed: int = 0
    broken: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _sockets: list[socket.socket] = field(default_factory=list)

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
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65536):
                target.sendall(received)
            target.shutdown(socket.SHUT_WR)

    def _copy_until_fault(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while received := server.recv(65536):
                if self.fault != "none" and len(received) >= self.after:
                    client.sendall(received[: self.after])
                    return self._break(client, received[self.after :])
                self.after -= len(received) if self.fault != "none" else 0
                self.passed += len(received)
                client.sendall(received)
            client.shutdown(socket.SHUT_WR)
        return None

    def _break(self, client: socket.socket, rest: bytes) -> None:
        self.broken.set()
        match self.fault:
            case "rst":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.shutdown(socket.SHUT_RD)  # the other direction's thread lets go of it
                client.close()
            case "fin":
                client.shutdown(socket.SHUT_RDWR)
            case "half":
                client.shutdown(socket.SHUT_WR)
            case "garbage":
                client.sendall(os.urandom(max(4096, len(rest))))
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
            proxy.close()
            acceptor.join(5)
