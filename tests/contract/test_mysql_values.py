"""Every type of MySQL and MariaDB as JSON (`design.md` §7.2, R-000-101): exact, and the same by both readers."""

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from struct import pack, unpack

import pytest

from fetcher.engines import engine
from fetcher.engines._mysql import wire
from fetcher.errors import LimitError
from fetcher.model import Column, Encoding, Position, Query, Table
from fetcher.ports import Session
from tests.contract.kinds import Source

UTF8MB3, LATIN1, SJIS = (f"varchar(20) CHARACTER SET {name}" for name in ("utf8mb3", "latin1", "sjis"))

VALUES: Sequence[tuple[str, str, str]] = [
    # integers: numbers, exact; a BOOLEAN of MySQL is one of them
    ("tinyint(1)", "1", "1"),
    ("tinyint", "-128", "-128"),
    ("smallint", "-32768", "-32768"),
    ("mediumint", "8388607", "8388607"),
    ("int", "2147483647", "2147483647"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("int(5) unsigned zerofill", "42", "42"),
    ("bigint(20) unsigned zerofill", "18446744073709551615", "18446744073709551615"),
    ("year", "2026", "2026"),
    ("year", "0", "0"),
    # decimals: strings with every digit, scale kept
    ("decimal(65,30)", "-12345678901234567890.5", '"-12345678901234567890.500000000000000000000000000000"'),
    ("decimal(65,0)", "1" * 65, f'"{"1" * 65}"'),
    ("decimal(12,2)", "1.1", '"1.10"'),
    ("decimal(12,2)", "0", '"0.00"'),
    ("decimal(8,2) unsigned zerofill", "12.5", '"12.50"'),
    # floats: numbers, shortest round trip
    ("double", "0.1", "0.1"),
    ("double", "1.7976931348623157e308", "1.7976931348623157e+308"),
    ("double", "5e-324", "5e-324"),
    ("double", "'-0'", "0"),  # MariaDB keeps no sign of a zero in text
    ("double", "100", "100"),
    ("double", "-1e15", "-1000000000000000"),
    ("double", "2e-7", "2e-7"),
    ("float", "-1e-60", "-0"),
    ("float", "100", "100"),
    ("double", "0.1e0 + 0.2e0", "0.30000000000000004"),
    ("double", "123456789012345680000", "1.2345678901234568e+20"),
    ("double(10,2)", "1.1", "1.1"),
    ("double(10,2) zerofill", "1.5", "1.5"),
    ("float", "0.1", "0.1"),
    ("float", "16777216", "16777216"),
    ("float", "16777215", "16777215"),
    ("float", "3.4028234e38", "3.4028235e+38"),
    ("float", "1e-45", "1e-45"),
    ("float", "-1.1754944e-38", "-1.1754944e-38"),
    ("float(7,4)", "999.9", "999.9"),
    ("float(7,4) zerofill", "1.5", "1.5"),
    # bits: one is a boolean, several are text
    ("bit(1)", "b'1'", "true"),
    ("bit(1)", "b'0'", "false"),
    ("bit(8)", "b'101'", '"00000101"'),
    ("bit(64)", "~0", f'"{"1" * 64}"'),
    # text of every character set, never base64
    ("varchar(20)", "''", '""'),
    ("varchar(20)", "'NULL'", '"NULL"'),
    ("varchar(20)", "'{\"a\": 1}'", '"{\\"a\\": 1}"'),
    ("varchar(20)", "'ab  '", '"ab  "'),
    ("char(5)", "'ab  '", '"ab"'),
    ("varchar(20)", r"X'61225C0A090D080C01001F7F2F'", r'"a\"\\\n\t\r\b\f\u0001\u0000\u001F' + '\x7f/"'),
    ("text", "'Größe 🎉 \u2028'", '"Größe 🎉 \u2028"'),
    ("tinytext", "'it''s'", '"it\'s"'),
    ("mediumtext", "repeat('ä', 70000)", '"' + "ä" * 70000 + '"'),
    ("longtext", "repeat('\"', 9000000)", '"' + r"\"" * 9_000_000 + '"'),
    (UTF8MB3, "'Größe'", '"Größe"'),
    (LATIN1, "'Größe €'", '"Größe €"'),
    (SJIS, "'日本\\'", '"日本\\\\"'),
    # halves of surrogate pairs, which MariaDB takes for characters
    ("varchar(20)", "_utf8mb4 X'61EDA0BC62'", r'"a\ud83cb"'),
    (UTF8MB3, "_utf8mb3 X'EDBE895C'", r'"\udf89\\"'),
    ("varchar(20) CHARACTER SET ucs2", "_ucs2 X'D83CDF89'", r'"\ud83c\udf89"'),
    ("varchar(20) CHARACTER SET utf32", "_utf32 X'0000D83C'", r'"\ud83c"'),
    ("json", "_utf8mb4 X'5B22EDA0BC222C312E5D'", r'"[\"\ud83c\",1.]"'),
    ("json", "_utf8mb4 X'5B22EDA0BC225D'", r'["\ud83c"]'),
    ("varchar(20)", "'각힣'", '"각힣"'),
    ("varchar(20) CHARACTER SET utf16", "'🎉'", '"🎉"'),
    ("varchar(20) COLLATE utf8mb4_bin", "'b'", '"b"'),
    ("enum('so \"so\"','fine')", "'so \"so\"'", '"so \\"so\\""'),
    ("enum('ä') CHARACTER SET latin1", "'ä'", '"ä"'),
    ("set('a','b','c')", "'c,a'", '"a,c"'),
    ("set('a')", "''", '""'),
    ("inet4", "'10.0.0.1'", '"10.0.0.1"'),
    ("inet6", "'::1'", '"::1"'),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
    # dates and times: the server's text, in ISO's form where there is one
    ("date", "'2026-01-31'", '"2026-01-31"'),
    ("date", "'0000-00-00'", '"0000-00-00"'),
    ("date", "'2026-00-10'", '"2026-00-10"'),
    ("date", "'9999-12-31'", '"9999-12-31"'),
    ("time", "'08:30'", '"08:30:00"'),
    ("time", "'838:59:59'", '"838:59:59"'),
    ("time(6)", "'-838:59:58.999999'", '"-838:59:58.999999"'),
    ("time(3)", "'-00:00:00.5'", '"-00:00:00.500"'),
    ("datetime", "'2026-01-31 08:30:00'", '"2026-01-31T08:30:00"'),
    ("datetime(6)", "'2026-01-31 08:30:00.000001'", '"2026-01-31T08:30:00.000001"'),
    ("datetime(2)", "'2026-01-31 08:30:00.1'", '"2026-01-31T08:30:00.10"'),
    ("datetime", "'0000-00-00 00:00:00'", '"0000-00-00 00:00:00"'),
    ("datetime(1)", "'2026-00-10 01:02:03'", '"2026-00-10 01:02:03.0"'),
    ("datetime", "'2026-10-00 01:02:03'", '"2026-10-00 01:02:03"'),
    ("timestamp", "'2026-01-31 08:30:00'", '"2026-01-31T08:30:00Z"'),
    ("timestamp(6)", "'2038-01-19 03:14:07.999999'", '"2038-01-19T03:14:07.999999Z"'),
    ("timestamp", "'1970-01-01 00:00:01'", '"1970-01-01T00:00:01Z"'),
    ("timestamp", "'0000-00-00 00:00:00'", '"0000-00-00 00:00:00"'),
    # json as it is
    ("json", '\'{"a" : 12345678901234567890.1230}\'', '{"a" : 12345678901234567890.1230}'),
    ("json", '\'{"a":1, "a": [1e400,null]}\'', '{"a":1, "a": [1e400,null]}'),
    ("json", """'[1,\n"a\\u0000b"]'""", '[1,\n"a\\u0000b"]'),
    ("json", "'null'", "null"),
    ("json", "'\"ä🎉\"'", '"ä🎉"'),
    ("json", "'" + "9" * 4000 + "'", "9" * 4000),
    # what MariaDB alone takes for JSON
    ("json", "'{\"a\": 1.}'", '"{\\"a\\": 1.}"'),
    ("json", r"""'"\x"'""", r'"\"\\x\""'),
    # bytes
    ("binary(3)", "X'00ff'", '"AP8A"'),
    ("varbinary(20)", "''", '""'),
    ("varbinary(20)", "'{\"a\":1}'", '"eyJhIjoxfQ=="'),
    ("tinyblob", "X'00ff10'", '"AP8Q"'),
    ("blob", "repeat(X'00', 100)", '"' + "A" * 134 + '=="'),
    ("mediumblob", "repeat('a', 300)", '"' + "YWFh" * 100 + '"'),
    ("longblob", "repeat('a', 300000)", '"' + "YWFh" * 100_000 + '"'),
    ("point", "ST_GeomFromText('POINT(1 2)')", '"AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA=="'),
    ("geometry", "ST_GeomFromText('POINT(1 2)', 4326)", '"5hAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA=="'),
]  # fmt: skip

DECLARED = sorted({declared for declared, _, _ in VALUES})
LOOSE = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ALLOW_INVALID_DATES', time_zone = '+00:00'"
"""As servers were before they became strict: such values are in many databases."""


@pytest.fixture(scope="session")
def values(sources: Callable[[str], Source]) -> Source:
    """One table: a column for each value, and a column of NULL for each type."""
    source = sources("mysql")
    source.run(LOOSE)
    given = [f"v{at} {declared} NULL" for at, (declared, _, _) in enumerate(VALUES)]
    nulls = [f"n{at} {declared} NULL" for at, declared in enumerate(DECLARED)]
    source.run(f"CREATE TABLE types ({', '.join([*given, *nulls])}) ROW_FORMAT = DYNAMIC")
    named, literals = ", ".join(f"v{at}" for at in range(len(VALUES))), ", ".join(value for _, value, _ in VALUES)
    source.run(f"INSERT INTO types ({named}) VALUES ({literals})")
    return source


@pytest.fixture(scope="module")
def session(values: Source) -> Iterator[Session]:
    with engine("mysql").connect(values.to, values.secret, seconds=60, application="values") as opened:
        yield opened


@pytest.fixture(scope="module")
def table(session: Session) -> Table:
    return session.discover(()).tables["types",]


def json_of(session: Session, table: Table, name: str) -> str:
    """Read one column and cut its JSON text out of the row's object, untouched."""
    (page,) = session.read(Query("types", table.path, (_column(table, name),)), None)
    return page.body.decode().removeprefix(f'{{"{name}":').removesuffix("}")


def _column(table: Table, name: str) -> Column:
    found = table.column(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("at", "expected"), [pytest.param(at, v[2], id=f"{v[0]} {v[1][:40]}") for at, v in enumerate(VALUES)]
)
def test_a_value_is_exact(session: Session, table: Table, at: int, expected: str) -> None:
    """R-000-101, B-48, B-59."""
    text = json_of(session, table, f"v{at}")
    assert text == expected
    json.loads(text)


@pytest.mark.parametrize("at", range(len(DECLARED)), ids=DECLARED)
def test_null_of_any_type_is_null(session: Session, table: Table, at: int) -> None:
    assert json_of(session, table, f"n{at}") == "null"


def test_a_type_names_its_collation_and_json_is_recognised(table: Table) -> None:
    """A JSON column of MariaDB is a longtext with a check; a longtext without one is text."""
    assert _column(table, f"v{_at('json')}").encoding is Encoding.JSON
    assert _column(table, f"v{_at('longtext')}").encoding is Encoding.TEXT
    assert _column(table, f"v{_at(LATIN1)}").type == "varchar(20) collate latin1_swedish_ci"


def _at(declared: str) -> int:
    return next(at for at, value in enumerate(VALUES) if value[0] == declared)


def test_a_row_longer_than_the_servers_packets_is_a_limit_and_never_null(values: Source) -> None:
    """The server answers NULL, with a warning, when a function's result passes `max_allowed_packet`."""
    values.run("CREATE TABLE large (body longtext); INSERT INTO large VALUES (repeat(char(1), 6000000))")
    with engine("mysql").connect(values.to, values.secret, seconds=60, application="values") as session:
        table = session.discover(()).tables["large",]
        with pytest.raises(LimitError, match="max_allowed_packet"):
            list(session.read(Query("large", table.path, table.columns), None))


# --- both ways to read


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of the driver without the attributes that the fast reader needs."""

    def missing(_connection: object) -> None:
        raise AttributeError

    monkeypatch.setattr(wire, "_taken", missing)


def everything(source: Source, names: Sequence[str]) -> list[tuple[bytes, Position | None]]:
    pages = []
    with engine("mysql").connect(source.to, source.secret, seconds=60, application="readers") as session:
        tables = session.discover(()).tables
        for name in names:
            table = tables[name,]
            key = tuple(_column(table, part) for part in table.key)
            pages += [
                (page.body, page.position) for page in session.read(Query(name, (name,), table.columns, key), None)
            ]
    return pages


READ_TWICE = ("events", "pairs", "types", "empty", "keyless")


def test_both_readers_give_the_same_bytes(values: Source, request: pytest.FixtureRequest) -> None:
    """The fast one is only an optimisation."""
    fast = everything(values, READ_TWICE)
    request.getfixturevalue("plain")
    assert everything(values, READ_TWICE) == fast


@pytest.mark.usefixtures("plain")
def test_the_plain_reader_drops_a_read_and_says_that_a_row_is_too_large(values: Source) -> None:
    with engine("mysql").connect(values.to, values.secret, seconds=60, application="readers") as session:
        table = session.discover(()).tables["million",]
        assert next(iter(session.read(Query("million", table.path, table.columns), None))).rows
    values.run("CREATE OR REPLACE TABLE large2 (b longtext); INSERT INTO large2 VALUES (repeat(char(1), 6000000))")
    with engine("mysql").connect(values.to, values.secret, seconds=60, application="readers") as session:
        table = session.discover(()).tables["large2",]
        with pytest.raises(LimitError):
            list(session.read(Query("large2", table.path, table.columns), None))


SAMPLES = """
CREATE TABLE samples AS SELECT seq AS id,
  CAST('1000-01-01' AS DATETIME(6)) + INTERVAL seq * 251 * 13 HOUR + INTERVAL seq * 777 MICROSECOND AS stamp,
  CAST('1000-01-01' AS DATE) + INTERVAL seq DAY AS day,
  exp(sin(seq) * 700) * sign(cos(seq)) AS number, CAST(sin(seq) * 1e9 AS DECIMAL(30,12)) AS digits,
  CONVERT(unhex(lpad(hex(32 + seq * 7), 8, '0')) USING utf32) AS word, unhex(md5(seq)) AS bytes
 FROM seq_1_to_4000;
ALTER TABLE samples ADD small float; UPDATE samples SET small = exp(sin(id) * 80)
"""


def test_thousands_of_values_agree_with_an_independent_query(values: Source) -> None:
    """The driver's own reading of each value, brought to JSON here, is what the engine delivered."""
    values.run(SAMPLES)
    delivered = b"[" + b",".join(body for body, _ in everything(values, ["samples"])) + b"]"
    columns = ("stamp", "day", "digits", "word")
    listed = ", ".join(f"CONCAT({name})" for name in columns)
    expected = values.run(f"SELECT {listed}, to_base64(bytes), CONCAT(number), small * 1e0 FROM samples ORDER BY id")
    rows = sorted(json.loads(delivered, parse_float=str), key=lambda row: int(row["id"]))
    for row, (*texts, digits, exact) in zip(rows, expected, strict=True):
        texts[0] = texts[0].replace(" ", "T")
        assert Decimal(row["number"]) == Decimal(digits), "the server's own shortest digits, however it writes them"
        assert [str(row[name]) for name in (*columns, "bytes")] == texts
        assert _single(row["small"]) == exact


def _single(text: str) -> float:
    number: float = unpack("<f", pack("<f", float(text)))[0]
    return number
