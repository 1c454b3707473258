"""Keys, positions and filters on the types of MySQL and MariaDB that have rules of their own."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fetcher.engines import engine
from fetcher.engines._mysql.dialect import DIALECT
from fetcher.errors import ChangedError, InvalidRequestError
from fetcher.model import Column, Position, Query, Table, TypedCondition
from tests.contract.kinds import Source
from tests.contract.test_mysql_values import LATIN1, LOOSE, SJIS, UTF8MB3

KEYS: Sequence[tuple[str, Sequence[str]]] = [
    ("int", ["-5", "0", "70"]),
    ("bigint unsigned", ["18446744073709551615", "1", "9223372036854775808"]),
    ("int(4) unsigned zerofill", ["7", "10", "9"]),
    ("decimal(8,2) unsigned zerofill", ["7.5", "10", "9"]),
    ("decimal(40,20)", ["1.5", "-7", "12345678901234567890.00000000000000000001", "0"]),
    ("varchar(20)", ["'b'", "'A'", "'C'", "'é'", "''", "'🎉'", "'a b'"]),
    ("varchar(20) COLLATE utf8mb4_bin", ["'b'", "'A'", "'a'", "'ä'", "'%s'", r"'\'", "''''"]),
    ("varchar(20) COLLATE utf8mb4_nopad_bin", ["'a'", "'a '", "'a  '"]),
    (LATIN1, ["'b'", "'ü'", "'Z'"]),
    (SJIS, ["'日'", "'本'", "'a'"]),
    # two characters that are one of Unicode, and one that is none of it
    ("varchar(9) CHARACTER SET cp932", ["_cp932 X'8790'", "_cp932 X'81E0'", "_cp932 X'FCFC'", "_cp932 X'8785'", "'a'"]),
    ("varchar(9) CHARACTER SET cp932 COLLATE cp932_bin", ["_cp932 X'8790'", "_cp932 X'81E0'", "_cp932 X'FCFC'", "'b'"]),
    ("varchar(9) CHARACTER SET eucjpms", ["_eucjpms X'A2E8'", "_eucjpms X'ADF0'", "_eucjpms X'8FFEFE'", "'a'"]),
    ("varchar(9) CHARACTER SET big5", ["_big5 X'A15A'", "_big5 X'F9FE'", "_big5 X'C8FE'", "_big5 X'C8FD'", "'a'"]),
    ("varchar(9) CHARACTER SET latin1 COLLATE latin1_german1_ci", ["'b'", "'ü'", "'Z'", "_latin1 X'81'"]),
    ("varchar(9) CHARACTER SET ucs2", ["_ucs2 X'D83C'", "_ucs2 X'D83D'", "'a'", "'b'"]),
    ("varchar(9) CHARACTER SET utf32", ["'🎉'", "'a'", "'é'"]),
    (UTF8MB3, ["'b'", "'é'", "'日'"]),
    ("char(4)", ["'b'", "'a'", "'ab'"]),
    ("enum('z','a','m')", ["'a'", "'z'", "'m'"]),
    ("date", ["'2026-01-31'", "'0000-00-00'", "'2026-00-00'", "'9999-12-31'"]),
    ("date", ["'2026-02-31'", "'2026-02-01'", "'2026-03-01'"]),  # ALLOW_INVALID_DATES let it in
    ("datetime(6)", ["'2026-01-31 00:00:00.000001'", "'2026-01-31'", "'0000-00-00'"]),
    ("datetime(6)", ["'2026-02-31 23:59:59.999999'", "'2026-02-31'", "'2026-02-01'", "'2026-03-01'"]),
    ("datetime", ["'2026-04-31 08:30:00'", "'2026-04-30'", "'2026-05-01'"]),
    ("timestamp(3)", ["'2026-01-31 00:00:00.001'", "'2026-01-31'", "'1970-01-01 00:00:01'", "'0000-00-00'"]),
    ("time(6)", ["'-838:59:59'", "'838:59:59'", "'00:00:00.000001'", "'-00:00:00.5'"]),
    ("year", ["2026", "1999", "0"]),
    ("binary(4)", ["'ab'", "X'00'", "X'ff00ff'"]),
    ("varbinary(20)", ["X'00'", "''", "X'0000'", "X'ff'"]),
    ("bit(10)", ["b'1'", "b'1000000000'", "b'0'"]),
    ("uuid", ["uuid()", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000001'"]),
    ("inet6", ["'::1'", "'ff::'", "'::'", "'::ffff:10.0.0.1'"]),
    ("inet4", ["'10.0.0.1'", "'9.0.0.1'", "'255.0.0.1'"]),
]


@pytest.fixture(scope="session")
def source(sources: Callable[[str], Source]) -> Source:
    """A server that takes what strict ones refuse."""
    source = sources("mysql")
    source.run(LOOSE)
    return source


def _named(table: Table, name: str) -> Column:
    found = table.column(name)
    assert found is not None
    return found


@pytest.mark.parametrize("second", ["", ", m int NOT NULL DEFAULT 1"], ids=["single", "composite"])
@pytest.mark.parametrize(("declared", "literals"), KEYS, ids=[declared for declared, _ in KEYS])
def test_a_position_of_any_type_round_trips(
    source: Source, declared: str, literals: Sequence[str], second: str
) -> None:
    """R-002-22: order and comparison are the database's own, and its text comes back as the same value."""
    columns = "k, m" if second else "k"
    source.run(f"CREATE OR REPLACE TABLE keyed (k {declared} NOT NULL, n int{second}, PRIMARY KEY ({columns}))")
    source.run(f"INSERT INTO keyed (k, n) VALUES {', '.join(f'({v}, {n})' for n, v in enumerate(literals))}")
    expected = [n for (n,) in source.run("SELECT n FROM keyed ORDER BY k")]
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        found = session.discover(()).tables["keyed",]
        key = tuple(_named(found, name) for name in found.key)
        assert [column.name for column in key] == columns.split(", ")
        query = Query("keyed", found.path, (_named(found, "n"),), key, page_bytes=1)
        pages = list(session.read(query, None))
        assert [json.loads(page.body)["n"] for page in pages] == expected
        for done, page in enumerate(pages, 1):
            rest = [json.loads(later.body)["n"] for later in session.read(query, page.position)]
            assert rest == expected[done:]


