"""A stand-in for MongoDB from the pip package `secantusdb`, on 127.0.0.1, for tests and the local stack.

It is GPL-2.0 and so never a dependency of ours: it runs in a process, and from a venv, of its own
(`.venvs/mongo`). Every server has its own folder, port and password.
A server outlives the process that started it: `stop` it by its folder, or use `running`.
"""

import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from infra.local.places import ROOT, StackError, need
from infra.local.processes import Process, free_port, spawn, tail

PYTHON = ROOT / ".venvs" / "mongo" / "bin" / "python"
USER = "root"
NAME = "mongodb"
OPTIONS = ("--cache-size", "128M", "--log-level", "WARNING", "--enable-test-commands")


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server that answers queries. It has no `repr`, so that no log line shows the password."""

    folder: Path
    port: int
    password: str
    host: str = "127.0.0.1"
    user: str = USER
    database: str = "shop"

    def client(self) -> MongoClient[dict[str, Any]]:
        """Open a client of the administrator."""
        return _client(self.port, self.host, username=self.user, password=self.password)


@contextmanager
def running(options: Sequence[str] = (), *, tls: bool = False, python: Path = PYTHON) -> Iterator[Server]:
    """Start a server in a temporary folder; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fetcher-mongodb-"))
    try:
        yield start(folder, options, tls=tls, python=python)
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, options: Sequence[str] = (), *, tls: bool = False, python: Path = PYTHON) -> Server:
    """Create the folder's data and administrator when it has none, start it and wait for a real answer.

    A folder whose server still runs gives that server. `options` are further ones of its command line; with `tls`, any
    handshake is an answer, as the certificates are not ours to know.
    """
    folder.mkdir(parents=True, exist_ok=True)
    need(python, "make venvs")
    if not (folder / "password").exists():
        _create(folder, python)
    password = (folder / "password").read_text()
    process, port = _running(folder)
    if process is None:
        port = _launch(folder, python, ("--auth", *options))
        _answering(folder, port, *(() if tls else (USER, password)), tls=tls)
    return Server(folder, port, password)


def stop(folder: Path) -> None:
    """Stop the folder's server, if any."""
    process, _ = _running(folder)
    if process is not None:
        process.stop()
    (folder / "server.json").unlink(missing_ok=True)


def process(folder: Path) -> Process:
    """Return the process of the folder's running server. Raises `StackError` when there is none."""
    found, _ = _running(folder)
    if found is None:
        raise StackError("MongoDB's stand-in is not running")
    return found


def _create(folder: Path, python: Path) -> None:
    """Make the administrator while the server still lets everybody in."""
    password = secrets.token_urlsafe(24)
    port = _launch(folder, python, ())
    _answering(folder, port)
    with _client(port) as client:
        client.admin.command("createUser", USER, pwd=password, roles=["root"])
    stop(folder)
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)


def _launch(folder: Path, python: Path, options: Sequence[str]) -> int:
    port = free_port()
    where = ("--host", "127.0.0.1", "--port", str(port), "--storage-path", str(folder / "data"))
    command = [str(python), "-m", "secantus", *where, *OPTIONS, *options]
    process = spawn(NAME, command, env=dict(os.environ), folder=folder)
    (folder / "server.json").write_text(json.dumps({**asdict(process), "port": port}))
    return port


def _running(folder: Path) -> tuple[Process | None, int]:
    with suppress(OSError, ValueError, KeyError):
        kept = json.loads((folder / "server.json").read_text())
        process = Process(kept["name"], kept["pid"], kept["started"])
        if process.alive():
            return process, int(kept["port"])
    return None, 0


def _answering(folder: Path, port: int, *login: str, tls: bool = False, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(PyMongoError, OSError):
            if tls:
                socket.create_connection(("127.0.0.1", port), 1).close()
            else:
                _ask(port, *login)
            return
        time.sleep(0.05)
    raise TimeoutError(f"MongoDB's stand-in did not answer; its log ends: {tail(folder / f'{NAME}.log')}")


def _ask(port: int, *login: str) -> None:
    options = dict(zip(("username", "password"), login, strict=False))
    with _client(port, **options) as client:
        client.admin.command("listDatabases")


def _client(port: int, host: str = "127.0.0.1", **options: Any) -> MongoClient[dict[str, Any]]:
    return MongoClient(host, port, directConnection=True, serverSelectionTimeoutMS=2000, **options)
