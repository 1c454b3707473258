"""Oracle: a fake that executes our SQL and returns the driver's own types, or the real server that is given.

`FETCHER_TEST_ORACLE_DSN` is `user/password@host:port/service` of somebody who may create users. Names are created
in quotes and small letters, because the suite asks for them so; `test_oracle_reading.py` looks at others.
What the fake, or Oracle itself, cannot express is named in `DIFFERENT`, with what stands in its place.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest.mock import patch

import oracledb
import pytest

from fetcher.model import Connection, Encoding, Secret
from tests.contract import fake_oracle, strategies
from tests.contract.kinds import EVENTS, HEAVY, MILLION, ODD_NAMES, Create, Rows, Source, shown

Making = tuple[Create, Callable[[str, Sequence[str]], Rows]]

REAL_CONNECT = oracledb.connect
DSN = os.environ.get("FETCHER_TEST_ORACLE_DSN")
SERVICE = "contract"
OWNER, PASSWORD, READER_PASSWORD = "CONTRACT", "Contract_1", "Reads_only_1"

DIFFERENT = {
    "test_an_unknown_database_is_refused": "the service is what is known or not: test_oracle_connect.py",
    "test_a_field_named_with_a_percent_sign_and_quotes_is_only_a_name": "no quotes in names: test_oracle_reading.py",
    "test_a_session_only_reads": "other SQL, and the fake has no functions: test_oracle_reading.py",
    "test_a_read_is_seen_at_the_server_under_the_extractions_name": "idle between batches: test_oracle_reading.py",
    "test_a_cancel_ends_a_discovery_that_the_server_holds": "its catalog is read without locks",
}
FAKED = {
    "test_memory_is_flat_over_a_million_rows": "no fake in another process: batches in test_oracle_reading.py",
    "test_memory_is_bounded_by_a_few_rows_when_they_are_of_one_mebibyte": "the same",
}
_MAKES = "makes its tables in the fake"
GIVEN = {
    "test_one_session_sees_one_snapshot": "other SQL; see docs/oracle.md",
    "test_delivered_rows_are_the_table": _MAKES,
    "test_each_filter_finds_what_python_finds": _MAKES,
}
DIFFERENT |= GIVEN if DSN else FAKED

NAMES = tuple(name for name in ODD_NAMES if '"' not in name)

SEED = f"""
CREATE SCHEMA "CONTRACT"; CREATE SCHEMA other; USE "CONTRACT";
CREATE TABLE events (id bigint PRIMARY KEY, kind varchar NOT NULL, note varchar, amount decimal(12,2) NOT NULL,
                     "at" timestamp_ms NOT NULL, moment timestamptz NOT NULL, flag boolean NOT NULL, UNIQUE (kind, id));
INSERT INTO events
  SELECT i, 'kind ' || i % 5, CASE WHEN i % 3 > 0 THEN 'note "' || i || '"' || chr(10) END, i / 100,
         timestamp '2026-01-01 00:00:30' + to_minutes(i), timestamptz '2026-01-01 00:00:30+00' + to_minutes(i),
         i % 2 = 0
    FROM range(1, {EVENTS + 1}) r(i);