@pytest.mark.parametrize(
    ("declared", "saved"),
    [
        ("date", "2026-13-01"),
        ("datetime(3)", "2026-01-31 25:00:00.000"),
        ("datetime", "2026-01-31T08:30:00"),
        ("timestamp", "never"),
        ("time", "900:00:00"),
        ("int", "2147483648x"),
        ("bigint unsigned", "-1"),
        ("year", "0026"),
        ("decimal(4,1)", "1.04"),
        ("binary(2)", "zz"),
        ("bit(8)", ""),
        ("uuid", "none"),
        ("inet6", "none"),
        (SJIS, "CAFE"),  # as positions were written once
        (SJIS, "bytes:8"),
        ("varchar(9) CHARACTER SET cp932", "bytes:8A"),
        ("varchar(9) CHARACTER SET ucs2", "bytes:61"),
    ],
)
def test_a_position_that_the_server_reads_as_another_value_is_never_gone_on_with(
    source: Source, declared: str, saved: str
) -> None:
    """R-002-13: `key > NULL` is true of no row, so that a completed result would lack the rest of the table."""
    source.run(f"CREATE OR REPLACE TABLE misread (k {declared} NOT NULL, m int NOT NULL, PRIMARY KEY (m, k))")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        found = session.discover(()).tables["misread",]
        key = tuple(_named(found, name) for name in found.key)
        query = Query("misread", found.path, key, key)
        with pytest.raises(ChangedError):
            list(session.read(query, Position(((key[0].type, "7"), (key[1].type, saved)))))


