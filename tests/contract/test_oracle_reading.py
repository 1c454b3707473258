"""What Oracle's engine sends and makes of the answers: on the fake where it can show it, else on the statement itself.

A statement is read by sqlglot as Oracle's; what the server would make of a format is assumed in `docs/oracle.md`.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import oracledb
import pytest

from fetcher.core.plan import plan
from fetcher.engines._oracle import rows
from fetcher.engines._oracle.opening import Way
from fetcher.engines._oracle.rows import Rows, Statement
from fetcher.engines._oracle.types import encoding
from fetcher.engines._watchdog import Watchdog
from fetcher.engines.oracle import NAMING, OracleSession, _Probe, connect
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Condition, Encoding, Position, Query, Secret, Selection
from tests.contract import fake_oracle
from tests.contract.conftest import rows_of
from tests.contract.kinds import Source
from tests.contract.kinds.oracle import DSN, PASSWORD

sqlglot = pytest.importorskip("sqlglot", reason="oracle: the fake runs on duckdb and sqlglot")
exp = sqlglot.exp

CREATE = """
DROP TABLE IF EXISTS "EMP"; CREATE TABLE "EMP" ("ID" decimal(38, 0) PRIMARY KEY, "NAME" varchar, "MixedCase" varchar);
INSERT INTO "EMP" VALUES (1, 'Ana', 'x'), (2, NULL, 'y');
"""


def column(name: str, declared: str) -> Column:
    return Column(name, declared, encoding(declared))


@pytest.fixture
def oracle(sources: Callable[[str], Source]) -> Source:
    if DSN:
        pytest.skip("oracle: looks into the fake")
    return sources("oracle")


@pytest.fixture
def session(oracle: Source) -> Iterator[OracleSession]:
    with opened(oracle) as each:
        yield each


@contextmanager
def opened(oracle: Source) -> Iterator[OracleSession]:
    with connect(oracle.to, oracle.secret, seconds=30, application="reading") as each:
        yield each


@pytest.fixture
def sent(oracle: Source) -> Iterator[list[str]]:
    """Collect what a session sends."""
    statements: list[str] = []
    execute = fake_oracle.FakeCursor.execute

    def noting(cursor: Any, sql: str, *arguments: Any, **options: Any) -> Any:
        statements.append(sql)
        return execute(cursor, sql, *arguments, **options)

    with patch.object(fake_oracle.FakeCursor, "execute", noting):
        yield statements


def query(columns: Sequence[Column], *, key: Sequence[str] = (), **more: Any) -> Query:
    keys = tuple(each for each in columns if each.name in key)
    return Query("t", ("O", "t"), tuple(columns), keys, **more)


def parsed(statement: Statement) -> Any:
    tree = sqlglot.parse_one(re.sub(r":(\d)", r":p\1", statement.sql), read="oracle")
    assert isinstance(tree, exp.Select)
    return tree


# --- names


@pytest.mark.parametrize("name", ["EMP", "emp", "Emp", "CONTRACT.EMP", "contract.emp"])
def test_a_table_is_found_with_and_without_its_own_owner_in_any_case(
    oracle: Source, session: OracleSession, name: str
) -> None:
    """B-09, R-000-32; and with its filter, under the name that was requested."""
    oracle.run(CREATE)
    catalog = session.discover(NAMING.scope([name], oracle.to))
    selection = Selection(name, ("name", "MixedCase"), (Condition("id", "eq", (1,)),))
    (planned,) = plan("db", [selection], catalog, NAMING, oracle.to)
    assert planned.name == name
    assert planned.path == ("CONTRACT", "EMP")
    assert rows_of(list(session.read(planned, None))) == [{"NAME": "Ana", "MixedCase": "x"}]


def test_qualified_and_unqualified_names_stand_in_one_request(oracle: Source, session: OracleSession) -> None:
    """B-17: the connecting owner is in scope whenever a name has no owner."""
    oracle.run(CREATE)
    names = ["EMP", "other.events"]
    catalog = session.discover(NAMING.scope(names, oracle.to))
    planned = plan("db", [Selection(name, ("*",)) for name in names], catalog, NAMING, oracle.to)
    assert [each.path for each in planned] == [("CONTRACT", "EMP"), ("other", "events")]
    assert [sum(page.rows for page in session.read(each, None)) for each in planned] == [2, 2]


def test_two_names_of_one_table_are_refused(oracle: Source, session: OracleSession) -> None:
    oracle.run(CREATE)
    names = ["emp", "CONTRACT.EMP"]
    with pytest.raises(InvalidRequestError, match="one table"):
        plan(
            "db",
            [Selection(name, ("*",)) for name in names],
            session.discover(NAMING.scope(names, oracle.to)),
            NAMING,
            oracle.to,
        )


def test_discovery_takes_three_queries_whatever_it_finds(session: OracleSession, sent: list[str]) -> None:
    """Constant, not one a table; and Oracle's owners are told by the catalog, not by a name's pattern."""
    session.discover(("CONTRACT", "other"))
    assert len(sent) == 3
    assert any("oracle_maintained = 'N'" in each for each in sent)
    assert not any("LIKE" in each.upper() for each in sent)


# --- the session


def test_the_session_is_pinned_before_it_reads_and_reads_in_one_read_only_transaction(
    oracle: Source, sent: list[str]
) -> None:
    """R-002-87, R-002-88: what the fake cannot refuse is at least asked for, first and once."""
    with opened(oracle) as session:
        table = session.discover(())
        events = table.tables["CONTRACT", "pairs"]
        for _ in range(2):
            list(session.read(Query("pairs", events.path, events.columns), None))
    assert sent[0].startswith("ALTER SESSION SET TIME_ZONE = '+00:00'")
    assert "NLS_NUMERIC_CHARACTERS = '.,'" in sent[0]
    reads = [each for each in sent if "SYS." not in each.upper() and each != sent[0]]
    assert [each.split()[0] for each in reads] == ["SET", "SELECT", "SELECT"]
    assert reads[0] == "SET TRANSACTION READ ONLY"


def test_the_session_has_the_names_of_its_application(oracle: Source) -> None:
    with opened(oracle) as session:
        connection: Any = session._connection
        assert connection.module == connection.client_identifier == "reading"
        assert connection.action == "read"


def test_a_user_who_may_not_look_at_sessions_is_left_to_work(oracle: Source) -> None:
    """Without the right nothing can be told from silence, so only the extraction's own time ends it."""
    for user, password, working in ((oracle.to.user, PASSWORD, False), ("reader", oracle.reader_password, True)):
        probe = _Probe(Way.to(replace(oracle.to, user=user), Secret(password), "probe"))
        assert not probe()
        probe.session = (1, 7)
        assert probe() is working


