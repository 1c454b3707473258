"""Processes we started, found again later and ended without ever touching another one."""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/nonexistent")
"""PostgreSQL refuses to run as root, and MariaDB should not; no user is created for them."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of ours. `started` tells it from a later one that was given the same id."""

    name: str
    pid: int
    started: float

    @classmethod
    def of(cls, name: str, pid: int) -> "Process":
        """Remember a process that runs now; one that is over already is never found alive."""
        started = 0.0
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(pid).create_time()
        return cls(name, pid, started)

    def alive(self) -> bool:
        """Say whether this very process still runs."""
        return self._found() is not None

    def stop(self, seconds: float = 10) -> None:
        """Ask it and its children to end; kill what is left after `seconds`."""
        found = self._found()
        if found is None:
            return
        family = [found, *found.children(recursive=True)]
        _each(family, "terminate")
        _, left = psutil.wait_procs(family, timeout=seconds)
        _each(left, "kill")
        psutil.wait_procs(left, timeout=seconds)

    def _found(self) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid)
            if found.create_time() == self.started and found.status() != psutil.STATUS_ZOMBIE:
                return found
        return None


def _each(processes: Sequence[psutil.Process], action: str) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            getattr(process, action)()


def spawn(name: str, command: Sequence[str], *, env: Mapping[str, str], folder: Path) -> Process:
    """Start a command that outlives us and our Ctrl-C, logging to `NAME.log` in `folder`."""
    # A shell in between makes it nobody's child: no zombie of ours, and nothing to wait for.
    detach = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'
    shell = ["/bin/sh", "-c", detach, "sh", f"{name}.log", *command]
    started = subprocess.run(
        shell, env=env, cwd=folder, stdout=subprocess.PIPE, check=True, text=True, start_new_session=True
    )
    return Process.of(name, int(started.stdout))


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on right now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log for an error message."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def as_nobody() -> tuple[str, ...]:
    """Return what stands before a database's command: nothing, unless we are root."""
    return AS_NOBODY if os.geteuid() == 0 else ()


def give_to_nobody(path: Path) -> None:
    """Let `as_nobody` use this file or folder."""
    if os.geteuid() == 0:
        shutil.chown(path, "nobody", "nogroup")
