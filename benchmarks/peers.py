"""Other tools, each as its documentation shows it, in their own venv. Run as a program, this is one of them.

Imports and the tool's own start count where the tool is a program of its own, and nowhere else.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from hmac import new
from importlib import import_module
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
KEY = b"benchmark"


def fetched(table: str) -> Iterator[bytes]:
    """Everything into memory, then the standard library."""
    factory = import_module("psycopg2.extras").RealDictCursor
    with import_module("psycopg2").connect("") as connection, connection.cursor(cursor_factory=factory) as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        yield json.dumps(cursor.fetchall(), default=str).encode()


def pandas_chunks(table: str) -> Iterator[bytes]:
    """A server-side cursor, a data frame for 50,000 rows, JSON lines."""
    engine = import_module("sqlalchemy").create_engine("postgresql+psycopg2://")
    with engine.execution_options(stream_results=True).connect() as connection:
        for frame in import_module("pandas").read_sql(
            f"SELECT * FROM {table} ORDER BY id", connection, chunksize=50_000
        ):
            yield frame.astype({"u": str}).to_json(orient="records", lines=True, date_format="iso").encode()


def connectorx_polars(table: str) -> Iterator[bytes]:
    """All rows as one Arrow table, then JSON lines."""
    query = f"SELECT * FROM {table} ORDER BY id"
    frame = import_module("connectorx").read_sql(_address(), query, return_type="polars")
    with tempfile.TemporaryFile() as file:
        frame.write_ndjson(file)
        file.seek(0)
        while block := file.read(1 << 20):
            yield block


def dlt_jsonl(table: str) -> Iterator[bytes]:
    """A pipeline from `sql_database` to files of JSON lines."""
    with _folder() as folder:
        dlt, sources = import_module("dlt"), import_module("dlt.sources.sql_database")
        destination = dlt.destinations.filesystem(bucket_url=(folder / "out").as_uri())
        flow = dlt.pipeline("benchmark", str(folder / "work"), destination=destination, dataset_name="d")
        flow.run(sources.sql_table(_address("postgresql+psycopg2"), table=table), loader_file_format="jsonl")
        yield from _files(folder / "out" / "d" / table)


def singer_tap(table: str) -> Iterator[bytes]:
    """MeltanoLabs' tap alone: its messages are the output."""
    with _folder() as folder:
        settings = {"sqlalchemy_url": _address(), "filter_schemas": ["public"], "use_singer_decimal": False}
        (folder / "config.json").write_text(json.dumps(settings))
        tap = [str(BIN / "tap-postgres"), "--config", str(folder / "config.json")]
        found = json.loads(subprocess.run([*tap, "--discover"], check=True, capture_output=True).stdout)
        streams = [each for each in found["streams"] if each["tap_stream_id"].endswith(f"-{table}")]
        for described in streams[0]["metadata"]:
            described["metadata"]["selected"] = True
        (folder / "catalog.json").write_text(json.dumps({"streams": streams}))
        command = [*tap, "--catalog", str(folder / "catalog.json")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout
            while block := running.stdout.read(1 << 20):
                yield block
        if running.returncode:
            raise RuntimeError("the tap failed")


def rivet_csv(table: str) -> Iterator[bytes]:
    """Rivet, a program of its own, to CSV."""
    with _folder() as folder:
        query = f"SELECT * FROM {table} ORDER BY id"
        export = {"name": table, "query": query, "mode": "full", "format": "csv"}
        destination = {"type": "local", "path": str(folder / "out")}
        source = {"type": "postgres", "url_env": "BENCHMARK_URL"}
        settings = {"source": source, "exports": [{**export, "destination": destination}]}
        (folder / "rivet.yaml").write_text(json.dumps(settings))
        command = [str(BIN / "rivet"), "run", "--config", str(folder / "rivet.yaml")]
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            env={**os.environ, "BENCHMARK_URL": _address()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        yield from _files(folder / "out")


PEERS: dict[str, Callable[[str], Iterator[bytes]]] = {
    "psycopg2 fetchall, json.dumps": fetched,
    "pandas chunks, to_json": pandas_chunks,
    "connectorx, polars, NDJSON": connectorx_polars,
    "rivet-cli, CSV": rivet_csv,
    "dlt sql_table, JSON lines": dlt_jsonl,
    "singer tap-postgres": singer_tap,
}


def _address(scheme: str = "postgresql") -> str:
    user, password, host, port, name = (
        os.environ[f"PG{part}"] for part in ("USER", "PASSWORD", "HOST", "PORT", "DATABASE")
    )
    return f"{scheme}://{user}:{password}@{host}:{port}/{name}"


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fetcher-benchmark-") as name:
        os.environ["DLT_DATA_DIR"] = os.environ["HOME"] = name
        os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
        os.environ["NORMALIZE__DATA_WRITER__DISABLE_COMPRESSION"] = "true"
        yield Path(name)


def _files(folder: Path) -> Iterator[bytes]:
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                yield block


def main(name: str, table: str) -> None:
    """Sign what a tool gives, and print what `measure.Cost` holds, children included."""
    seal, size, began = new(KEY, digestmod=sha256), 0, time.perf_counter()
    worked = _usage()[0]
    for body in PEERS[name](table):
        seal.update(body)
        size += len(body)
    cpu, peak = _usage()
    wall = time.perf_counter() - began
    print(json.dumps({"wall": wall, "cpu": cpu - worked, "peak": peak / 1024, "size": size}))


def _usage() -> tuple[float, int]:
    """Return CPU seconds, and the peak KiB of the larger of this process and its largest child."""
    both: list[Any] = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both), max(each.ru_maxrss for each in both)


if __name__ == "__main__":
    main(*sys.argv[1:])