def test_a_server_that_lets_nobody_in_is_not_working(oracle: Source) -> None:
    probe = _Probe(Way.to(oracle.to, Secret("wrong"), "probe"))
    probe.session = (1, 7)
    assert not probe()


# --- the statement


EVERYTHING = [
    column("N", "NUMBER"),
    column("I", "NUMBER(19,0)"),
    column("D", "NUMBER(12,2)"),
    column("F", "BINARY_DOUBLE"),
    column("T", "TIMESTAMP(6)"),
    column("Z", "TIMESTAMP(3) WITH TIME ZONE"),
    column("L", "TIMESTAMP(0) WITH LOCAL TIME ZONE"),
    column("Y", "DATE"),
    column("V", "INTERVAL DAY(2) TO SECOND(6)"),
    column("C", "VARCHAR2(50 CHAR)"),
    column("R", "RAW(16)"),
    column("O", "CLOB"),
    column("B", "BLOB"),
    column("A", "ROWID"),
]


def test_what_is_sent_is_oracles_sql() -> None:
    """Every value bound, every name quoted and qualified, comparisons expanded."""
    key = ["I", "Y"]
    position = Position((("NUMBER(19,0)", "7"), ("DATE", " 2026-01-01 00:00:00")))
    statement = Statement(query(EVERYTHING, key=key), position)
    tree = parsed(statement)
    assert [table.sql(dialect="oracle") for table in tree.find_all(exp.Table)] == ['"O"."t"']
    assert all(each.this.quoted for each in tree.find_all(exp.Column))
    assert statement.values == ["7", "7", " 2026-01-01 00:00:00"]
    where = statement.sql[statement.sql.index(" WHERE ") : statement.sql.index(" ORDER BY ")]
    assert where == (
        ' WHERE (("I" > TO_NUMBER(:1)) OR ("I" = TO_NUMBER(:2) AND "Y" > TO_DATE(:3, \'SYYYY-MM-DD HH24:MI:SS\')))'
    )
    assert statement.sql.endswith(' ORDER BY "I", "Y"')


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ("NUMBER(19,0)", "TO_CHAR(\"c\", 'TM9')"),
        ("NUMBER(12,2)", "TO_CHAR(\"c\", 'FM9999999990.00')"),
        ("NUMBER(2,5)", "TO_CHAR(\"c\", 'FM0.00000')"),
        ("NUMBER", "REPLACE(TO_CHAR(\"c\", 'TM9'), '.', '0.')"),
        ("FLOAT(126)", "TO_CHAR(\"c\", 'TME')"),
        ("NUMBER(38,-84)", "TO_CHAR(\"c\", 'TME')"),
        ("DATE", 'LTRIM(TO_CHAR("c", \'SYYYY-MM-DD"T"HH24:MI:SS\'))'),
        ("TIMESTAMP(0)", 'LTRIM(TO_CHAR("c", \'SYYYY-MM-DD"T"HH24:MI:SS\'))'),
        ("TIMESTAMP(9)", "HH24:MI:SS.FF9'))"),
        ("TIMESTAMP(6) WITH TIME ZONE", 'LTRIM(TO_CHAR(SYS_EXTRACT_UTC("c"), \'SYYYY'),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "HH24:MI:SS.FF6')) || 'Z'"),
        ("INTERVAL YEAR(2) TO MONTH", 'TO_CHAR("c")'),
        ("JSON", 'JSON_SERIALIZE("c" RETURNING CLOB)'),
        ("XMLTYPE", 'XMLSERIALIZE(CONTENT "c" AS CLOB)'),
        ("BOOLEAN", "WHEN \"c\" THEN 'true'"),
    ],
)
def test_each_type_is_rendered_by_a_form_that_is_exact_for_it(declared: str, wanted: str) -> None:
    """Asserted on the text: the fake's own idea of a format proves nothing about the server's."""
    assert wanted in Statement(query([column("c", declared)]), None).sql