def test_a_view_has_the_dates_that_it_has_for_others_behind_a_resumed_read(source: Source) -> None:
    """R-000-101: only the statement that compares a position takes impossible dates for dates."""
    source.run("CREATE OR REPLACE TABLE dated (d date PRIMARY KEY)")
    source.run("INSERT INTO dated VALUES ('2026-02-01'), ('2026-02-31'), ('2026-03-01')")
    source.run("CREATE OR REPLACE VIEW casts AS SELECT CAST(CONCAT(d) AS DATE) AS c FROM dated")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        tables = session.discover(()).tables
        key = tables["dated",].columns
        behind = session.read(Query("dated", ("dated",), key, key), Position((("date", "2026-02-31"),)))
        assert [page.body for page in behind] == [b'{"d":"2026-03-01"}']
        (page,) = session.read(Query("casts", ("casts",), tables["casts",].columns), None)
    assert sorted(str(row["c"]) for row in json.loads(b"[" + page.body + b"]")) == ["2026-02-01", "2026-03-01", "None"]


def test_a_key_with_half_of_a_surrogate_pair_has_no_position(source: Source) -> None:
    """R-002-22: no text can name it, so a part that ends there is gone on with behind a later one."""
    source.run("CREATE OR REPLACE TABLE halved (k varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY)")
    source.run("INSERT INTO halved VALUES ('a'), (_ucs2 X'D83C'), ('🎉')")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        key = session.discover(()).tables["halved",].columns
        pages = list(session.read(Query("halved", ("halved",), key, key, page_bytes=1), None))
        assert [json.loads(page.body)["k"] for page in pages] == ["a", "\ud83c", "🎉"]
        assert [page.position is None for page in pages] == [False, True, False]


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        ("(k double PRIMARY KEY)", ()),
        ("(k float PRIMARY KEY)", ()),
        ("(k set('a','b') PRIMARY KEY)", ()),
        ("(k point PRIMARY KEY)", ()),
        ("(k int UNIQUE)", ()),
        ("(k int NOT NULL, KEY (k))", ()),
        ("(k varchar(50) NOT NULL, UNIQUE (k(10)))", ()),
        ("(k text NOT NULL, UNIQUE (k))", ()),
        ("(k int NOT NULL, l int, UNIQUE (k, l))", ()),
        ("(a int, b int NOT NULL, PRIMARY KEY (a), UNIQUE (b))", ("a",)),
        ("(a float PRIMARY KEY, b int NOT NULL UNIQUE)", ("b",)),
        ("(a int NOT NULL, b int NOT NULL, c int NOT NULL UNIQUE, UNIQUE (a, b))", ("c",)),
        ("(a int NOT NULL, b int NOT NULL, PRIMARY KEY (b, a))", ("b", "a")),
        ("(a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)) PARTITION BY HASH (b) PARTITIONS 3", ("a", "b")),
    ],
)
def test_a_key_orders_every_row_exactly_once_or_is_none(source: Source, definition: str, key: tuple[str, ...]) -> None:
    """R-002-18, R-002-20, R-002-21: nullable, partial and floating keys are none; the shortest is taken."""
    source.run(f"CREATE OR REPLACE TABLE keyed2 {definition}")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        assert session.discover(()).tables["keyed2",].key == key


def test_a_resumed_read_begins_in_the_index(source: Source) -> None:
    """The expanded comparison is a range of the key's index; a row comparison would scan it all."""
    source.run("ANALYZE TABLE pairs")
    plans = {
        where: source.run(f"EXPLAIN SELECT c FROM pairs WHERE {where} ORDER BY a, b")[0][3]
        for where in ("(a > 'F' OR (a = 'F' AND b > 190))", "(a, b) > ('F', 190)")
    }
    assert list(plans.values()) == ["range", "ALL"] or list(plans.values()) == ["range", "index"]


