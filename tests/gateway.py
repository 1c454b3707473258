"""A gateway before a rig: plain HTTP in front, the events of an HTTP API (payload 2.0) behind."""

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.rig import SUBMIT, Rig

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")


@contextmanager
def gateway(service: Rig) -> Iterator[str]:
    """Serve a rig on a free port of 127.0.0.1, one request at a time; yield its address."""
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def serve(self) -> None:
            """Hand a request over, and what came back."""
            length = self.headers.get("Content-Length", "0")
            body = self.rfile.read(int(length)) if length.isdigit() else b""
            with turn:
                report = service.invoke(SUBMIT, event(self.command, self.path, self.headers.items(), body))
            assert report.outcome == "response", report
            self.answer(report.payload)

        def answer(self, payload: Mapping[str, Any]) -> None:
            """Write an answer; one to HEAD has no body."""
            text = payload.get("body") or ""
            body = base64.b64decode(text) if payload.get("isBase64Encoded") else text.encode()
            self.send_response(payload["statusCode"])
            for name, value in {**payload["headers"], "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    for method in METHODS:
        setattr(Handler, f"do_{method}", Handler.serve)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def event(method: str, target: str, headers: Any, body: bytes) -> dict[str, Any]:
    """Make what an HTTP API hands to its function."""
    path, _, query = target.partition("?")
    named: dict[str, str] = {}
    for name, value in headers:
        named[name.lower()] = f"{named[name.lower()]},{value}" if name.lower() in named else value
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": named,
        "requestContext": {
            "http": {"method": method, "path": unquote(path), "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "gateway-request",
        },
        "isBase64Encoded": False,
    }
    if query:
        given: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            given[name] = f"{given[name]},{value}" if name in given else value
        made["queryStringParameters"] = given
    if body:
        try:
            made["body"] = body.decode()
        except UnicodeDecodeError:
            made |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    return made
