"""A server of a test's own on a free port of 127.0.0.1, a thread for each client."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def served(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Hand every client's socket to `serve`; a client that breaks off is no error."""

    def each(client: socket.socket) -> None:
        with suppress(OSError), client:
            serve(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=each, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