@pytest.mark.parametrize(
    ("declared", "made", "saved"),
    [
        ("varchar(9) CHARACTER SET cp932", "seq", "bytes:61"),
        ("datetime(3)", "'2026-01-01' + INTERVAL seq MINUTE", "2026-02-01 00:00:00.001"),
        ("date", "'2026-01-01' + INTERVAL seq DAY", "2026-02-31"),
        (
            "uuid",
            "CONCAT('00000000-0000-0000-0000-00000000', LPAD(seq, 4, '0'))",
            "00000000-0000-0000-0000-000000001900",
        ),
    ],
)
def test_what_makes_a_value_of_a_position_is_a_constant_to_the_index(
    source: Source, declared: str, made: str, saved: str
) -> None:
    """R-002-22: a resumed read does not look at the rows that are delivered already."""
    source.run(LOOSE)
    source.run(f"CREATE OR REPLACE TABLE ranged (k {declared} PRIMARY KEY, n int)")
    source.run(f"INSERT INTO ranged SELECT {made}, seq FROM seq_1_to_2000")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        (key, _) = session.discover(()).tables["ranged",].columns
    compared = DIALECT.key("?", key)
    source.run(f"PREPARE ranged FROM 'EXPLAIN SELECT n FROM ranged WHERE k > {compared} ORDER BY k'")
    source.run(f"SET @saved = '{saved}'")
    assert source.run("EXECUTE ranged USING @saved")[0][3] == "range"


FILTERS: Sequence[tuple[str, str, str, Any, bool]] = [
    ("varchar(20)", "'abc'", "eq", ("0",), False),
    ("varchar(20)", "'42'", "eq", ("42",), True),
    ("varchar(20)", "'042'", "eq", ("42",), False),
    ("varchar(20)", "'Abc'", "eq", ("aBC ",), True),  # the rules of a collation that ignores case and pads
    ("varchar(20) COLLATE utf8mb4_bin", "'Abc'", "eq", ("abc",), False),
    ("varchar(20)", "'Abc'", "like", ("a_c",), True),
    ("varchar(20)", "'a_c'", "like", (r"a\_c",), True),
    ("varchar(20)", "'abc'", "like", (r"a\_c",), False),
    ("varchar(20)", "'a\\c'", "like", (r"a\\c",), True),
    ("varchar(20)", "''' OR 1=1 -- '", "eq", ("' OR 1=1 -- ",), True),
    ("varchar(20)", "'\\'", "eq", ("\\",), True),
    ("varchar(20)", "X'610062'", "eq", ("a\0b",), True),
    ("varchar(20)", "'🎉'", "in", ("x", "🎉"), True),
    (LATIN1, "'ü'", "in", ("x", "ü"), True),
    ("varchar(3)", "'abc'", "eq", ("abcdef",), False),
    ("decimal(4,1)", "1.0", "eq", ("1.04",), False),
    ("decimal(65,0)", "1" * 65, "eq", ("1" * 65,), True),
    ("decimal(40,30)", "0.1", "eq", ("0.1",), True),
    ("int", "7", "gt", ("6.5",), True),
    ("int", "7", "eq", ("7.0",), True),
    ("bigint unsigned", "18446744073709551615", "eq", (2**64 - 1,), True),
    ("bigint unsigned", "18446744073709551615", "lt", (2**64,), True),
    ("bigint", "9223372036854775807", "eq", (2**63,), False),
    ("bigint", "9007199254740993", "eq", (2**53,), False),
    ("year", "2026", "eq", (26,), False),
    ("year", "2026", "eq", (2026,), True),
    ("float", "0.1", "eq", ("0.1",), True),
    ("float", "0.1", "gt", ("0.1",), False),
    ("double", "0.1", "in", ("0.1", "2"), True),
    ("double", "1e300", "gt", ("1e299",), True),
    ("bit(1)", "b'1'", "eq", (True,), True),
    ("bit(3)", "b'101'", "eq", ("101",), True),
    ("bit(3)", "b'101'", "eq", ("1011",), False),
    ("bit(3)", "b'001'", "eq", ("1",), False),
    ("enum('z','a')", "'a'", "in", ("a", "b"), True),
    ("enum('z','a')", "'a'", "eq", ("2",), False),
    ("enum('z','a')", "'a'", "like", ("_",), True),
    ("inet6", "'::1'", "eq", ("::1",), True),
    ("inet6", "'::1'", "like", ("%:1",), True),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "eq", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), True),
    ("varbinary(9)", "X'00ff'", "in", (b"\x00\xff", b"a"), True),
    ("varbinary(9)", "'abc'", "eq", (b"ABC",), False),
    ("datetime", "'2026-01-31 00:00:01'", "eq", ("2026-01-31T00:00:00.6",), False),
    ("datetime(6)", "'2026-01-31 00:00:00.6'", "eq", ("2026-01-31T00:00:00.600000000",), True),
    ("timestamp", "'2026-01-31 08:30:00'", "eq", ("2026-01-31T08:30:00Z",), True),
    ("time", "'-26:00:00'", "eq", ("-26:00:00",), True),
    ("time", "'08:30:00'", "eq", ("08:30",), True),
    ("date", "'2026-01-31'", "eq", ("2026-01-31",), True),
    ("date NOT NULL", "'0000-00-00'", "eq", (None,), False),  # `IS NULL` would find it, for ODBC
    ("datetime NOT NULL", "'0000-00-00'", "in", (None,), False),
    ("datetime", "NULL", "eq", (None,), True),
    ("json", "NULL", "eq", (None,), True),
]


