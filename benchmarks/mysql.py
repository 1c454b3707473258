"""MariaDB to signed JSON, beside its own client and the driver's own cursors. As a program, this is one of them."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

import orjson
import pymysql
from pymysql.cursors import SSDictCursor

from benchmarks.candidates import BATCH, signed
from benchmarks.measure import interleaved, pipeline, program, table
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


def fetcher(name: str) -> Iterator[bytes]:
    """The engine of this product."""
    to, secret = target()
    with engine("mysql").connect(to, secret, seconds=900, application="benchmark") as session:
        found = session.discover(()).tables[name,]
        key = tuple(column for column in found.columns if column.name in found.key)
        for page in session.read(Query(name, found.path, found.columns, key), None):
            yield page.body


def fetcher_by_cursor(name: str) -> Iterator[bytes]:
    """The same without the driver's private attributes."""

    def missing(_connection: object) -> None:
        raise AttributeError

    # The fallback is measured by taking the fast way away; no public switch exists for that alone.
    wire._taken = missing  # type: ignore[assignment]  # noqa: SLF001 - see above
    return fetcher(name)


def dictionaries(name: str) -> Iterator[bytes]:
    """An unbuffered cursor, a dictionary a row, orjson: what most tools do, and not exact."""
    to, secret = target()
    with pymysql.connect(
        host=to.host, port=to.port, user=to.user, password=secret.password, database=to.database, ssl_disabled=True
    ) as connection:
        cursor = connection.cursor(SSDictCursor)
        cursor.execute(f"SELECT * FROM {name} ORDER BY id")
        while rows := cursor.fetchmany(BATCH):
            yield orjson.dumps(rows, default=str)[1:-1]


CANDIDATES: dict[str, Callable[[str], Iterator[bytes]]] = {
    "fetcher": fetcher,
    "fetcher, the driver's own cursor": fetcher_by_cursor,
    "pymysql SSDictCursor, orjson": dictionaries,
}


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Fill a server of its own, and yield the lines of a table a load."""
    with mariadb.running({"innodb-buffer-pool-size": "1G"}) as server, server.connection() as connection:
        address = " ".join((server.host, str(server.port), server.user, server.database, server.password))
        variables = {**os.environ, "BENCHMARK": address, "MYSQL_PWD": server.password}
        with connection.cursor() as cursor:
            cursor.execute("SELECT version()")
            (server_version,) = cursor.fetchone() or ("?",)
        yield f"{server_version} and its client, PyMySQL {version('pymysql')}."
        yield ""
        for load, columns in LOADS.items():
            rows = max(1, int(ROWS * TIMES[load] * scale))
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE {load} (PRIMARY KEY (id)) SELECT {columns} FROM seq_1_to_{rows}")
                if RETYPED[load]:
                    cursor.execute(f"ALTER TABLE {load} {RETYPED[load]}")
            ways = {REFERENCE: pipeline(_reference(server, load), variables)}
            for name in CANDIDATES:
                ways[name] = program([sys.executable, "-m", "benchmarks.mysql", name, load], variables)
            yield from table(load, rows, interleaved(ways, rounds, mariadb.pid(server.folder) or 0))


def _reference(server: mariadb.Server, load: str) -> str:
    members = ", ',', ".join(f"""'"{name}":', {form.format(name)}""" for name, form in MEMBERS[load].items())
    sql = f"SELECT CONCAT('{{', {members}, '}}') FROM {load} ORDER BY id"
    client = ["mariadb", "--no-defaults", "--quick", "-N", "-r", "--default-character-set=utf8mb4"]
    client += [f"-h{server.host}", f"-P{server.port}", f"-u{server.user}", server.database, "-e", sql]
    return f"{shlex.join(client)} | openssl dgst -sha256 -hmac benchmark"


if __name__ == "__main__":
    signed(CANDIDATES[sys.argv[1]](sys.argv[2]))
