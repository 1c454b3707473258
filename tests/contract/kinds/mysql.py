"""MariaDB from the system's packages, standing for MySQL as well; skipped where it cannot be had.

`FETCHER_TEST_MYSQL_DSN` names a real MySQL or MariaDB instead, as `user:password@host:port/database` of an
administrator; the tables come into a database of their own, which is dropped at the end with the user `reader`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fetcher.engines._mysql.opening import thread
from fetcher.model import Connection, Encoding, Secret
from infra.local import mariadb
from infra.local.places import StackError
from tests.contract import strategies
from tests.contract.kinds import EVENTS, HEAVY, MILLION, ODD_NAMES, Rows, Source, given, own_name, shown
from tests.rig import until

DIFFERENT = {
    "test_only_the_schemas_asked_for_are_discovered": "no schemas (R-000-30): test_mysql_session.py",
    "test_a_nul_in_a_value_is_invalid": "text may hold NUL, and is found by it: test_mysql_session.py",
    "test_a_session_only_reads": "other SQL: test_mysql_session.py",
    "test_a_dead_way_leaves_the_server_to_its_own_time_limit[mysql-million]": "`net_write_timeout` is the bound of a"
    " thread that waits to send, a minute at least: test_mysql_session.py looks at it",
}

NAMES = tuple(name.replace(" 🎉", "") for name in ODD_NAMES)
"""Characters beyond U+FFFF are not allowed in names of MySQL."""

READER_PASSWORD = 'only reads %s & "more" host=evil'

SETTINGS = {
    "performance-schema": "ON",  # where a server shows the program names of its sessions
    "max-allowed-packet": "32M",  # so that a row can be spread over several packets of the protocol
}

ACTIVE = """
SELECT count(*) FROM performance_schema.session_connect_attrs a
  JOIN information_schema.PROCESSLIST p ON p.ID = a.PROCESSLIST_ID
 WHERE a.ATTR_NAME = 'program_name' AND a.ATTR_VALUE = %s AND p.COMMAND <> 'Sleep'
"""

TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""Compared as PostgreSQL compares: by case, so that each filter finds the same rows."""

SEED = f"""
SET time_zone = '+00:00';
CREATE TABLE events (id bigint PRIMARY KEY, kind varchar(50) {TEXT} NOT NULL, note text {TEXT},
                     amount decimal(12,2) NOT NULL, at datetime NOT NULL, moment timestamp NOT NULL DEFAULT
                     CURRENT_TIMESTAMP, flag bit(1) NOT NULL, UNIQUE (kind, id));
INSERT INTO events
  SELECT seq, concat('kind ', seq % 5), if(seq % 3 > 0, concat('note "', seq, '"\\n'), NULL), seq / 100,
         '2026-01-01 00:00:30' + INTERVAL seq MINUTE, '2026-01-01 00:00:30' + INTERVAL seq MINUTE, seq % 2 = 0
    FROM seq_1_to_{EVENTS};
CREATE TABLE pairs (a varchar(10) {TEXT} NOT NULL, b integer NOT NULL, c text {TEXT}, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT char(65 + seq % 7), seq, concat('c', seq) FROM seq_1_to_200;
CREATE VIEW events_seen AS SELECT id, note FROM events;
CREATE VIEW events_kept AS SELECT id, note FROM events;
CREATE TABLE empty (id integer PRIMARY KEY, note text);
CREATE TABLE keyless (note text);
INSERT INTO keyless SELECT 'same' FROM seq_1_to_50;
CREATE TABLE `other.events` (id integer PRIMARY KEY, region text);
INSERT INTO `other.events` VALUES (1, 'north'), (2, 'south');
CREATE TABLE million (id bigint PRIMARY KEY, note varchar(100) {TEXT} NOT NULL);
INSERT INTO million SELECT seq, concat('some text of row number ', seq) FROM seq_1_to_{MILLION};
CREATE VIEW heavy AS SELECT seq AS id, repeat(md5(seq), 32768) AS body FROM seq_1_to_{HEAVY};
CREATE VIEW slow AS SELECT seq AS id, if(sleep(60), 'y', 'x') AS note FROM seq_1_to_2;
CREATE USER reader IDENTIFIED BY '{READER_PASSWORD}';
GRANT SELECT ON events TO reader;
GRANT INSERT ON pairs TO reader
"""
"""Without any right on `pairs` the reader would not even see that it exists."""

