"""SQL Server's wire to signed JSON: Microsoft's driver against the tests' front, whose engine is no SQL Server.

So only the client's CPU means something here.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

import orjson

from benchmarks.candidates import BATCH, signed
from benchmarks.measure import interleaved, program, table
from fetcher.engines import engine
from fetcher.engines._sqlserver.address import connection_string
from fetcher.engines._sqlserver.driver import SETTINGS, driver
from fetcher.model import Connection, Query, Secret
from infra import odbc
from infra.local import tds
from infra.local.places import ROOT

ROWS = 200_000
TABLE = "twelve"
FILL = (
    f"""CREATE TABLE {TABLE} (id bigint NOT NULL PRIMARY KEY, n int, amount decimal(12,2), name nvarchar(100),
 note nvarchar(200), uid uniqueidentifier, moment datetime2(0), day date, clock time(0), flag bit, ratio float,
 maybe nvarchar(100))""",
    f"""INSERT INTO {TABLE} SELECT value, value % 100000, value / 100.0,
 CONCAT('customer "number" ', CONVERT(nvarchar(20), value)),
 CONCAT('some longer text of ', CONVERT(nvarchar(20), value)),
 CONVERT(uniqueidentifier, CONCAT('6F9619FF-8B86-D011-B42D-', CONVERT(nvarchar(20), 100000000000 + value))),
 DATEADD(minute, value, CONVERT(datetime2(0), '2026-01-01T00:00:30', 126)),
 CONVERT(date, DATEADD(minute, value, CONVERT(datetime2(0), '2026-01-01T00:00:30', 126))),
 CONVERT(time(0), DATEADD(minute, value, CONVERT(datetime2(0), '2026-01-01T00:00:30', 126))),
 CASE WHEN value % 2 = 0 THEN 1 ELSE 0 END, value / 7.0,
 CASE WHEN value % 10 < 4 THEN 'line' END FROM GENERATE_SERIES(1, {{rows}})""",
)


def target() -> tuple[Connection, Secret]:
    """Read where the server is: a password on a command line would be everybody's."""
    host, port, database, user, password = os.environ["BENCHMARK"].split()
    return Connection("benchmark", "sqlserver", host, int(port), database, user), Secret(password)


def tuples(name: str) -> Iterator[bytes]:
    """The driver's rows, and orjson: what most tools do, and not exact."""
    to, secret = target()
    with closing(driver().connect(connection_string(to, secret, "benchmark"), autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {name} ORDER BY id")
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(BATCH):
            yield orjson.dumps([dict(zip(names, row, strict=True)) for row in rows], default=str)[1:-1]


def fetcher(name: str) -> Iterator[bytes]:
    """The engine of this product."""
    to, secret = target()
    with engine("sqlserver").connect(to, secret, seconds=900, application="benchmark") as session:
        found = session.discover(("dbo",)).tables["dbo", name]
        key = tuple(column for column in found.columns if column.name in found.key)
        for page in session.read(Query(name, found.path, found.columns, key), None):
            yield page.body


CANDIDATES: dict[str, Callable[[str], Iterator[bytes]]] = {
    "pyodbc tuples, orjson": tuples,
    "fetcher": fetcher,
}


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Fill a server of its own, and yield the lines of its table."""
    tree = ROOT / ".build" / "odbc"
    odbc.ensure(tree)
    with tds.running() as server:
        address = " ".join((server.host, str(server.port), server.database, server.user, server.password))
        os.environ |= {SETTINGS: str(tree / "etc"), "BENCHMARK": address}
        rows = max(1, int(ROWS * scale))
        with closing(driver().connect(connection_string(*target(), "benchmark"), autocommit=True)) as connection:
            for statement in FILL:
                connection.cursor().execute(statement.format(rows=rows))
        command = [sys.executable, "-m", "benchmarks.sqlserver"]
        ways = {name: program([*command, name, TABLE], os.environ) for name in CANDIDATES}
        pid = int(json.loads((server.folder / "server.json").read_text())["pid"])
        yield "Microsoft's ODBC driver 18 against a front whose engine is DuckDB: only the client's CPU counts."
        yield ""
        yield from table(TABLE, rows, interleaved(ways, rounds, pid))


if __name__ == "__main__":
    signed(CANDIDATES[sys.argv[1]](sys.argv[2]))
