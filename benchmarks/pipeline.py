"""From PostgreSQL to S3: read, frame, sign, and store by multipart over TLS, through the product's own parts.

The sink discards what it gets. As a program, this is the upload.
"""

import json
import sys
import time
from collections.abc import Iterator

from benchmarks.candidates import KEY, fetcher, peak
from benchmarks.loads import loads
from benchmarks.measure import interleaved, program, table
from benchmarks.postgresql import environment, pid, reference
from benchmarks.sink import discarding
from fetcher.aws.clients import client
from fetcher.aws.results import Upload
from fetcher.core.document import Meter, ResultWriter
from fetcher.core.seal import Seal
from infra.local import postgresql

LARGEST = 1 << 40


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Fill a server of its own, and yield the lines of a table."""
    load = loads(scale)[0]
    with postgresql.running({"shared_buffers": "1GB", "jit": "off"}) as server, discarding() as (variables, _):
        with server.connection() as connection:
            for statement in load.sql:
                connection.execute(statement.encode())
        at = {**environment(server), **variables}
        name, way = reference(load, at)
        python = [sys.executable, "-m"]
        ways = {
            name: way,
            "fetcher, signed": program([*python, "benchmarks.candidates", "fetcher", load.name], at),
            "fetcher, signed and stored in S3 over TLS": program([*python, "benchmarks.pipeline", load.name], at),
        }
        yield "Parts of 8 MiB on a second thread, SHA-256 of each; the sink is a process beside it, on the same cores."
        yield ""
        yield from table(load.name, load.rows, interleaved(ways, rounds, pid(server)))


def main(name: str) -> None:
    """Store a table as a result document, and print what `measure.Cost` holds, without the interpreter's start."""
    storage = client("s3")
    began, worked = time.perf_counter(), time.process_time()
    upload, meter = Upload(storage, "benchmark", "result.json"), Meter(LARGEST)
    writer = ResultWriter(upload, Seal(KEY), meter)
    outlet = writer.begin("benchmark")
    outlet.begin_table(name)
    for body in fetcher(name):
        outlet.page(body, 0)
    outlet.end_table()
    outlet.end()
    writer.end()
    upload.close()
    upload.complete()  # a small result is stored by it alone
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak() / 1024, "size": meter.size}))


if __name__ == "__main__":
    main(*sys.argv[1:])