NUMBERS = re.compile(r"seq_1_to_(\d+)")
"""MariaDB's tables of numbers; MySQL has to count."""
COUNTED = r"(WITH RECURSIVE s(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < \1) SELECT seq FROM s) s"
RECURSION = f"SET SESSION cte_max_recursion_depth = {MILLION};"

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "bigint",
    Encoding.DECIMAL: "decimal(20,4)",
    Encoding.FLOAT: "double",
    Encoding.TEXT: f"varchar(100) {TEXT}",
    Encoding.BOOLEAN: "bit(1)",
    Encoding.DATE: "date",
    Encoding.TIMESTAMP: "datetime(6)",
    Encoding.TIMESTAMP_UTC: "timestamp(6) NULL",
    Encoding.BINARY: "varbinary(100)",
}
DIFFERENCES = ("spaces at the end",)
RANDOM = {
    "bigint": strategies.INTEGERS,
    "varchar(9)": strategies.WORDS_WITH_NUL,
    "varchar(9) COLLATE utf8mb4_bin": strategies.WORDS_WITH_NUL,
    "varchar(9) COLLATE utf8mb4_unicode_ci": strategies.WORDS_WITH_NUL,
    "decimal(13,3)": strategies.DECIMALS,
    "date": strategies.DATES,
    "varbinary(9)": strategies.BYTES,
    "enum('z','a','m')": strategies.sampled("zam"),
    "bit(5)": strategies.BITS_OF_FIVE,
}
SPELLED = {"bit": "LPAD(BIN({0} + 0), 5, '0')", "varbinary": "TO_BASE64({0})"}
"""How a SELECT shows a type as it is in the result; every other one as it is."""


@contextmanager
def serving() -> Iterator[Source]:
    """Start the server and fill it."""
    try:
        with _server() as server:
            yield from _filled(server)
    except StackError as missing:
        pytest.skip(f"mysql: {missing}")


@contextmanager
def _server() -> Iterator[mariadb.Server]:
    real = given("mysql", 3306)
    if real is None:
        with mariadb.running(SETTINGS) as server:
            yield server
        return
    to, secret = real
    outer = mariadb.Server(Path(), to.port, secret.password, to.host, to.user, to.database)
    own = own_name()
    with outer.connection() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {own} CHARACTER SET utf8mb4")
        try:
            yield replace(outer, database=own)
        finally:
            cursor.execute(f"DROP DATABASE {own}")
            cursor.execute("DROP USER IF EXISTS reader")


def _filled(server: mariadb.Server) -> Iterator[Source]:
    with server.connection() as connection:

        def run(sql: str, *bound: object) -> Sequence[Sequence[Any]]:
            with connection.cursor() as cursor:
                cursor.execute(sql, bound or None)
                rows: Sequence[Sequence[Any]] = cursor.fetchall()
                while cursor.nextset():
                    rows = cursor.fetchall()
            return rows

        def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
            """Let the server drop the rows whose keys its collation takes for one."""
            listed = ", ".join(f"{each} {kind}" for each, kind in columns.items())
            run(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({listed}, PRIMARY KEY ({', '.join(key)}))")
            if rows:
                values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
                run(f"INSERT IGNORE INTO {name} VALUES {values}")

        def stored(name: str, key: Sequence[str]) -> Rows:
            columns = run(
                f"SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_NAME = '{name}'"
                " AND TABLE_SCHEMA = DATABASE() ORDER BY ORDINAL_POSITION"
            )
            listed = ", ".join(SPELLED.get(kind, "CONCAT({0})").format(each) for each, kind in columns)
            return run(f"SELECT {listed} FROM {name} ORDER BY {', '.join(key)}")

        run(SEED if "MariaDB" in str(run("SELECT VERSION()")) else RECURSION + NUMBERS.sub(COUNTED, SEED))
        for name in NAMES:
            # The suite asks for a dotted name behind a schema, which here is part of the name.
            quoted, column = f"`public.{name}`" if "." in name else f"`{name}`", f"`{name}`"
            run(f"CREATE TABLE {quoted} ({column} integer PRIMARY KEY, note text)")
            run(f"INSERT INTO {quoted} VALUES (7, 'seven')")

        @contextmanager
        def held(_application: str) -> Iterator[None]:
            """Make a table that takes long: nobody sees it before it is there, and a discovery wants to."""
            with server.connection() as other, ThreadPoolExecutor(1) as making:
                made = making.submit(other.query, "CREATE TABLE being_made SELECT sleep(60) AS pause")
                until(lambda: run("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'"), "sleep")
                try:
                    yield
                finally:
                    run(f"KILL QUERY {thread(other)}")
                    made.exception()
                    run("DROP TABLE IF EXISTS being_made")

        columns = ", ".join(f"c{number} integer" for number in range(60))
        run(f"CREATE TABLE wide (id integer PRIMARY KEY, {columns});\nINSERT INTO wide (id) VALUES (1)")
        to = Connection("source", "mysql", server.host, server.port, server.database, server.user)
        yield Source(
            to,
            Secret(server.password),
            READER_PASSWORD,
            run,
            lambda name: int(run(ACTIVE, name)[0][0]),
            create,
            stored,
            odd_names=NAMES,
            tls_required="true",
            held=held,
        )


def _literal(value: Any) -> str:
    match value:
        case None | int() | float():
            return "NULL" if value is None else str(int(value) if isinstance(value, bool) else value)
        case bytes():
            return f"X'{value.hex()}'"
        case _:
            return f"_utf8mb4 X'{str(shown(value)).removesuffix('Z').encode().hex()}'"
