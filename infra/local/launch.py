"""Runs the pinned endpoint with two defects mended and its gateway bounded; a program for the endpoint's own venv."""

import asyncio
import socketserver
from typing import Any

from ministack import app  # type: ignore[import-not-found]

GATEWAY = 6
"""Requests that the HTTP API serves at once; each needs a process, and a laptop has few cores to start fifty."""

_send = app._send_response  # noqa: SLF001 - the version is pinned


async def _send_response(send: Any, status: int, headers: Any, body: Any, **options: Any) -> None:
    """Take a handler's missing body for an empty one, as API Gateway does; else it would be a 500."""
    await _send(send, status, headers, b"" if body is None else body, **options)


def _bounded(serve: Any) -> Any:
    """Let requests to the HTTP API wait their turn, and nothing else."""
    turn = asyncio.Semaphore(GATEWAY)

    async def serve_in_turn(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/_aws/execute-api/"):
            async with turn:
                await serve(scope, receive, send)
        else:
            await serve(scope, receive, send)

    return serve_in_turn


if __name__ == "__main__":
    # Nagle's algorithm makes each answer of its Runtime API wait 40 ms for an acknowledgement.
    socketserver.StreamRequestHandler.disable_nagle_algorithm = True
    app._send_response = _send_response  # noqa: SLF001 - the version is pinned
    app.app = _bounded(app.app)
    app.main()
