"""SQLite, in files of a temporary folder: the sixth kind, whose engine is `tests/contract/engines/sqlite.py`."""

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fetcher.model import Connection, Encoding, Secret
from tests.contract import strategies
from tests.contract.kinds import EVENTS, HEAVY, ODD_NAMES, Rows, Source, shown

_WIRE = "a library in our own process: no wire that could break, and no server that could go on"
_USERS = "no users and no rights"
DIFFERENT = {
    "test_wire": _WIRE,
    "test_leaving": _WIRE,
    "test_tls": _WIRE,
    "test_a_read_is_seen_at_the_server_under_the_extractions_name": _WIRE,
    "test_a_session_only_reads": "other SQL: its files are opened with `mode=ro`",
    "test_a_nul_in_a_value_is_invalid": "text may hold NUL",
    "test_a_table_without_the_right_to_read_it_is_refused": _USERS,
    "test_a_wrong_password_is_refused": _USERS,
    "test_a_closed_port_may_be_tried_again": _WIRE,
    "test_a_server_that_does_not_answer_the_greeting_may_be_tried_again": _WIRE,
    "test_a_server_that_falls_silent_after_the_greeting_is_given_up": _WIRE,
    "test_tls_that_the_server_does_not_offer_is_refused": _WIRE,
    "test_a_cut_wire_is_never_an_end_of_data": _WIRE,
    "test_a_wire_cut_inside_the_last_bytes_is_noticed": _WIRE,
    "test_a_silent_wire_is_given_up": _WIRE,
    "test_a_cancel_that_cannot_reach_the_server_still_ends_the_session": _WIRE,
    "test_a_cancel_while_the_caller_is_busy_stops_the_source": _WIRE,
    "test_discovery_is_a_constant_number_of_queries": _WIRE,
    "test_memory_is_flat_over_a_million_rows": "no registry of the tests in another process",
    "test_memory_is_bounded_by_a_few_rows_when_they_are_of_one_mebibyte": "the same",
}

MANY = 100_000
SEED = f"""
CREATE TABLE numbers (i INTEGER PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {MANY}) SELECT i FROM n;
CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, note TEXT, amount DECIMAL_TEXT(12,2) NOT NULL,
                     at TIMESTAMP NOT NULL, moment TIMESTAMPTZ NOT NULL, flag BOOLEAN NOT NULL, UNIQUE (kind, id));
INSERT INTO events
  SELECT i, 'kind ' || (i % 5), CASE WHEN i % 3 > 0 THEN 'note "' || i || '"' || char(10) END,
         printf('%d.%02d', i / 100, i % 100),
         strftime('%Y-%m-%dT%H:%M:%S', '2026-01-01 00:00:30', i || ' minutes'),
         strftime('%Y-%m-%dT%H:%M:%SZ', '2026-01-01 00:00:30', i || ' minutes'), i % 2 = 0
    FROM numbers WHERE i <= {EVENTS};
CREATE TABLE pairs (a TEXT NOT NULL, b INTEGER NOT NULL, c TEXT, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT char(65 + i % 7), i, 'c' || i FROM numbers WHERE i <= 200;
CREATE VIEW events_seen AS SELECT id, note FROM events;
CREATE VIEW events_kept AS SELECT id, note FROM events;
CREATE TABLE empty (id INTEGER PRIMARY KEY, note TEXT);
CREATE TABLE keyless (note TEXT);
INSERT INTO keyless SELECT 'same' FROM numbers WHERE i <= 50;
CREATE TABLE other.events (id INTEGER PRIMARY KEY, region TEXT);
INSERT INTO other.events VALUES (1, 'north'), (2, 'south');
CREATE VIEW million AS SELECT i AS id, 'some text of row number ' || i AS note FROM numbers;
CREATE VIEW heavy AS SELECT i AS id, hex(zeroblob(524288)) AS body FROM numbers WHERE i <= {HEAVY};
CREATE VIEW slow AS
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000000) SELECT count(*) AS id FROM n;
"""

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "BIGINT",
    Encoding.DECIMAL: "DECIMAL_TEXT(20,4)",
    Encoding.FLOAT: "REAL",
    Encoding.TEXT: "TEXT",
    Encoding.BOOLEAN: "BOOLEAN",
    Encoding.DATE: "DATE",
    Encoding.TIMESTAMP: "TIMESTAMP",
    Encoding.TIMESTAMP_UTC: "TIMESTAMPTZ",
    Encoding.UUID: "UUID",
    Encoding.BINARY: "BLOB",
}
RANDOM = {
    "BIGINT": strategies.INTEGERS,
    "TEXT": strategies.WORDS,
    "DECIMAL_TEXT(13,3)": strategies.DECIMALS,
    "DATE": strategies.DATES,
}


@contextmanager
def serving() -> Iterator[Source]:
    """Make the files and fill them."""
    with tempfile.TemporaryDirectory(prefix="fetcher-sqlite-") as folder:
        main, other = (str(Path(folder) / name) for name in ("main.db", "other.db"))
        with closing(sqlite3.connect(main, isolation_level=None)) as connection:
            connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
            connection.execute("ATTACH ? AS other", (other,))
            yield _filled(connection, main, other)


def _filled(connection: sqlite3.Connection, main: str, other: str) -> Source:
    def run(sql: str) -> Sequence[Sequence[Any]]:
        if ";" in sql:
            connection.executescript(sql)
            return ()
        return connection.execute(sql).fetchall()

    def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
        listed = ", ".join(f"{each} {kind}{' NOT NULL' if each in key else ''}" for each, kind in columns.items())
        run(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({listed}, PRIMARY KEY ({', '.join(key)}))")
        marks = ", ".join("?" * len(columns))
        stored = [[value if isinstance(value, bytes | int | float) else shown(value) for value in row] for row in rows]
        connection.executemany(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", stored)

    def stored(name: str, key: Sequence[str]) -> Sequence[Sequence[Any]]:
        return run(f"SELECT * FROM {name} ORDER BY {', '.join(key)}")

    run(SEED)
    for name in ODD_NAMES:
        quoted = "`" + name.replace("`", "``") + "`"
        connection.execute(f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, note TEXT)")
        connection.execute(f"INSERT INTO {quoted} VALUES (7, 'seven')")
    columns = ", ".join(f"c{number} INTEGER" for number in range(60))
    run(f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {columns}); INSERT INTO wide (id) VALUES (1)")
    to = Connection("source", "sqlite", "", 0, main, "", options={"other": other})
    return Source(to, Secret(""), "", run, lambda _: 0, create, stored, "main")