def test_binary_floats_text_and_bytes_are_read_as_they_are() -> None:
    """The server's text of a double is not its shortest, and an escaped VARCHAR2 may not fit into one."""
    for declared in ("BINARY_DOUBLE", "BINARY_FLOAT", "VARCHAR2(4000 BYTE)", "CLOB", "BLOB", "RAW(2000)", "UROWID"):
        assert Statement(query([column("c", declared)]), None).sql == 'SELECT "c" FROM "O"."t"'


def test_an_object_has_no_text() -> None:
    with pytest.raises(InvalidRequestError, match="object"):
        Statement(query([column("c", "MDSYS.SDO_GEOMETRY")]), None)


def test_no_text_that_the_server_builds_is_longer_than_a_varchar2() -> None:
    """60 columns of long names, cut into several texts, still make one object."""
    columns = [column(f"{'ü' * 60}{at:02d}", "TIMESTAMP(6)") for at in range(60)]
    statement = Statement(query(columns), None)
    assert statement.first_key > 1
    sizes = [len(each.sql(dialect="oracle").encode()) for each in parsed(statement).selects]
    assert len(sizes) == statement.first_key
    row = tuple('"x"' for _ in sizes)
    assert next(statement.bodies([row])).startswith('{"' + columns[0].name + '":"x"')


@pytest.mark.parametrize("name", ["a:1", "it's", "100%", "{0}", "tab\there"])
def test_a_name_with_marks_of_other_languages_is_only_a_name(name: str) -> None:
    """R-000-34: what DIFFERENT leaves out of the shared suite."""
    statement = Statement(query([column("first", "NUMBER(9,0)"), column(name, "NUMBER(9,0)")]), None)
    assert statement.values == []
    assert '"' + name + '"' in statement.sql


# --- values from the driver


def test_what_the_driver_returns_is_framed_exactly() -> None:
    columns = [
        column("text", "VARCHAR2(9 BYTE)"),
        column("bytes", "BLOB"),
        column("double", "BINARY_DOUBLE"),
        column("single", "BINARY_FLOAT"),
        column("number", "NUMBER"),
        column("json", "JSON"),
    ]
    fetched = [
        ('a"\n\x01\\é🎉', b"\x00\xff", 0.1, 0.10000000149011612, '"\x011.5E+70\x01"', '{"n":1.10}'),
        (None, None, math.nan, -math.inf, "null", None),
        ("", b"", 1e300, 16777216.0, '"0.5"', "[]"),
    ]
    bodies = list(Statement(query(columns), None).bodies(fetched))
    assert bodies[0] == (
        '{"text":"a\\"\\n\\u0001\\\\é🎉","bytes":"AP8=","double":0.1,"single":0.1,"number":"15' + "0" * 69 + '",'
        '"json":{"n":1.10}}'
    )
    second = json.loads(bodies[1])
    assert second == {
        "text": None,
        "bytes": None,
        "double": "NaN",
        "single": "-Infinity",
        "number": None,
        "json": None,
    }
    assert json.loads(bodies[2], parse_float=Decimal)["double"] == Decimal("1e300")


