"""SQL Server: Microsoft's own driver and wire protocol, over a stand-in engine; or a real server, when one is given.

`FETCHER_TEST_SQLSERVER_DSN` names a real one, 2022 or later, as `user:password@host:port/database`, whose user may
create tables and logins in an empty database.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from fetcher.engines._sqlserver.address import connection_string
from fetcher.engines._sqlserver.driver import SETTINGS, driver
from fetcher.engines._sqlserver.rows import MAX, SQL_WVARCHAR
from fetcher.model import Connection, Encoding, Secret
from infra import odbc
from infra.local import tds
from infra.local.places import ROOT, StackError
from tests.contract import strategies
from tests.contract.kinds import EVENTS, HEAVY, MILLION, ODD_NAMES, Rows, Source, given, shown

REAL = "FETCHER_TEST_SQLSERVER_DSN"
READER_PASSWORD = 'only reads %s & "more" host=evil;} 9A'

DIFFERENT = {
    "test_a_session_only_reads": "its statements are not T-SQL, where no view can call NEXT VALUE FOR; DuckDB's can",
    "test_an_unknown_database_is_refused": "one that is only not open now is told no other way:"
    " test_sqlserver_session.py",
    "test_a_cancel_ends_a_discovery_that_the_server_holds": "DuckDB's catalog knows no locks",
    "test_a_stalled_flow_leaves_nothing_at_the_server": "no user sees or ends its other sessions without a right that"
    " readers lack: the deadline and keepalives, of both ends, are the bound",
    "test_a_dead_way_leaves_the_server_to_its_own_time_limit[sqlserver-million]": "SQL Server has no time limit for a"
    " statement: its keepalive, 30 seconds unless configured, is the bound",
    "collations, code pages": "DuckDB compares binary, so order and equality of a collation are asserted on the SQL",
    "datetime2(7), datetimeoffset(7)": "DuckDB keeps microseconds; the seventh digit is asserted on the SQL",
    "order of uniqueidentifier": "DuckDB orders by the text, SQL Server by the last group; both walk each row once",
    "xml, hierarchyid, geography, sql_variant": "DuckDB has none of them; their expressions are asserted on the SQL",
    "float style 3, money style 2": "DuckDB writes the shortest digits whatever the style; asserted on the SQL",
    "row-level security": "the stand-in has the catalog's views of policies and who sees them, and hides no row:"
    " test_policies.py",
    "masks but default()": "the stand-in masks each column as if by default(): test_masks.py",
    "locks, deadlock, read committed": "DuckDB has snapshots alone; errors are tested by their numbers",
    "TLS of TDS 8": "the stand-in speaks TDS 7.4, which has `disable`, `false` and `true`",
}
"""What the stand-in cannot express, and where it is tested instead."""

TEXT = "COLLATE Latin1_General_100_BIN2"
DIGITS = "CONVERT(varchar(max), CONVERT(varbinary(max), {0}), 2)"
ACTIVE = """
SELECT COUNT(*) FROM sys.dm_exec_requests r JOIN sys.dm_exec_sessions s ON s.session_id = r.session_id
 WHERE s.program_name = ?
"""

SEED = f"""
CREATE SCHEMA other;
CREATE TABLE events (id bigint NOT NULL PRIMARY KEY, kind nvarchar(50) {TEXT} NOT NULL, note nvarchar(max) {TEXT},
                     amount decimal(12,2) NOT NULL, at datetime2(0) NOT NULL, moment datetimeoffset(0) NOT NULL,
                     flag bit NOT NULL, UNIQUE (kind, id));
INSERT INTO events
  SELECT value, 'kind ' + CONVERT(nvarchar(20), value % 5),
         CASE WHEN value % 3 > 0 THEN 'note "' + CONVERT(nvarchar(20), value) + '"' + NCHAR(10) END, value / 100.0,
         DATEADD(minute, value, CONVERT(datetime2(0), '2026-01-01T00:00:30', 126)),
         CONVERT(datetimeoffset(0), DATEADD(minute, value, CONVERT(datetime2(0), '2026-01-01T00:00:30', 126))),
         CASE WHEN value % 2 = 0 THEN 1 ELSE 0 END
    FROM GENERATE_SERIES(1, {EVENTS});
