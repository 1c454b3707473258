"""Fronts for a server that speaks no TLS: one that ends it, and one that hangs up on it."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from tests.contract.serving import served

HANDSHAKE = b"\x16"

Address = tuple[str, int]


def ending(target: Address, context: ssl.SSLContext) -> AbstractContextManager[int]:
    """Send on in clear what arrives inside TLS; a client whose handshake fails is hung up on."""
    return _fronting(target, lambda client: context.wrap_socket(client, server_side=True))


def refusing(target: Address) -> AbstractContextManager[int]:
    """Send on what arrives, but hang up on a greeting of TLS, as servers do that cannot read it."""

    def looked_at(client: socket.socket) -> socket.socket:
        if client.recv(1, socket.MSG_PEEK) == HANDSHAKE:
            raise ConnectionError
        return client

    return _fronting(target, looked_at)


def _fronting(target: Address, greeted: Callable[[socket.socket], socket.socket]) -> AbstractContextManager[int]:
    """Serve on a free port of 127.0.0.1."""

    def serve(client: socket.socket) -> None:
        with greeted(client) as inside:
            server = socket.create_connection(target)
            threading.Thread(target=_copied, args=(server, inside), daemon=True).start()
            with server:
                _copied(inside, server)

    return served(serve)


def _copied(source: socket.socket, target: socket.socket) -> None:
    """Give on what comes, its end or its reset too: a thread that still waits for the target's words hears of it."""
    ending = socket.SHUT_WR
    try:
        while received := source.recv(65536):
            target.sendall(received)
    except OSError:
        ending = socket.SHUT_RDWR
    with suppress(OSError):
        target.shutdown(ending)