CREATE TABLE pairs (a varchar NOT NULL, b integer NOT NULL, c varchar, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT chr((65 + i % 7)::integer), i, 'c' || i FROM range(1, 201) r(i);
CREATE VIEW events_seen AS SELECT id, note FROM events;
CREATE VIEW events_kept AS SELECT id, note FROM events;
CREATE TABLE empty (id integer PRIMARY KEY, note varchar);
CREATE TABLE keyless (note varchar);
INSERT INTO keyless SELECT 'same' FROM range(50);
CREATE TABLE other.events (id integer PRIMARY KEY, region varchar);
INSERT INTO other.events VALUES (1, 'north'), (2, 'south');
CREATE TABLE million (id bigint PRIMARY KEY, note varchar NOT NULL);
INSERT INTO million SELECT i, 'some text of row number ' || i FROM range(1, {MILLION + 1}) r(i);
CREATE TABLE heavy (id bigint, body varchar); COMMENT ON COLUMN heavy.body IS 'CLOB';
INSERT INTO heavy SELECT i, repeat(md5(i::varchar), 32768) FROM range(1, {HEAVY + 1}) r(i);
CREATE VIEW slow AS SELECT i AS id, 'x' AS note FROM range(1, 3) r(i);
"""

ON_SERVER = f"""
CREATE USER "CONTRACT" IDENTIFIED BY "{PASSWORD}" QUOTA UNLIMITED ON USERS;
CREATE USER "other" IDENTIFIED BY "{PASSWORD}" QUOTA UNLIMITED ON USERS;
CREATE USER "READER" IDENTIFIED BY "{READER_PASSWORD}";
GRANT CREATE SESSION TO "CONTRACT", "READER";
CREATE TABLE "CONTRACT"."events" ("id" NUMBER(19) PRIMARY KEY, "kind" VARCHAR2(50) NOT NULL, "note" VARCHAR2(100),
  "amount" NUMBER(12,2) NOT NULL, "at" TIMESTAMP(0) NOT NULL, "moment" TIMESTAMP(0) WITH TIME ZONE NOT NULL,
  "flag" BOOLEAN NOT NULL, UNIQUE ("kind", "id"));
INSERT INTO "CONTRACT"."events" SELECT LEVEL, 'kind ' || MOD(LEVEL, 5),
  CASE WHEN MOD(LEVEL, 3) > 0 THEN 'note "' || LEVEL || '"' || CHR(10) END, LEVEL / 100,
  TIMESTAMP '2026-01-01 00:00:30' + NUMTODSINTERVAL(LEVEL, 'MINUTE'),
  TIMESTAMP '2026-01-01 00:00:30 +00:00' + NUMTODSINTERVAL(LEVEL, 'MINUTE'), MOD(LEVEL, 2) = 0
  FROM DUAL CONNECT BY LEVEL <= {EVENTS};
CREATE TABLE "CONTRACT"."pairs" ("a" VARCHAR2(10), "b" NUMBER(9), "c" VARCHAR2(100), PRIMARY KEY ("a", "b"));
INSERT INTO "CONTRACT"."pairs" SELECT CHR(65 + MOD(LEVEL, 7)), LEVEL, 'c' || LEVEL FROM DUAL CONNECT BY LEVEL <= 200;
CREATE VIEW "CONTRACT"."events_seen" AS SELECT "id", "note" FROM "CONTRACT"."events";
CREATE VIEW "CONTRACT"."events_kept" AS SELECT "id", "note" FROM "CONTRACT"."events";
CREATE TABLE "CONTRACT"."empty" ("id" NUMBER(9) PRIMARY KEY, "note" VARCHAR2(100));
CREATE TABLE "CONTRACT"."keyless" ("note" VARCHAR2(100));
INSERT INTO "CONTRACT"."keyless" SELECT 'same' FROM DUAL CONNECT BY LEVEL <= 50;
CREATE TABLE "other"."events" ("id" NUMBER(9) PRIMARY KEY, "region" VARCHAR2(100));
INSERT INTO "other"."events" SELECT LEVEL, DECODE(LEVEL, 1, 'north', 'south') FROM DUAL CONNECT BY LEVEL <= 2;
GRANT SELECT ON "other"."events" TO "CONTRACT";
CREATE TABLE "CONTRACT"."million" ("id" NUMBER(19) PRIMARY KEY, "note" VARCHAR2(100) NOT NULL);
INSERT INTO "CONTRACT"."million" SELECT (a.n - 1) * 1000 + b.n, 'some text of row number ' || ((a.n - 1) * 1000 + b.n)
  FROM (SELECT LEVEL n FROM DUAL CONNECT BY LEVEL <= {MILLION // 1000}) a,
       (SELECT LEVEL n FROM DUAL CONNECT BY LEVEL <= 1000) b;
CREATE TABLE "CONTRACT"."heavy" ("id" NUMBER(9), "body" CLOB);
INSERT INTO "CONTRACT"."heavy" SELECT LEVEL, XMLSERIALIZE(CONTENT
  (SELECT XMLAGG(XMLELEMENT("x", RPAD('y', 4000, 'y'))) FROM DUAL CONNECT BY LEVEL <= 262) AS CLOB)
  FROM DUAL CONNECT BY LEVEL <= {HEAVY};
CREATE VIEW "CONTRACT"."slow" AS SELECT COUNT(*) AS "id" FROM ALL_OBJECTS a, ALL_OBJECTS b, ALL_OBJECTS c;
GRANT SELECT ON "CONTRACT"."events" TO "READER";
GRANT INSERT ON "CONTRACT"."pairs" TO "READER"
"""
"""The same tables on a real server, of version 23ai or later for the sake of BOOLEAN."""

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "bigint",
    Encoding.DECIMAL: "decimal(20,4)",
    Encoding.FLOAT: "double",
    Encoding.TEXT: "varchar",
    Encoding.BOOLEAN: "boolean",
    Encoding.TIMESTAMP: "timestamp",
    Encoding.TIMESTAMP_UTC: "timestamptz",
    Encoding.BINARY: "blob",
}
DIFFERENCES = ("the empty text",)
RANDOM = {
    "bigint": strategies.INTEGERS,
    "varchar": strategies.FILLED_WORDS,
    "decimal(18,3)": strategies.DECIMALS,
    "timestamp": strategies.DATETIMES,
    "timestamp_s": strategies.SECONDS,
}
"""On the fake; a text is never empty, as in Oracle, and `timestamp_s` stands for DATE."""

WORKING = "SELECT COUNT(*) FROM V$SESSION WHERE PROGRAM = :1 AND STATUS = 'ACTIVE'"


@contextmanager
def serving() -> Iterator[Source]:
    """Serve the fake in place of the driver's `connect`, or fill the server that is given."""
    with _given(DSN) if DSN else _faked() as source:
        yield source


@contextmanager
def _faked() -> Iterator[Source]:
    pytest.importorskip("duckdb", reason="oracle: the fake runs on duckdb and sqlglot")
    from tests.contract.fake_oracle_server import FakeOracle, User, listening

    reader = User(READER_PASSWORD, frozenset({"events"}), frozenset({"events", "pairs"}))
    exempt = User(READER_PASSWORD, privileges=("CREATE SESSION", "EXEMPT ACCESS POLICY"))
    oracle = FakeOracle(SERVICE, {OWNER: User(PASSWORD), "READER": reader, "EXEMPT": exempt})
    oracle.database.execute(f"SET TimeZone = 'UTC'; {SEED}")
    for name in NAMES:
        quoted = f'"{name}"'
        oracle.database.execute(f"CREATE TABLE {quoted} ({quoted} integer PRIMARY KEY, note varchar)")
        oracle.database.execute(f"INSERT INTO {quoted} VALUES (7, 'seven')")
    columns = ", ".join(f"c{number} integer" for number in range(60))
    oracle.database.execute(f"CREATE TABLE wide (id integer PRIMARY KEY, {columns}); INSERT INTO wide (id) VALUES (1)")

    def run(sql: str) -> Sequence[Sequence[Any]]:
        return oracle.database.execute(sql).fetchall()

    def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
        listed = ", ".join(f'"{each}" {kind}' for each, kind in columns.items())
        run(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({listed}, PRIMARY KEY ({', '.join(key)}))")
        for row in rows:
            values = ", ".join(map(_literal, row, columns.values()))
            run(f"INSERT INTO {name} VALUES ({values}) ON CONFLICT DO NOTHING")

    def stored(name: str, key: Sequence[str]) -> Rows:
        kinds = [row[1] for row in run(f"DESCRIBE {name}")]
        return [tuple(map(_shown, row, kinds)) for row in run(f"SELECT * FROM {name} ORDER BY {', '.join(key)}")]

    with listening(oracle), patch.object(oracledb, "connect", fake_oracle.connect):
        yield _source("127.0.0.1", oracle.port, SERVICE, run, oracle.active, (create, stored))


@contextmanager
def _given(dsn: str) -> Iterator[Source]:
    found = re.fullmatch(r"([^/]+)/(.+)@([^:/@]+):(\d+)/(.+)", dsn)
    if found is None:
        pytest.fail("FETCHER_TEST_ORACLE_DSN is not user/password@host:port/service")
    user, password, host, port, service = found.groups()
    with oracledb.connect(user=user, password=password, host=host, port=int(port), service_name=service) as connection:

        def run(sql: str, *values: object) -> Sequence[Sequence[Any]]:
            with connection.cursor() as cursor:
                cursor.execute(sql, list(values))
                rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else ()
            connection.commit()
            return rows

        _drop_users(run)
        for statement in ON_SERVER.split(";\n"):
            run(statement)
        for name in NAMES:
            run(f'CREATE TABLE "CONTRACT"."{name}" ("{name}" NUMBER(9) PRIMARY KEY, "note" VARCHAR2(100))')
            run(f"""INSERT INTO "CONTRACT"."{name}" VALUES (7, 'seven')""")
        wide = ", ".join(f'"c{number}" NUMBER(9)' for number in range(60))
        run(f'CREATE TABLE "CONTRACT"."wide" ("id" NUMBER(9) PRIMARY KEY, {wide})')
        run('INSERT INTO "CONTRACT"."wide" ("id") VALUES (1)')
        try:
            yield _source(
                host, int(port), service, run, lambda name: int(run(WORKING, name)[0][0]), (_faked_only, _faked_only)
            )
        finally:
            _drop_users(run)


def _drop_users(run: Callable[..., Sequence[Sequence[Any]]]) -> None:
    for (name,) in run("SELECT USERNAME FROM DBA_USERS WHERE USERNAME IN ('CONTRACT', 'other', 'READER')"):
        run(f'DROP USER "{name}" CASCADE')


def _source(
    host: str,
    port: int,
    service: str,
    run: Callable[[str], Sequence[Sequence[Any]]],
    active: Callable[[str], int],
    making: Making,
) -> Source:
    to = Connection("source", "oracle", host, port, service, OWNER, options={"serviceName": service})
    return Source(to, Secret(PASSWORD), READER_PASSWORD, run, active, *making, OWNER, NAMES, "true")


def _faked_only(*_: object) -> NoReturn:
    raise NotImplementedError("tables of a test's own are made in the fake alone")


def _literal(value: Any, declared: str) -> str:
    """An empty text is NULL in Oracle; the fake would keep it."""
    if value is None or value == "":
        return "NULL"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    return "'" + str(shown(value)).replace("'", "''") + f"'::{declared}"


def _shown(value: Any, declared: str) -> str | None:
    """Oracle writes as many digits of a second as the type has."""
    if value is None or not declared.startswith("TIMESTAMP"):
        return shown(value)
    return str(value.isoformat(timespec="microseconds" if declared == "TIMESTAMP" else "seconds"))
