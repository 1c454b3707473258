"""The command line under test, and a real HTTP server on this machine that stands in for the API and for S3.

The server answers what a test has scripted and keeps what it was sent; the real service is driven in
`tests/integration/test_cli.py`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from typer.testing import CliRunner, Result

from fetcher.core.manifest import DatasourceEntry, Manifest, Part, ResultEntry, TableEntry, render
from fetcher.core.seal import START_OF_CHAIN, Chunk, Seal, chained
from fetcher.model import Column, Encoding, Position, Query
from fetcher_cli.app import app

JOB = "5b1f7a52-8f0e-4f0b-9a5d-0d6f5a3f1c11"
CONNECTION = "0b6a2f6e-98a4-4a2e-8a4c-3b1f0a7f2d10"
JOBS, CONNECTIONS = "/v1/fetcher", "/v1/management/connections"

MASTER = bytes(range(32))
KEY = bytes.fromhex("ec9eedfd0b245950528714e5328ff2c2639ab32540a309f1cd68685ceaff9dfe")
"""The external key of that master key: vector of the public system."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer. A `dict` body is sent as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Server:
    """Answers by script: each route gives its replies in order, and the last one for ever."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._script: dict[tuple[str, str], list[Reply]] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def on(self, method: str, path: str, *replies: Reply) -> None:
        """Script a route."""
        self._script[method, path] = list(replies)

    def reply(self, sent: Sent) -> Reply:
        self.sent.append(sent)
        script = self._script.get((sent.method, sent.path), [problem(404, "FET-0005", "there is no such route")])
        return script.pop(0) if len(script) > 1 else script[0]

    def to(self, path: str) -> list[Sent]:
        """Return what was sent to a path."""
        return [sent for sent in self.sent if sent.path == path]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            reply = server.reply(Sent(self.command, self.path, dict(self.headers), body))
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.bytes())), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.bytes())

        do_GET = do_POST = do_DELETE = do_any  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def problem(status: int, code: str, detail: str, *pointers: str) -> Reply:
    """Answer as the API answers errors."""
    errors = [{"pointer": pointer, "detail": detail} for pointer in pointers]
    body = {"code": code, "status": status, "detail": detail, "requestId": "request-1", "errors": errors}
    return Reply(status, body, {"Content-Type": "application/problem+json"})


def run(*arguments: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input, env=env)


def with_api(server: Server, *arguments: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Result:
    return run(*arguments, "--api", server.url, input=input, env=env)


# --- a signed result


ID = Column("id", "bigint", Encoding.INTEGER, nullable=False)
MIDDLE = Position((("bigint", "1"),))
DOCUMENT = b'{"pg":{"accounts":[{"id":1},{"id":2}]}}'


@dataclass(frozen=True, slots=True)
class Signed:
    """A result, its manifest, and the job that shows both."""

    result: bytes
    manifest: bytes
    job: Mapping[str, Any]


def signed(result: bytes = DOCUMENT, job_id: str = JOB) -> Signed:
    """Sign a document of two chunks and two parts."""
    seal, chunks, chain = Seal(KEY), [], START_OF_CHAIN
    for piece in (result[:20], result[20:]):
        seal.update(piece)
        digest = hashlib.sha256(piece).hexdigest()
        chain = chained(chain, digest)
        chunks.append(Chunk(len(piece), digest, chain))
    table = TableEntry(
        Query("accounts", ("public", "accounts"), (ID,), (ID,)), (Part(1, high=MIDDLE), Part(1, low=MIDDLE))
    )
    entry = ResultEntry("results/default/u.json", len(result), seal.sha256, seal.hmac, "1", tuple(chunks))
    manifest = Manifest(
        extraction_id=job_id,
        tenant="default",
        request_hash="00",
        plan_digest="00",
        datasources=(DatasourceEntry("pg", "postgresql", "repeatable read", (table,)),),
        result=entry,
        created_at="2026-01-31T08:00:00.000Z",
        started_at="2026-01-31T08:00:01.000Z",
        completed_at="2026-01-31T08:00:02.000Z",
        attempts=1,
        engine_version="0.1.0",
    )
    job = {
        "id": job_id,
        "status": "completed",
        "metadata": {"source": "payments"},
        "createdAt": "2026-01-31T08:00:00.000Z",
        "attempts": 1,
        "progress": {"rows": 2, "bytes": len(result), "tables": {"done": 1, "total": 1}},
        "resultSha256": seal.sha256,
        "resultHmac": seal.hmac,
        "sizeBytes": len(result),
        "rowCount": 2,
    }
    return Signed(result, render(manifest, KEY), job)


RUNNING = {
    "id": JOB,
    "status": "processing",
    "metadata": {"source": "payments"},
    "createdAt": "2026-01-31T08:00:00.000Z",
    "attempts": 1,
    "progress": {
        "rows": 1,
        "bytes": 9,
        "tables": {"done": 0, "total": 1},
        "current": "pg/accounts",
        "rate": {"rows": 1500, "bytes": 2_500_000},
    },
}
FAILED = {
    **RUNNING,
    "status": "failed",
    "error": {"code": "FET-2010", "family": "invalid", "message": "no", "datasource": "pg", "table": "t", "field": "f"},
}
AT_ONCE = {"Retry-After": "0"}


def serve(server: Server, what: Signed, *, link: str = "/store/u.json?signature=x") -> None:
    """Serve a completed job, its result through a link, and its manifest."""
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=what.job))
    server.on("GET", f"{JOBS}/{JOB}/result", Reply(303, headers={"Location": server.url + link}))
    server.on("GET", f"{JOBS}/{JOB}/manifest", Reply(body=what.manifest))
    server.on("GET", link, Reply(body=what.result))


def stored(folder: Path, what: Signed) -> tuple[str, str]:
    (folder / "result.json").write_bytes(what.result)
    (folder / "manifest.json").write_bytes(what.manifest)
    return "result.json", "manifest.json"