CREATE TABLE pairs (a nvarchar(10) {TEXT} NOT NULL, b int NOT NULL, c nvarchar(50) {TEXT}, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT NCHAR(65 + value % 7), value, 'c' + CONVERT(nvarchar(20), value) FROM GENERATE_SERIES(1, 200);
CREATE VIEW events_seen AS SELECT id, note FROM events;
CREATE VIEW events_kept AS SELECT id, note FROM events;
CREATE TABLE empty (id int NOT NULL PRIMARY KEY, note nvarchar(50));
CREATE TABLE keyless (note nvarchar(50));
INSERT INTO keyless SELECT 'same' FROM GENERATE_SERIES(1, 50);
CREATE TABLE other.events (id int NOT NULL PRIMARY KEY, region nvarchar(50));
INSERT INTO other.events VALUES (1, 'north'), (2, 'south');
CREATE TABLE million (id bigint NOT NULL PRIMARY KEY, note nvarchar(100) {TEXT} NOT NULL);
INSERT INTO million
  SELECT value, 'some text of row number ' + CONVERT(nvarchar(20), value) FROM GENERATE_SERIES(1, {MILLION});
CREATE VIEW heavy AS SELECT value AS id, REPLICATE(CONVERT(nvarchar(max), '0123456789abcdef'), 65536) AS body
  FROM GENERATE_SERIES(1, {HEAVY});
CREATE VIEW slow AS SELECT a.id AS id, a.note AS note FROM million a CROSS JOIN million b
 WHERE CONCAT(a.note, b.note) = 'x';
CREATE LOGIN reader WITH PASSWORD = '{READER_PASSWORD}';
CREATE USER reader FOR LOGIN reader;
GRANT SELECT ON dbo.events TO reader;
GRANT INSERT ON dbo.pairs TO reader
"""
"""`slow` compares each row with each one and finds nothing; without any right `pairs` would not be seen at all."""

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "bigint",
    Encoding.DECIMAL: "decimal(20,4)",
    Encoding.FLOAT: "float",
    Encoding.TEXT: f"nvarchar(100) {TEXT}",
    Encoding.BOOLEAN: "bit",
    Encoding.DATE: "date",
    Encoding.TIMESTAMP: "datetime2(6)",
    Encoding.TIMESTAMP_UTC: "datetimeoffset(6)",
    Encoding.UUID: "uniqueidentifier",
    Encoding.BINARY: "varbinary(100)",
}
DIFFERENCES = ("spaces at the end",)
UNSEEN = () if REAL in os.environ else DIFFERENCES
"""What the stand-in does not do: DuckDB compares every space."""
RANDOM = {
    "bigint": strategies.INTEGERS,
    f"nvarchar(9) {TEXT}": strategies.WORDS,
    "decimal(13,3)": strategies.DECIMALS,
    "date": strategies.DATES,
    "bit": strategies.BOOLEANS,
    "varbinary(9)": strategies.BYTES,
    "uniqueidentifier": strategies.UUIDS,
}


@contextmanager
def serving() -> Iterator[Source]:
    """Start the server and fill it."""
    try:
        need_driver()
        with _server() as (to, secret):
            yield from _filled(to, secret)
    except (StackError, odbc.MissingError) as missing:
        pytest.skip(f"sqlserver: {missing}")


def need_driver() -> None:
    """Make the tree that a layer has, once, and let the engine and its child processes find it."""
    tree = ROOT / ".build" / "odbc"
    odbc.ensure(tree)
    os.environ[SETTINGS] = str(tree / "etc")


@contextmanager
def _server() -> Iterator[tuple[Connection, Secret]]:
    if real := given("sqlserver", 1433):
        yield real
        return
    with tds.running() as server:
        to = Connection("source", "sqlserver", server.host, server.port, server.database, server.user)
        yield to, Secret(server.password)


def _filled(to: Connection, secret: Secret) -> Iterator[Source]:
    text = connection_string(to, secret, "seed")
    with closing(driver().connect(text, autocommit=True, timeout=10)) as connection:

        def run(sql: str, *bound: object) -> Sequence[Sequence[Any]]:
            cursor = connection.cursor()
            if bound:
                cursor.setinputsizes([(SQL_WVARCHAR, MAX, 0)] * len(bound))
            cursor.execute(sql, *bound)
            while cursor.description is None and cursor.nextset():
                pass
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else ()

        declared: dict[str, Mapping[str, str]] = {}

        def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
            """Keys that differ by blanks at their end alone are one to a collation."""
            declared[name] = columns
            listed = ", ".join(f"{each} {kind}{' NOT NULL' if each in key else ''}" for each, kind in columns.items())
            run(f"DROP TABLE IF EXISTS {name}")
            run(f"CREATE TABLE {name} ({listed}, PRIMARY KEY ({', '.join(key)}))")
            distinct = {tuple(str(shown(each)).rstrip(" ") for each in row[: len(key)]): row for row in rows}
            values = [f"({', '.join(map(_literal, row, columns.values()))})" for row in distinct.values()]
            if values:
                run(f"INSERT INTO {name} VALUES {', '.join(values)}")

        def stored(name: str, key: Sequence[str]) -> Rows:
            """Ask for bytes as digits: the stand-in has no other way to show them."""
            kinds = declared[name]
            listed = ", ".join(DIGITS.format(each) if "binary" in kinds[each] else each for each in kinds)
            rows = run(f"SELECT {listed} FROM {name} ORDER BY {', '.join(key)}")
            return [tuple(map(_plain, row, kinds.values())) for row in rows]

        for statement in SEED.split(";\n"):
            run(statement)
        for name in ODD_NAMES:
            quoted = "[" + name.replace("]", "]]") + "]"
            run(f"CREATE TABLE {quoted} ({quoted} int NOT NULL PRIMARY KEY, note nvarchar(50))")
            run(f"INSERT INTO {quoted} VALUES (7, 'seven')")
        columns = ", ".join(f"c{number} int" for number in range(60))
        run(f"CREATE TABLE wide (id int NOT NULL PRIMARY KEY, {columns})")
        run("INSERT INTO wide (id) VALUES (1)")
        yield Source(
            to,
            secret,
            READER_PASSWORD,
            run,
            lambda name: int(run(ACTIVE, name)[0][0]),
            create,
            stored,
            "dbo",
            tls_required="true",
        )


def _literal(value: Any, declared: str) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"CONVERT(varbinary(max), '{value.hex()}', 2)"
        case bool() | int() | float():
            return repr(int(value) if isinstance(value, bool) else value)
        case _ if declared.startswith("nvarchar"):
            return "N'" + str(value).replace("'", "''") + "'"
        case _:
            return f"CONVERT({declared}, '{shown(value)}')"


def _plain(value: Any, declared: str) -> Any:
    if value is not None and "binary" in declared:
        return bytes.fromhex(value)
    return value.lower() if isinstance(value, str) and declared == "uniqueidentifier" else value
