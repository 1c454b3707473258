"""Runs a handler as Lambda would: the real runtime client, a memory limit, a deadline, and a report.

The code is what the local stack deploys, bootstrap included. Faults are armed through `env`, as in the stack.
"""

import atexit
import io
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from infra.local import archive
from infra.local.endpoint import CREDENTIALS, REGION

Outcome = Literal["response", "error", "timeout", "exited"]


@dataclass(frozen=True, slots=True)
class Report:
    """How one invocation ended. `exit` is the status of a process that died, negative for a signal."""

    outcome: Outcome
    payload: Any
    seconds: float
    peak_bytes: int
    exit: int | None
    log: str


@dataclass(frozen=True, slots=True)
class _Invocation:
    event: Any
    deadline: float
    id: str


class _RuntimeApi:
    """The part of Lambda's Runtime API that a runtime client uses, for one invocation at a time."""

    def __init__(self) -> None:
        self.invocations: queue.Queue[_Invocation] = queue.Queue()
        self.answers: queue.Queue[tuple[Outcome, Any]] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening. The runtime client must have ended before."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(api: _RuntimeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            invocation = api.invocations.get()
            headers = {
                "Lambda-Runtime-Aws-Request-Id": invocation.id,
                "Lambda-Runtime-Deadline-Ms": str(int(invocation.deadline * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:000000000000:function:envelope",
                "Content-Type": "application/json",
            }
            self._answer(200, json.dumps(invocation.event).encode(), headers)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            api.answers.put(("response" if self.path.endswith("/response") else "error", json.loads(body or b"null")))
            self._answer(202, b"{}", {})

        def log_message(self, *_: object) -> None:
            """Say nothing: the handler's own log is what matters."""

        def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _folder() -> Path:
    """Make a folder that this process removes when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="fetcher-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def unpacked() -> Path:
    """Pack and unpack the code once a process: environments only read it, as in Lambda."""
    folder = _folder()
    with zipfile.ZipFile(io.BytesIO(archive.functions_with_runtime())) as packed:
        packed.extractall(folder)
    return folder


@cache
def patched(patch: str) -> Path:
    """Copy that code, once a process for each patch: a program that the interpreter runs before a handler."""
    folder = _folder()
    shutil.copytree(unpacked(), folder, dirs_exist_ok=True)
    (folder / "sitecustomize.py").write_text(patch)
    return folder


class Envelope:
    """One execution environment. A process that died is replaced at the next invocation, as in Lambda."""

    def __init__(
        self,
        handler: str,
        folder: Path,
        *,
        memory_mb: int,
        seconds: float,
        env: Mapping[str, str] | None = None,
        code: Path | None = None,
    ) -> None:
        """Log and keep what is temporary in `folder`, run our functions or what is in `code`.

        Nothing runs before the first invocation.
        """
        self._handler = handler
        self._folder = folder
        self._code = code or unpacked()
        self._memory_mb = memory_mb
        self._seconds = seconds
        self._env = dict(env or {})
        self._api = _RuntimeApi()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Envelope":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._api.close()

    def invoke(self, event: Any, seconds: float | None = None) -> Report:
        """Run the handler once and report; it is killed at its deadline, after `seconds` if they are given."""
        lasts = self._seconds if seconds is None else seconds
        process = self._running()
        begun = time.monotonic()
        log_begins = self._log.stat().st_size
        self._api.invocations.put(_Invocation(event, time.time() + lasts, str(uuid.uuid4())))
        outcome, payload, peak = self._outcome(process, begun + lasts)
        if outcome == "timeout":
            self._end()
        status = process.poll()
        log = self._log.read_bytes()[log_begins:].decode(errors="replace")
        return Report(outcome, payload, time.monotonic() - begun, peak, status, log)

    def signal(self, number: signal.Signals) -> None:
        """Send the running process a signal: SIGSTOP and SIGCONT freeze and wake it, as a host can."""
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._api.invocations = queue.Queue()
            self._api.answers = queue.Queue()
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    ["/bin/sh", "bootstrap"], cwd=self._code, env=self._environment(), stdout=log, stderr=log
                )
        return self._process

    def _outcome(self, process: "subprocess.Popen[bytes]", until: float) -> tuple[Outcome, Any, int]:
        peak = 0
        while time.monotonic() < until:
            peak = max(peak, _peak(process.pid))
            died = process.poll() is not None
            try:
                return (*self._api.answers.get(timeout=0 if died else 0.01), max(peak, _peak(process.pid)))
            except queue.Empty:
                if died:
                    return "exited", None, peak
        return "timeout", None, peak

    def _end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "TMPDIR": str(self._folder),
            "AWS_LAMBDA_RUNTIME_API": self._api.address,
            "AWS_LAMBDA_FUNCTION_NAME": "envelope",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self._memory_mb),
            "LAMBDA_TASK_ROOT": str(self._code),
            "_HANDLER": self._handler,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            **CREDENTIALS,
            **self._env,
        }


def _peak(pid: int) -> int:
    """Return the highest resident memory so far, in bytes, as the kernel noted it; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0
