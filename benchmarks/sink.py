"""The part of S3 that an upload needs, over TLS: parts are taken, counted and thrown away.

A process of its own, so that its CPU is not the client's; on two cores it still takes from what the others have.
"""

import multiprocessing
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.certificates import ADDRESS, Authority, server_context

BLOCK = 256 * 1024
STARTED = b"<InitiateMultipartUploadResult><UploadId>sink</UploadId></InitiateMultipartUploadResult>"
COMPLETED = b"<CompleteMultipartUploadResult><ETag>sink</ETag></CompleteMultipartUploadResult>"


@contextmanager
def discarding() -> Iterator[tuple[dict[str, str], int]]:
    """Run the sink; yield the variables that lead boto3 to it, and its process's id."""
    authority = Authority.made()
    context = server_context(authority.issued(ADDRESS))
    with TemporaryDirectory(prefix="fetcher-benchmark-") as folder, socket.create_server((ADDRESS, 0)) as listener:
        bundle = Path(folder) / "authority.pem"
        bundle.write_text(authority.pem)
        server = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, context), daemon=True)
        server.start()
        try:
            yield _variables(f"https://{ADDRESS}:{listener.getsockname()[1]}", bundle), server.pid or 0
        finally:
            server.terminate()
            server.join()


def _variables(url: str, bundle: Path) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_CA_BUNDLE": str(bundle),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
    }


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_converse, args=(connection, context), daemon=True).start()


def _converse(connection: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
        stream = BufferedReader(socket.SocketIO(secured, "r"), BLOCK)
        buffer = memoryview(bytearray(BLOCK))
        while request := stream.readline():
            headers = dict(_headers(stream))
            if headers.get(b"expect"):
                secured.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            left = int(headers.get(b"content-length", 0))
            while left and (got := stream.readinto1(buffer[: min(left, BLOCK)])):
                left -= got
            body = b"" if request.startswith(b"PUT") else STARTED if b"?uploads" in request else COMPLETED
            secured.sendall(b'HTTP/1.1 200 OK\r\nETag: "sink"\r\nContent-Length: %d\r\n\r\n%b' % (len(body), body))


def _headers(stream: "BufferedReader[socket.SocketIO]") -> Iterator[tuple[bytes, bytes]]:
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        yield name.lower(), value.strip()