def test_values_come_through_the_fake_with_the_drivers_types(oracle: Source, session: OracleSession) -> None:
    oracle.run(
        """DROP TABLE IF EXISTS "VALUES"; CREATE TABLE "VALUES" ("ID" bigint PRIMARY KEY, "D" decimal(38, 10),
        "F" double, "S" float, "B" blob, "T" timestamp, "N" timestamp_ns, "Y" timestamp_s, "C" varchar);
        COMMENT ON COLUMN "VALUES"."C" IS 'CLOB';
        INSERT INTO "VALUES" VALUES (-9223372036854775808, 1234567890123456789012345678.0123456789, 'nan', 0.1,
        '\\x00\\xFF', '0044-03-15 00:00:00.000001', '2026-01-31 23:59:59.123456789', '2026-01-31 08:30:00', 'é')"""
    )
    found = session.discover(()).tables["CONTRACT", "VALUES"]
    types = ["NUMBER(19,0)", "NUMBER(38,10)", "BINARY_DOUBLE", "BINARY_FLOAT", "RAW(2000)", "TIMESTAMP(6)"]
    assert [each.type for each in found.columns] == [*types, "TIMESTAMP(9)", "DATE", "CLOB"]
    assert rows_of(list(session.read(Query("VALUES", found.path, found.columns), None))) == [
        {
            "ID": -9223372036854775808,
            "D": "1234567890123456789012345678.0123456789",
            "F": "NaN",
            "S": 0.1,
            "B": "AP8=",
            "T": "0044-03-15T00:00:00.000001",
            "N": "2026-01-31T23:59:59.123456789",
            "Y": "2026-01-31T08:30:00",
            "C": "é",
        }
    ]


def test_a_cursor_of_the_fake_describes_with_the_drivers_own_types(session: OracleSession) -> None:
    with session._connection.cursor() as cursor:
        cursor.execute('SELECT "note" FROM "CONTRACT"."events"', [])
        assert cursor.description is not None
        assert cursor.description[0][1] is oracledb.DB_TYPE_VARCHAR


# --- batches


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ([column("a", "NUMBER")], 5000),
        ([column("a", "VARCHAR2(4000 BYTE)")] * 2, 524),
        ([column("a", "VARCHAR2(4000 CHAR)")] * 10, 26),
        ([column("a", "NUMBER"), column("b", "CLOB")], 4),
    ],
)
def test_a_batch_is_bounded_by_bytes(columns: list[Column], wanted: int) -> None:
    """R-002-84, R-002-85: what the shared memory tests measure in a process of its own."""
    assert Statement(query(columns), None).rows_a_batch == wanted


def test_the_driver_is_told_the_batch_and_fetches_no_more_than_that(
    session: OracleSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", 7)
    asked: list[int] = []
    fetchmany = fake_oracle.FakeCursor.fetchmany

    def noting(cursor: Any, size: int) -> list[tuple[Any, ...]]:
        asked.append(size)
        return fetchmany(cursor, size)

    with patch.object(fake_oracle.FakeCursor, "fetchmany", noting):
        found = session.discover(()).tables["CONTRACT", "pairs"]
        asked.clear()
        reading = session.read(Query("pairs", found.path, found.columns, page_bytes=1), None)
        for _ in range(8):
            next(reading)
    assert asked == [7, 7]


def test_a_read_that_was_closed_gives_no_more() -> None:
    with Watchdog(5) as watchdog:
        closed = Rows(query([column("a", "NUMBER")]), None, watchdog)
        closed.close()
        assert closed.page() is None


def test_a_read_left_half_way_leaves_the_session_usable(session: OracleSession) -> None:
    """Batches are asked for, so nothing is drained and nothing has to be dropped."""
    found = session.discover(()).tables["CONTRACT", "million"]
    reading = session.read(replace(Query("million", found.path, found.columns), page_bytes=1), None)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    pairs = session.discover(()).tables["CONTRACT", "pairs"]
    assert sum(page.rows for page in session.read(Query("pairs", pairs.path, pairs.columns), None)) == 200


def test_encodings_by_type() -> None:
    assert encoding("NUMBER(5,-2)") is Encoding.INTEGER
    assert encoding("NUMBER(*,0)") is Encoding.INTEGER
    assert encoding("NUMBER") is encoding("FLOAT(126)") is Encoding.DECIMAL
    assert encoding("ANYDATA") is Encoding.TEXT
