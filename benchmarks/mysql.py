"""`python -m benchmarks.mysql`: MariaDB to signed JSON, beside its own client and the driver's own cursors."""

import argparse
import hmac
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import orjson
import pymysql
from pymysql.cursors import SSDictCursor

from benchmarks.candidates import BATCH, KEY, peak
from benchmarks.measure import Cost, _median
from fetcher.engines import engine
from fetcher.engines._mysql import wire
from fetcher.model import Connection, Query, Secret
from infra.local import mariadb

ROWS = 800_000
LOADS = {
    "twelve": """
 seq AS id, CAST(seq * 7919 % 100000 AS SIGNED) AS n, CAST((seq * 31 % 1000000) / 100 AS DECIMAL(12,2)) AS amount,
 if(seq % 5 = 0, concat('Müller "quoted" ', seq), concat('customer number ', seq)) AS name,
 concat(md5(seq), ' some text') AS note, concat_ws('-', left(md5(seq), 8), mid(md5(seq), 9, 24)) AS u,
 CAST('2020-01-01' AS DATETIME(6)) + INTERVAL seq * 7.123456 SECOND AS moment,
 CAST('2020-01-01' AS DATE) + INTERVAL seq % 2000 DAY AS day, seq % 3 = 0 AS flag,
 concat('{"a": ', seq, ', "b": [1.50, 2, "x"], "c": "täxt"}') AS doc, sqrt(seq) AS ratio,
 if(seq % 10 < 4, concat('line one', char(10), 'line two ', seq), NULL) AS maybe""",
    "narrow": " seq AS id, CAST(seq * 31 % 1000 AS SIGNED) AS n, concat('v', seq) AS name",
}
TIMES = {"twelve": 1, "narrow": 3}
RETYPED = {"twelve": "ADD CHECK (json_valid(doc)), MODIFY moment timestamp(6) NULL, MODIFY flag bit(1)", "narrow": ""}

TEXT = "IFNULL(JSON_QUOTE({0}), 'null')"
QUOTED = """IFNULL(CONCAT('"', {0}, '"'), 'null')"""
PLAIN = "IFNULL({0}, 'null')"
MEMBERS = {
    "twelve": {
        **dict.fromkeys(("id", "n", "ratio", "doc", "flag + 0"), PLAIN),
        **dict.fromkeys(("amount", "moment", "day"), QUOTED),
        **dict.fromkeys(("name", "note", "u", "maybe"), TEXT),
    },
    "narrow": {"id": PLAIN, "n": PLAIN, "name": TEXT},
}
REFERENCE = "mariadb --quick, CONCAT and JSON_QUOTE, openssl HMAC"


def target() -> tuple[Connection, Secret]:
    """Read where the server is: a password on a command line would be everybody's."""
    host, port, user, database, password = os.environ["BENCHMARK"].split()
    return Connection("benchmark", "mysql", host, int(port), database, user), Secret(password)


def fetcher(table: str) -> Iterator[bytes]:
    """The engine of this product."""
    to, secret = target()
    with engine("mysql").connect(to, secret, seconds=900, application="benchmark") as session:
        found = session.discover(()).tables[table,]
        key = tuple(column for column in found.columns if column.name in found.key)
        for page in session.read(Query(table, found.path, found.columns, key), None):
            yield page.body


def fetcher_by_cursor(table: str) -> Iterator[bytes]:
    """The same without the driver's private attributes."""

    def missing(_connection: object) -> None:
        raise AttributeError

    # The fallback is measured by taking the fast way away; no public switch exists for that alone.
    wire._taken = missing  # type: ignore[assignment]  # noqa: SLF001
    return fetcher(table)


def dictionaries(table: str) -> Iterator[bytes]:
    """An unbuffered cursor, a dictionary a row, orjson: what most tools do, and not exact."""
    to, secret = target()
    with pymysql.connect(
        host=to.host, port=to.port, user=to.user, password=secret.password, database=to.database, ssl_disabled=True
    ) as connection:
        cursor = connection.cursor(SSDictCursor)
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        while rows := cursor.fetchmany(BATCH):
            yield orjson.dumps(rows, default=str)[1:-1]


CANDIDATES: dict[str, Callable[[str], Iterator[bytes]]] = {
    "fetcher": fetcher,
    "fetcher, the driver's own cursor": fetcher_by_cursor,
    "pymysql SSDictCursor, orjson": dictionaries,
}


