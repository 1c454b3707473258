"""A stand-in for SQL Server on 127.0.0.1, for tests and the local stack: `infra/local/tdsduck` in a venv of its own.

Microsoft's driver is the real one; the engine behind the wire is DuckDB, in memory, so a server that has stopped has
forgotten everything. It outlives the process that started it: `stop` it by its folder, or use `running`.
"""

import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.local.places import ROOT, need
from infra.local.processes import Process, free_port, spawn, tail

PYTHON = ROOT / ".venvs" / "tds" / "bin" / "python"
USER = "fetcher"
NAME = "tdsduck"


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server that listens. It has no `repr`, so that no log line shows the password."""

    folder: Path
    port: int
    password: str
    host: str = "127.0.0.1"
    user: str = USER
    database: str = "shop"

    @property
    def certificate(self) -> str:
        """The certificate that the server shows, which it signed itself."""
        return (self.folder / "certificate.pem").read_text()


@contextmanager
def running(*, python: Path = PYTHON, certificate: tuple[str, str] | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fetcher-tds-"))
    try:
        yield start(folder, python=python, certificate=certificate)
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, *, python: Path = PYTHON, certificate: tuple[str, str] | None = None) -> Server:
    """Start a server and wait until it listens. A folder whose server still runs gives that server.

    It signs a certificate for itself unless one is given, with its key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    need(python, "make venvs")
    process, port, password = _running(folder)
    if process is None:
        port, password = free_port(), secrets.token_urlsafe(24)
        files = [str(folder / "certificate.pem"), *([str(folder / "key.pem")] if certificate else [])]
        if certificate:
            certify(folder, *certificate)
        command = [str(python), "-m", "infra.local.tdsduck", str(port), *files]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TDS_PASSWORD": password}
        process = spawn(NAME, command, env=env, folder=folder)
        kept = folder / "server.json"
        kept.touch(mode=0o600)
        kept.write_text(json.dumps({**asdict(process), "port": port, "password": password}))
        _listening(folder, port)
    return Server(folder, port, password)


def certify(folder: Path, certificate: str, key: str) -> None:
    """Let a server that was started with a certificate show this one from its next client on."""
    (folder / "certificate.pem").write_text(certificate)
    (folder / "key.pem").write_text(key)


def stop(folder: Path) -> None:
    """Stop the folder's server, if any."""
    process, _, _ = _running(folder)
    if process is not None:
        process.stop()
    (folder / "server.json").unlink(missing_ok=True)


def _running(folder: Path) -> tuple[Process | None, int, str]:
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads((folder / "server.json").read_text())
        process = Process(kept["name"], kept["pid"], kept["started"])
        if process.alive():
            return process, int(kept["port"]), str(kept["password"])
    return None, 0, ""


def _listening(folder: Path, port: int, *, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise TimeoutError(f"SQL Server's stand-in did not start; its log ends: {tail(folder / f'{NAME}.log')}")
