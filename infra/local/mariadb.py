"""A real MariaDB from the system's packages, on 127.0.0.1, for tests and the local stack.

Every server has its own folder, port and password and reads no configuration of the system's, so any number
of stacks run side by side. A server outlives the process that started it: `stop` it by its folder, or use `running`.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from infra.local.places import StackError
from infra.local.processes import as_nobody, free_port, give_to_nobody, spawn, tail

USER = "fetcher"
DATABASE = "fetcher"
INSTALL = "apt-get install -y --no-install-recommends mariadb-server-core mariadb-client-core"
SETTINGS = {
    "bind-address": "127.0.0.1",
    "character-set-server": "utf8mb4",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-doublewrite": "0",
    "innodb-fast-shutdown": "2",
    "skip-log-bin": "1",
    "skip-name-resolve": "1",
    "max-connections": "100",
}
FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
"""Server programs are often outside the path of an ordinary user."""


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server that answers queries. It has no `repr`, so that no log line shows the password."""

    folder: Path
    port: int
    password: str
    host: str = "127.0.0.1"
    user: str = USER
    database: str = DATABASE

    def connection(self) -> "pymysql.Connection[Any]":
        """Open a connection that may do everything, commits each statement, and takes several at once."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
            ssl_disabled=True,
            connect_timeout=5,
        )


@contextmanager
def running(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fetcher-mariadb-"))
    try:
        yield start(folder, settings)
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def installed() -> bool:
    """Whether the system has the programs; pip cannot bring them."""
    return shutil.which("mariadbd", path=FOLDERS) is not None


def start(folder: Path, settings: Mapping[str, str] | None = None) -> Server:
    """Create the folder's database when it has none, start it on a free port and wait for a real answer.

    A folder whose server still runs gives that server.
    """
    programs = {name: _program(name) for name in ("mariadbd", "mariadb-install-db", "mariadb")}
    folder.mkdir(parents=True, exist_ok=True)
    give_to_nobody(folder)
    if not (folder / "password").exists():
        _create(folder, programs["mariadb-install-db"])
    if pid(folder) is None:
        _launch(folder, programs["mariadbd"], {**SETTINGS, **(settings or {})})
    return _answering(folder)


def stop(folder: Path, *, seconds: float = 10.0) -> None:
    """Stop the folder's server, if any, without waiting for its clients."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + seconds
        if (running_as := pid(folder)) is None:
            return
        os.kill(running_as, sign)
        while pid(folder) is not None and time.monotonic() < until:
            time.sleep(0.02)


def pid(folder: Path) -> int | None:
    """Read the id of a server that is alive; a stale or half-written file is none."""
    try:
        number = int((folder / "pid").read_text())
        os.kill(number, 0)
    except (OSError, ValueError):
        return None
    return number


def _program(name: str) -> str:
    found = shutil.which(name, path=FOLDERS)
    if found is None:
        raise StackError(f"MariaDB's {name} is missing: run `{INSTALL}` first")
    return found


def _create(folder: Path, installer: str) -> None:
    """Make the system tables, and leave the first statements where the server's first start finds them."""
    _run(folder, installer, "--no-defaults", f"--datadir={folder / 'data'}", "--auth-root-authentication-method=normal")
    password = secrets.token_urlsafe(24)
    root = secrets.token_urlsafe(24)
    statements = [
        f"CREATE DATABASE {DATABASE};",
        f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}';",
        f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;",
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root}';",
    ]
    _write(folder / "first.sql", "\n".join(statements) + "\n")
    _write(folder / "password", password)


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
    give_to_nobody(file)


def _launch(folder: Path, server: str, settings: Mapping[str, str]) -> None:
    port = free_port()
    own = {"datadir": "data", "socket": "socket", "pid-file": "pid", "log-error": "log", "tmpdir": "."}
    options = {**settings, **{name: str(folder / file) for name, file in own.items()}, "port": str(port)}
    first = [f"--init-file={folder / 'first.sql'}"] if (folder / "first.sql").exists() else []
    command = [*as_nobody(), server, "--no-defaults", *first, *(f"--{name}={text}" for name, text in options.items())]
    (folder / "port").write_text(str(port))
    spawn("mariadbd", command, env=os.environ, folder=folder)


def _answering(folder: Path, *, seconds: float = 60.0) -> Server:
    server = Server(folder, int((folder / "port").read_text()), (folder / "password").read_text())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with server.connection() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except pymysql.OperationalError:
            time.sleep(0.05)
        else:
            (folder / "first.sql").unlink(missing_ok=True)
            return server
    raise TimeoutError(f"MariaDB did not answer; its log ends: {tail(folder / 'log')}")


def _run(folder: Path, program: str, *arguments: str) -> None:
    # Its temporary tables have the same names each time: two servers that share a folder for them hurt each other.
    env = {**os.environ, "TMPDIR": str(folder)}
    command = [*as_nobody(), program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)
    if done.returncode:
        raise StackError(f"{program} failed: {done.stderr[-500:] or done.stdout[-500:]}")