def candidate(name: str, table: str) -> None:
    """Sign every page as it comes; print seconds, CPU seconds, peak KiB and bytes."""
    signature, size, began, worked = hmac.new(KEY, digestmod="sha256"), 0, time.perf_counter(), time.process_time()
    for body in CANDIDATES[name](table):
        signature.update(body)
        size += len(body)
    print(time.perf_counter() - began, time.process_time() - worked, peak(), size)


def _cost(name: str, table: str) -> tuple[Cost, int]:
    if name == REFERENCE:
        return _reference(table), 0
    command = [sys.executable, "-m", "benchmarks.mysql", "--candidate", name, "--table", table]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    wall, cpu, memory, size = map(float, done.stdout.split())
    return Cost(wall, cpu, memory / 1024), int(size)


def _reference(table: str) -> Cost:
    to, secret = target()
    members = ", ',', ".join(f"""'"{name}":', {form.format(name)}""" for name, form in MEMBERS[table].items())
    sql = f"SELECT CONCAT('{{', {members}, '}}') FROM {table} ORDER BY id"
    client = ["mariadb", "--no-defaults", "--quick", "-N", "-r", "--default-character-set=utf8mb4"]
    client += [f"-h{to.host}", f"-P{to.port}", f"-u{to.user}", to.database, "-e", sql]
    began = time.perf_counter()
    environment = {**os.environ, "MYSQL_PWD": secret.password}
    with subprocess.Popen(client, stdout=subprocess.PIPE, env=environment) as reading:
        signing = ["openssl", "dgst", "-sha256", "-hmac", "benchmark"]
        signer = subprocess.Popen(signing, stdin=reading.stdout, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(signer.pid, 0)
        signer.returncode = os.waitstatus_to_exitcode(status)
        _, status, more = os.wait4(reading.pid, 0)
        reading.returncode = os.waitstatus_to_exitcode(status)
    if reading.returncode or signer.returncode:
        raise RuntimeError("the reference failed")
    return Cost(time.perf_counter() - began, sum(u.ru_utime + u.ru_stime for u in (used, more)), None)


def _table(table: str, rows: int, rounds: int) -> Sequence[str]:
    seen: dict[str, list[Cost]] = {name: [] for name in (REFERENCE, *CANDIDATES)}
    size = 0
    for _ in range(rounds):
        for name, costs in seen.items():
            cost, own = _cost(name, table)
            costs.append(cost)
            size = own if name == "fetcher" else size
    median = {name: _median(costs) for name, costs in seen.items()}
    lines = [f"**{table}**: {rows:,} rows, {size / 2**20:.0f} MiB of JSON", ""]
    lines += ["| | ratio | wall s | rows/s | MiB/s | client cpu s | peak MiB |", "|--|--|--|--|--|--|--|"]
    for name, each in median.items():
        memory = "–" if each.peak is None else f"{each.peak:.0f}"
        ratio, speed = each.wall / median[REFERENCE].wall, f"{rows / each.wall:,.0f} | {size / each.wall / 2**20:.0f}"
        lines.append(f"| {name} | {ratio:.2f} | {each.wall:.1f} | {speed} | {each.cpu:.1f} | {memory} |")
    return lines


def main() -> None:
    """Fill a server of its own and print a table a load; or be one candidate, in a process of its own."""
    parser = argparse.ArgumentParser(prog="benchmarks.mysql", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of rows")
    parser.add_argument("--candidate", help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.candidate:
        return candidate(arguments.candidate, arguments.table)
    with mariadb.running({"innodb-buffer-pool-size": "1G"}) as server, server.connection() as connection:
        address = (server.host, str(server.port), server.user, server.database, server.password)
        os.environ["BENCHMARK"] = " ".join(address)
        for table, columns in LOADS.items():
            rows = int(ROWS * TIMES[table] * arguments.scale)
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE {table} (PRIMARY KEY (id)) SELECT {columns} FROM seq_1_to_{rows}")
                if RETYPED[table]:
                    cursor.execute(f"ALTER TABLE {table} {RETYPED[table]}")
            print("\n".join([*_table(table, rows, arguments.rounds), ""]), flush=True)
    return None


if __name__ == "__main__":
    main()
