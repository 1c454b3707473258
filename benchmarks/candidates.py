"""What is compared: ways from a table to signed JSON. Run as a program, this is one of them, in its own process."""

import hmac
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import psycopg
from psycopg.rows import dict_row

from fetcher.engines import engine
from fetcher.model import Connection, Query, Secret

KEY = b"benchmark"
BATCH = 1000


def connected() -> psycopg.Connection:
    """Let libpq read where the server is from its own variables, as the reference does."""
    return psycopg.connect("")


def fetcher(table: str) -> Iterator[bytes]:
    """The engine of this product."""
    host, port, database, user = (os.environ[name] for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"))
    to, secret = (
        Connection("benchmark", "postgresql", host, int(port), database, user),
        Secret(os.environ["PGPASSWORD"]),
    )
    with engine(to.kind).connect(to, secret, seconds=900, application="benchmark") as session:
        found = session.discover(("public",)).tables["public", table]
        key = tuple(column for column in found.columns if column.name in found.key)
        for page in session.read(Query(table, found.path, found.columns, key), None):
            yield page.body


def streamed_objects(table: str) -> Iterator[bytes]:
    """psycopg's `stream()` of `row_to_json`, which is not exact: decimals, zones and NaN."""
    sql = f"SELECT row_to_json(r)::text FROM (SELECT * FROM {table} ORDER BY id) r"
    with connected() as connection, connection.cursor() as cursor:
        page: list[bytes] = []
        for (row,) in cursor.stream(sql.encode(), binary=True, size=BATCH):
            page.append(row.encode())
            if len(page) == BATCH:
                yield b",".join(page)
                page.clear()
        yield b",".join(page)


def dictionaries(table: str) -> Iterator[bytes]:
    """A server-side cursor, a dictionary a row, orjson: what most tools do, and not exact either."""
    with connected() as connection, connection.cursor("benchmark", row_factory=dict_row) as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id".encode())
        while rows := cursor.fetchmany(BATCH):
            yield orjson.dumps(rows, default=str)[1:-1]


CANDIDATES: dict[str, Callable[[str], Iterator[bytes]]] = {
    "fetcher": fetcher,
    "psycopg stream(), row_to_json": streamed_objects,
    "psycopg cursor, dicts, orjson": dictionaries,
}


def signed(pages: Iterator[bytes]) -> None:
    """Sign every page as it comes; print what `measure.Cost` holds, without the interpreter's start."""
    signature, size = hmac.new(KEY, digestmod="sha256"), 0
    began, worked = time.perf_counter(), time.process_time()
    for body in pages:
        signature.update(body)
        size += len(body)
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak() / 1024, "size": size}))


def peak() -> int:
    """Read the memory of this program in KiB; `getrusage` would count the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


if __name__ == "__main__":
    signed(CANDIDATES[sys.argv[1]](sys.argv[2]))
