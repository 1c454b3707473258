"""An HTTP proxy between the handlers and the AWS endpoint that names every call and can spoil one.

What it forwards, it forwards byte by byte, signature included. A fault is chosen by operation and by the
number of the call; what it answers in AWS's place is worded as AWS words it.
"""

import json
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Kind = Literal[
    "throttled",
    "broken",
    "unheard",
    "lost",
    "late",
    "held",
    "conflict",
    "no such upload",
    "invalid part",
    "precondition",
    "busy key",
    "partial",
]
NETWORK = frozenset({"unheard", "lost", "late", "held"})
"""`unheard` is reset before the endpoint hears of it; `lost` and `late` take effect, and no answer comes.

After `lost` the connection is reset; with `late` it stays open, in silence, until the client gives up.
`held` waits on its way to the endpoint until `release` is set, and then goes on as if nothing had been.
"""

RESET = struct.pack("ii", 1, 0)
THROTTLED = {"dynamodb": "ProvisionedThroughputExceededException", "s3": "SlowDown", "sqs": "RequestThrottled"}
ANSWERS: dict[str, tuple[int, str]] = {
    "throttled": (400, "ThrottlingException"),
    "broken": (500, "InternalServerError"),
    "conflict": (400, "TransactionConflictException"),
    "no such upload": (404, "NoSuchUpload"),
    "invalid part": (400, "InvalidPart"),
    "precondition": (412, "PreconditionFailed"),
    "busy key": (409, "ConditionalRequestConflict"),
}
NOT_TAKEN = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure", "ErrorMessage": "not taken"}]}


@dataclass(frozen=True, slots=True)
class Call:
    """One request to AWS, as it came over the wire."""

    service: str
    operation: str
    head: bytes
    body: bytes

    @property
    def name(self) -> str:
        """Service and operation, as IAM spells them."""
        return f"{self.service}:{self.operation}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to calls `first`, `first` + 1, … of an operation: `calls` of them, or None for all that follow."""

    operation: str
    kind: Kind
    first: int = 1
    calls: int | None = 1

    def meets(self, operation: str, number: int) -> bool:
        """Whether it happens to this call of its operation."""
        return operation == self.operation and self.first <= number < self.first + (self.calls or number + 1)


@dataclass(slots=True)
class CloudProxy:
    """Forwards to `target`; `seen` are the operations in order, as `name` names them.

    `faults` are of different operations; `also` is one more, for one call, that brings about what is to be tested.
    """

    target: tuple[str, int]
    name: Callable[[Call], str] = lambda call: call.name
    port: int = 0
    faults: tuple[Fault, ...] = ()
    also: Fault | None = None
    seen: list[str] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    _happened: set[Fault] = field(default_factory=set)
    _counted: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sockets: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What AWS_ENDPOINT_URL should say."""
        return f"http://127.0.0.1:{self.port}"

    def arm(self, *faults: Fault) -> None:
        """Count from here, and spoil what the faults say."""
        with self._lock:
            self.faults, self.also, self.seen = faults, None, []
            self._happened.clear()
            self._counted.clear()
            self.held.clear()
            self.release.clear()

    def mend(self) -> list[Fault]:
        """Let what has happened happen no more; return it."""
        with self._lock:
            happened = [fault for fault in self.faults if fault in self._happened]
            self.faults = tuple(fault for fault in self.faults if fault not in self._happened)
        return happened

    def accept(self, listener: socket.socket) -> None:
        """Serve until the listener closes."""
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        self.release.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), socket.create_connection(self.target) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client.makefile("rb") as asked, server.makefile("rb") as answered:
                while head := _head(asked):
                    if header(head, "expect"):
                        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                    length = int(header(head, "content-length") or 0)
                    if len(body := asked.read(length)) < length:
                        return  # the sender died in the middle of it
                    call = Call(*_operation(head), head, body)
                    if not self._exchange(call, client, server, answered):
                        return
        with suppress(OSError):
            client.close()

    def _exchange(self, call: Call, client: socket.socket, server: socket.socket, answered: BufferedReader) -> bool:
        """Answer one call; False when the client's connection is gone."""
        kind = self._noted(self.name(call))
        if kind == "unheard":
            return _reset(client)
        if kind == "held":
            self.held.set()
            self.release.wait()
        if kind is not None and kind not in NETWORK:
            client.sendall(_answer(call, kind))
            return True
        server.sendall(call.head + call.body)
        answer = _response(call, answered)
        if kind == "lost":
            return _reset(client)
        if kind == "late":
            client.recv(1)  # what comes is the end of a client that has waited long enough
            return False
        client.sendall(answer)
        return True

    def _noted(self, operation: str) -> Kind | None:
        with self._lock:
            self.seen.append(operation)
            if self.also is not None and operation == self.also.operation:
                kind, self.also = self.also.kind, None
                return kind
            self._counted[operation] += 1
            for fault in self.faults:
                if fault.meets(operation, self._counted[operation]):
                    self._happened.add(fault)
                    return fault.kind
            return None