def matches(source: Source, declared: str, literal: str, verb: Any, given: Any) -> bool:
    source.run(f"CREATE OR REPLACE TABLE filtered (paid {declared}); INSERT INTO filtered VALUES ({literal})")
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="keys") as session:
        found = session.discover(()).tables["filtered",]
        condition = TypedCondition(found.columns[0], verb, given)
        return bool(list(session.read(Query("filtered", found.path, found.columns, (), (condition,)), None)))


@pytest.mark.parametrize(("declared", "literal", "verb", "given", "expected"), FILTERS)
def test_a_filter_compares_in_the_columns_type_without_cutting_the_value(
    source: Source, declared: str, literal: str, verb: Any, given: Any, expected: bool
) -> None:
    """R-000-90, R-000-94: the discovered type decides, and no conversion of MySQL's widens a filter."""
    assert matches(source, declared, literal, verb, given) is expected


@pytest.mark.parametrize(
    ("declared", "literal", "verb", "given"),
    [
        (LATIN1, "'a'", "eq", ("🎉",)),
        (UTF8MB3, "'a'", "ne", ("🎉",)),
        ("decimal(65,30)", "1", "eq", (10**65,)),
        ("int", "1", "gt", ("0." + "0" * 30 + "1",)),
        ("double", "1", "lt", ("1e400",)),
        ("time", "'838:59:59'", "eq", ("839:00:00",)),
        ("time", "'08:30:00'", "eq", ("08:30:00Z",)),
        ("datetime", "'2026-01-31'", "eq", ("2026-01-31T00:00:00.0000001",)),
        ("datetime", "'2026-01-31'", "ne", ("2026-02-31",)),
        ("varchar(20)", "'a'", "like", ("a\\",)),
        ("varchar(20)", "'a'", "eq", ("\ud800",)),
    ],
)
def test_a_value_that_no_such_column_can_hold_is_invalid(
    source: Source, declared: str, literal: str, verb: Any, given: Any
) -> None:
    """Rather an error than a value that the server cuts in silence."""
    with pytest.raises(InvalidRequestError) as caught:
        matches(source, declared, literal, verb, given)
    assert not re.search("🎉|839", str(caught.value))