@contextmanager
def between(target: tuple[str, int], name: Callable[[Call], str] = lambda call: call.name) -> Iterator[CloudProxy]:
    """Run a proxy on a free port of 127.0.0.1."""
    proxy = CloudProxy(target, name)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        proxy.port = listener.getsockname()[1]
        acceptor = threading.Thread(target=proxy.accept, args=(listener,), daemon=True)
        acceptor.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            proxy.close()
            acceptor.join(5)


def header(head: bytes, name: str) -> str:
    """Read a header of a request or of an answer; an empty text when it is not there."""
    found = re.search(rb"\r\n" + name.encode() + rb": *([^\r]*)", head, re.IGNORECASE)
    return found[1].decode() if found else ""


def _head(stream: BufferedReader) -> bytes:
    """Read up to the empty line; nothing at the end of the stream."""
    lines: list[bytes] = []
    while line := stream.readline():
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)
    return b""


def _operation(head: bytes) -> tuple[str, str]:
    scope = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request", header(head, "authorization"))
    service = scope[1] if scope else "unsigned"
    if target := header(head, "x-amz-target"):
        return service, target.rpartition(".")[2]
    method, path, _ = head.split(b" ", 2)
    return (service, _s3(method.decode(), path.decode())) if service == "s3" else (service, path.decode())


def _s3(method: str, path: str) -> str:
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if "/" not in parts.path.strip("/"):
        return {"GET": "ListObjectsV2" if "list-type" in query else "GetBucket", "HEAD": "HeadBucket"}[method]
    match method, "uploadId" in query:
        case "POST", False:
            return "CreateMultipartUpload"
        case "POST", True:
            return "CompleteMultipartUpload"
        case "PUT", True:
            return "UploadPart"
        case "DELETE", True:
            return "AbortMultipartUpload"
        case _:
            return f"{method.title()}Object"


def _response(call: Call, stream: BufferedReader) -> bytes:
    """Read one whole answer; interim ones are dropped, since the client has had its own."""
    head = _head(stream)
    while head.startswith(b"HTTP/1.1 1"):
        head = _head(stream)
    if not head:
        raise EOFError
    status = int(head.split(b" ", 2)[1])
    if call.head.startswith(b"HEAD ") or status in {204, 304}:
        return head
    if header(head, "transfer-encoding").lower() == "chunked":
        return head + b"".join(_chunks(stream))
    return head + stream.read(int(header(head, "content-length") or 0))


def _chunks(stream: BufferedReader) -> Iterator[bytes]:
    while size := stream.readline():
        yield size + stream.read(int(size, 16) + 2)
        if int(size, 16) == 0:
            return


def _reset(client: socket.socket) -> bool:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RD)
    client.close()
    return False


def _answer(call: Call, kind: Kind) -> bytes:
    """Say it in AWS's place."""
    if kind == "partial":
        return _http(200, json.dumps(NOT_TAKEN).encode(), "application/x-amz-json-1.1")
    status, code = ANSWERS[kind]
    if kind == "throttled":
        code = THROTTLED.get(call.service, code)
    if call.service == "s3":
        status = 503 if kind == "throttled" else status
        code = "InternalError" if kind == "broken" else code
        body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        return _http(status, b"" if call.head.startswith(b"HEAD ") else body, "application/xml")
    content: dict[str, Any] = {"__type": f"com.amazonaws#{code}", "message": "injected"}
    if kind == "conflict" and call.operation == "TransactWriteItems":
        reasons = [{"Code": "None"} for _ in json.loads(call.body)["TransactItems"]]
        reasons[0] = {"Code": "TransactionConflict"}
        content |= {"__type": "com.amazonaws#TransactionCanceledException", "CancellationReasons": reasons}
    return _http(status, json.dumps(content).encode(), "application/x-amz-json-1.0")


def _http(status: int, body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 {status} Injected\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
