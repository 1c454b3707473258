"""Every type of PostgreSQL as JSON (`design.md` §7.2, R-000-101): exact, and compared with other ways to ask."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fetcher.engines import engine
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Position, Query, Table, TypedCondition
from fetcher.ports import Session
from tests.contract.kinds import Source

TYPES = """
CREATE SCHEMA odd; CREATE EXTENSION citext SCHEMA odd; CREATE EXTENSION hstore SCHEMA odd;
CREATE TYPE odd.mood AS ENUM ('so "so"', 'fine');
CREATE DOMAIN odd.age AS smallint CHECK (VALUE > 0);
CREATE DOMAIN odd.older AS odd.age; CREATE DOMAIN odd.ages AS odd.older[];
CREATE DOMAIN odd.price AS numeric(6,2); CREATE DOMAIN odd.born AS timestamptz(3);
CREATE TYPE odd.point3 AS (x float8, y text, z odd.age);
CREATE TYPE odd.floats AS RANGE (subtype = float8);
CREATE FUNCTION odd.shown(odd.point3) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''not the text''';
CREATE CAST (odd.point3 AS text) WITH FUNCTION odd.shown(odd.point3);
"""

VALUES: Sequence[tuple[str, str, str]] = [
    # integers: numbers, exact
    ("smallint", "-32768", "-32768"),
    ("integer", "2147483647", "2147483647"),
    ("bigint", "9223372036854775807", "9223372036854775807"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("oid", "4294967295", "4294967295"),
    ("odd.age", "7", "7"),
    ("odd.older", "7", "7"),
    # decimals: strings with every digit, scale kept
    ("numeric", "12345678901234567890123456789012345678.90", '"12345678901234567890123456789012345678.90"'),
    ("numeric(12,2)", "1.1", '"1.10"'),
    ("numeric", "'NaN'", '"NaN"'),
    ("numeric", "'Infinity'", '"Infinity"'),
    ("numeric", "'-Infinity'", '"-Infinity"'),
    ("numeric", "1e-20", '"0.00000000000000000001"'),
    ("numeric(5,-2)", "12345", '"12300"'),
    ("odd.price", "3", '"3.00"'),
    ("money", "'-1234567.89'::numeric::money", '"-1234567.89"'),
    # floats: numbers, shortest round trip; what JSON has no number for is a string
    ("double precision", "0.1", "0.1"),
    ("double precision", "1.7976931348623157e308", "1.7976931348623157e+308"),
    ("double precision", "5e-324", "5e-324"),
    ("double precision", "'-0'", "-0"),
    ("double precision", "0.1 + 0.2::float8", "0.30000000000000004"),
    ("double precision", "'NaN'", '"NaN"'),
    ("double precision", "'Infinity'", '"Infinity"'),
    ("double precision", "'-Infinity'", '"-Infinity"'),
    ("real", "0.1", "0.1"),
    ("real", "16777216", "1.6777216e+07"),
    ("real", "3.4028235e38", "3.4028235e+38"),
    ("real", "'NaN'", '"NaN"'),
    ("boolean", "true", "true"),
    ("boolean", "false", "false"),
    # text and what is shown as its own text
    ("text", "''", '""'),
    ("text", "E'a\"b\\\\c\\n\\t\\r\\b\\f\\x01\\x1f\\x7f/'", '"a\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/"'),
    ("text", "'Größe 🎉 \u2028'", '"Größe 🎉 \u2028"'),
    ("text", "'NULL'", '"NULL"'),
    ("varchar(5)", "'ab  '", '"ab  "'),
    ("char(5)", "'ab'", '"ab   "'),
    ("name", "'ab'", '"ab"'),
    ('"char"', "'c'", '"c"'),
    ("odd.citext", "'MiXed'", '"MiXed"'),
    ("odd.hstore", "'a=>1, b=>NULL'", r'"\"a\"=>\"1\", \"b\"=>NULL"'),
    ("odd.mood", "'so \"so\"'", r'"so \"so\""'),
    ("odd.point3", "ROW('NaN', 'a \"b\"', 3)", r'"(NaN,\"a \"\"b\"\"\",3)"'),
    ("odd.point3", "ROW(NULL, NULL, NULL)", '"(,,)"'),
    ("inet", "'10.0.0.1'", '"10.0.0.1"'),
    ("inet", "'10.0.0.1/8'", '"10.0.0.1/8"'),
    ("cidr", "'::/0'", '"::/0"'),
    ("macaddr", "'08:00:2B:01:02:03'", '"08:00:2b:01:02:03"'),
    ("int4range", "'[1,5]'", '"[1,6)"'),
    ("numrange", "'empty'", '"empty"'),
    ("tstzrange", "'[2026-01-01 00:00:00Z,)'", r'"[\"2026-01-01 00:00:00+00\",)"'),
    ("int4multirange", "'{[1,2],[5,6]}'", '"{[1,3),[5,7)}"'),
    ("odd.floats", "'[0.1,NaN]'", '"[0.1,NaN]"'),
    ("bit(3)", "B'101'", '"101"'),
    ("bit varying", "B''", '""'),
    ("point", "'(0.1,2)'", '"(0.1,2)"'),
    ("tsvector", "'a b:2A'", "\"'a' 'b':2A\""),
    ("pg_lsn", "'16/B374D848'", '"16/B374D848"'),
    ("xid8", "'18446744073709551615'", '"18446744073709551615"'),
    ("jsonpath", "'$.a'", '"$.\\"a\\""'),
    ("regclass", "'pg_catalog.pg_class'", '"pg_class"'),
    # dates and times
    ("date", "'2026-01-31'", '"2026-01-31"'),
    ("date", "'infinity'", '"infinity"'),
    ("date", "'0044-03-15 BC'", '"0044-03-15 BC"'),
    ("date", "'12026-01-31'", '"12026-01-31"'),
    ("time", "'08:30'", '"08:30:00"'),
    ("time", "'24:00:00'", '"24:00:00"'),
    ("time(6)", "'00:00:00.000001'", '"00:00:00.000001"'),
    ("timetz", "'08:30:00.5+02:30'", '"08:30:00.5+02:30"'),
    ("timestamp", "'2026-01-31 08:30:00'", '"2026-01-31T08:30:00"'),
    ("timestamp", "'2026-01-31 08:30:00.120'", '"2026-01-31T08:30:00.12"'),
    ("timestamp", "'0001-01-01 00:00:00'", '"0001-01-01T00:00:00"'),
    ("timestamp", "'9999-12-31 23:59:59.999999'", '"9999-12-31T23:59:59.999999"'),
    ("timestamp", "'10000-01-01'", '"10000-01-01 00:00:00"'),
    ("timestamp", "'0044-03-15 12:00:00 BC'", '"0044-03-15 12:00:00 BC"'),
    ("timestamp", "'-infinity'", '"-infinity"'),
    ("timestamptz", "'2026-01-31 08:30:00+02'", '"2026-01-31T06:30:00Z"'),
    ("timestamptz", "'2026-01-31 08:30:00.000001-11'", '"2026-01-31T19:30:00.000001Z"'),
    ("timestamptz", "'0001-01-01 00:00:00Z'", '"0001-01-01T00:00:00Z"'),
    ("timestamptz", "'0001-12-31 23:59:59.999999Z BC'", '"0001-12-31 23:59:59.999999+00 BC"'),
    ("timestamptz", "'9999-12-31 23:59:59.999999Z'", '"9999-12-31T23:59:59.999999Z"'),
    ("timestamptz", "'10000-01-01 00:00:00Z'", '"10000-01-01 00:00:00+00"'),
    ("timestamptz", "'infinity'", '"infinity"'),
    ("odd.born", "'1900-01-01 00:00:00.1239Z'", '"1900-01-01T00:00:00.124Z"'),
    ("interval", "'1 year 2 mons -3 days 04:05:06.7'", '"1 year 2 mons -3 days +04:05:06.7"'),
    ("interval", "'0'", '"00:00:00"'),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
    # json as it is
    (
        "json",
        """'{"a" : 12345678901234567890.1230, "a": [1e400,null]}'""",
        '{"a" : 12345678901234567890.1230, "a": [1e400,null]}',
    ),
    ("json", "E'[1,\\n\\t\"a\\\\u0000b\"]'", '[1,\n\t"a\\u0000b"]'),
    ("json", "'null'", "null"),
    ("jsonb", '\'{"b": 1.500, "a": "ä\\\\n"}\'', '{"a": "ä\\\\n", "b": 1.500}'),
    ("jsonb", "'123456789012345678901234567890.10'", "123456789012345678901234567890.10"),
    # bytes
    ("bytea", "''", '""'),
    ("bytea", "'\\x00ff10'", '"AP8Q"'),
    ("bytea", "decode(repeat('00', 100), 'hex')", '"' + "A" * 134 + '=="'),
    # arrays of all of these
    ("integer[]", "'{1,NULL,-3}'", "[1,null,-3]"),
    ("integer[]", "'{}'", "[]"),
    ("integer[]", "'[0:1]={5,6}'", "[5,6]"),
    ("integer[][]", "'{{1,2},{3,NULL}}'", "[[1,2],[3,null]]"),
    ("oid[]", "'{4294967295}'", "[4294967295]"),
    ("odd.ages", "'{7,8}'", "[7,8]"),
    ("odd.price[]", "'{1,NULL}'", '["1.00",null]'),
    ("numeric[]", "'{1.10,NaN,-Infinity,NULL}'", '["1.10","NaN","-Infinity",null]'),
    ("money[]", "ARRAY['1.5'::numeric::money, NULL]", '["1.50",null]'),
    ("double precision[]", "'{0.1,NaN,Infinity,NULL,1e300}'", '[0.1,"NaN","Infinity",null,1e+300]'),
    ("boolean[]", "'{t,f,NULL}'", "[true,false,null]"),
    ("text[]", """'{"a \\"b\\" \\\\ c",NULL,"NULL",""}'""", r'["a \"b\" \\ c",null,"NULL",""]'),
    ("text[][]", "'{{a,b},{c,d}}'", '[["a","b"],["c","d"]]'),
    ("char(3)[]", "'{a,NULL}'", '["a  ",null]'),
    ("inet[]", "'{10.0.0.1,10.0.0.1/8}'", '["10.0.0.1","10.0.0.1/8"]'),
    ("odd.mood[]", "'{fine,NULL}'", '["fine",null]'),
    ("odd.citext[]", "'{Ab}'", '["Ab"]'),
    ("odd.point3[]", "ARRAY[ROW(1, NULL, 2)::odd.point3]", '["(1,,2)"]'),
    ("odd.hstore[]", "ARRAY['a=>1'::odd.hstore]", r'["\"a\"=>\"1\""]'),
    ("box[]", "'{(1,1),(0,0);(3,3),(2,2)}'", '["(1,1),(0,0)","(3,3),(2,2)"]'),
    ("int4range[]", """'{"[1,2)",NULL}'""", '["[1,2)",null]'),
    ("date[]", "'{2026-01-31,infinity,\"0044-03-15 BC\"}'", '["2026-01-31","infinity","0044-03-15 BC"]'),
    ("time[]", "'{24:00}'", '["24:00:00"]'),
    (
        "timestamp[]",
        "'{2026-01-31 08:30:00.5,infinity,NULL,10000-01-01,\"0044-03-15 BC\"}'",
        '["2026-01-31T08:30:00.5","infinity",null,"10000-01-01 00:00:00","0044-03-15 00:00:00 BC"]',
    ),
    (
        "timestamptz[][]",
        "'{{2026-01-31 08:30:00+02},{10000-01-01 00:00:00Z}}'",
        '[["2026-01-31T06:30:00Z"],["10000-01-01 00:00:00+00"]]',
    ),
    ("interval[]", "'{1 mon 3 days}'", '["1 mon 3 days"]'),
    ("uuid[]", "'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'", '["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]'),
    ("json[]", """ARRAY['{"a": 1.50}'::json, NULL, 'null']""", '[{"a": 1.50},null,null]'),
    ("jsonb[]", """ARRAY['{"a": 1.50}'::jsonb]""", '[{"a": 1.50}]'),
    (
        "bytea[]",
        "ARRAY[[decode('00ff10', 'hex'), NULL], ['', decode(repeat('00', 60), 'hex')]]",
        f'[["AP8Q",null],["","{"A" * 80}"]]',
    ),
    ("bytea[]", "'{}'", "[]"),
]

DECLARED = sorted({declared for declared, _, _ in VALUES} | {"xml"})  # this server is built without XML values
Raw = Callable[[str, str], bytes]


@pytest.fixture(scope="session")
def values(sources: Callable[[str], Source]) -> Source:
    """One table: a column for each value, and a column of NULL for each type."""
    source = sources("postgresql")
    source.run(TYPES)
    given = [f"({literal})::{declared} AS v{at}" for at, (declared, literal, _) in enumerate(VALUES)]
    nulls = [f"NULL::{declared} AS n{at}" for at, declared in enumerate(DECLARED)]
    source.run(f"CREATE TABLE odd.types AS SELECT {', '.join([*given, *nulls])}")
    return source


@pytest.fixture(scope="module")
def session(values: Source) -> Iterator[Session]:
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as opened:
        yield opened


@pytest.fixture(scope="module")
def table(session: Session) -> Table:
    return session.discover(["odd"]).tables["odd", "types"]


def json_of(session: Session, table: Table, name: str) -> str:
    """Read one column and cut its JSON text out of the row's object, untouched."""
    column = table.column(name)
    assert column is not None
    (page,) = session.read(Query("types", table.path, (column,)), None)
    return page.body.decode().removeprefix(f'{{"{name}":').removesuffix("}")


@pytest.mark.parametrize(
    ("at", "expected"), [pytest.param(at, v[2], id=f"{v[0]} {v[1]}") for at, v in enumerate(VALUES)]
)
def test_a_value_is_exact(session: Session, table: Table, at: int, expected: str) -> None:
    """R-000-101."""
    text = json_of(session, table, f"v{at}")
    assert text == expected
    json.loads(text)


@pytest.mark.parametrize("at", range(len(DECLARED)), ids=DECLARED)
def test_null_of_any_type_is_null(session: Session, table: Table, at: int) -> None:
    assert json_of(session, table, f"n{at}") == "null"


def test_a_row_of_every_value_is_one_json_object(session: Session, table: Table) -> None:
    """More columns than one call of the server's function takes, of every type."""
    (page,) = session.read(Query("types", table.path, table.columns), None)
    assert list(json.loads(page.body)) == [column.name for column in table.columns]


SAMPLES = """
CREATE TABLE odd.samples AS SELECT i AS id,
  timestamp '4713-01-01 00:00:00 BC' + i * interval '5 days 07:01:02.034567' AS stamp,
  timestamptz '4713-01-01 00:00:00Z BC' + i * interval '5 days 07:01:02.034567' AS moment,
  timestamp '2026-01-01' + i * interval '0.000777 s' AS fraction,
  date '4713-01-01 BC' + i * 5 AS day,
  exp(sin(i) * 700) * sign(cos(i)) AS number, (exp(sin(i) * 80) * sign(cos(i)))::real AS small,
  (sin(i) * 1e9)::numeric(30, 12) AS digits,
  (SELECT string_agg(chr(1 + (i * 7 + j * 131) % 55000), '') FROM generate_series(1, 9) j) AS words,
  decode(md5(i::text), 'hex') AS bytes
 FROM generate_series(1, 1000000, 251) i
"""


def _iso(text: str) -> str:
    """The rule of §7.2 in other words: years of four digits, and no other form of the text is touched."""
    return re.sub(r"^(\d{4}-\d\d-\d\d) ([\d:.]+)(\+00)?$", lambda m: f"{m[1]}T{m[2]}{'Z' if m[3] else ''}", text)


def test_thousands_of_values_agree_with_an_independent_query(values: Source) -> None:
    """The server's plain text of each value, brought to JSON here, is what the engine delivered."""
    values.run(SAMPLES)
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "samples"]
        pages = list(session.read(Query("samples", found.path, found.columns), None))
    delivered = json.loads(b"[" + b",".join(page.body for page in pages) + b"]", parse_float=str)
    columns = ("stamp", "moment", "fraction", "day", "number", "small", "digits", "words")
    values.run("SET timezone = 'UTC'")
    listed = ", ".join(f"{name}::text" for name in columns)
    expected = values.run(f"SELECT {listed}, encode(bytes, 'base64') FROM odd.samples")
    for row, texts in zip(delivered, expected, strict=True):
        assert [str(row[name]) for name in (*columns, "bytes")] == [*map(_iso, texts[:3]), *texts[3:]]


# --- keys and filters on types with rules of their own

KEYS: Sequence[tuple[str, Sequence[str]]] = [
    ("odd.citext", ["'B'", "'a'", "'C'", "'d'"]),
    ("numeric(20,4)", ["1.5", "'NaN'", "-7", "100000000000000.0001"]),
    ("timestamptz", ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'2026-01-31 00:00:00.000001'"]),
    ("timestamp(3)", ["'2026-01-31'", "'2026-01-30'", "'12026-01-30'"]),
    ("date", ["'infinity'", "'0001-01-01 BC'", "'2026-01-31'"]),
    ("uuid", ["md5('1')::uuid", "md5('2')::uuid", "md5('3')::uuid"]),
    ("char(4)", ["'b'", "'a'", "'ab'"]),
    ("varchar(3)", ["''", "'%s'", "E'\\n'"]),
    ("bytea", ["'\\x00'", "'\\xff'", "''"]),
    ("odd.mood", ["'fine'", "'so \"so\"'"]),
    ("odd.older", ["1", "2", "30"]),
    ("bit(3)", ["B'101'", "B'001'", "B'111'"]),
    ("boolean", ["true", "false"]),
    ("inet", ["'10.0.0.1'", "'9.0.0.1/8'", "'::1'"]),
    ("int4range", ["'[1,2)'", "'[0,9)'", "'empty'"]),
    ("integer[]", ["'{1,2}'", "'{1}'", "'{}'"]),
    ("jsonb", ["'{\"a\": 1.0}'", "'[]'", "'\"x\"'"]),
    ("interval", ["'1 mon'", "'29 days'", "'-1 year'"]),
    ("name", ["'b'", "'a'"]),
]


@pytest.mark.parametrize(("declared", "literals"), KEYS, ids=[declared for declared, _ in KEYS])
def test_a_position_of_any_type_round_trips(values: Source, declared: str, literals: Sequence[str]) -> None:
    """R-002-22: order and comparison are the database's own, and its text comes back as the same value."""
    values.run(f"DROP TABLE IF EXISTS odd.keyed; CREATE TABLE odd.keyed (k {declared} PRIMARY KEY, n int)")
    values.run(f"INSERT INTO odd.keyed VALUES {', '.join(f'({v}, {n})' for n, v in enumerate(literals))}")
    expected = [n for (n,) in values.run("SELECT n FROM odd.keyed ORDER BY k")]
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "keyed"]
        assert found.key == ("k",)
        query = Query("keyed", found.path, (_column(found, "n"),), (_column(found, "k"),), page_bytes=1)
        pages = list(session.read(query, None))
        assert [json.loads(page.body)["n"] for page in pages] == expected
        for done, page in enumerate(pages, 1):
            rest = [json.loads(later.body)["n"] for later in session.read(query, page.position)]
            assert rest == expected[done:]


def test_a_key_named_as_the_output_of_the_query_is_still_the_key(values: Source) -> None:
    """`ORDER BY concat` would order by the JSON text."""
    values.run("DROP TABLE IF EXISTS odd.named; CREATE TABLE odd.named (concat int PRIMARY KEY)")
    values.run("INSERT INTO odd.named VALUES (10), (9), (1)")
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "named"]
        (page,) = session.read(Query("named", found.path, found.columns, found.columns), None)
    assert page.body == b'{"concat":1},{"concat":9},{"concat":10}'


def test_a_large_row_among_small_ones_changes_nothing(values: Source) -> None:
    """Small rows are read in chunks, large ones singly; the change between them is not seen."""
    values.run("DROP TABLE IF EXISTS odd.mixed; CREATE TABLE odd.mixed (id int PRIMARY KEY, body text)")
    values.run(
        "INSERT INTO odd.mixed SELECT i, repeat('x', CASE WHEN i % 700 IN (0, 1) THEN 200000 ELSE i % 90 END)"
        " FROM generate_series(1, 1500) i"
    )
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "mixed"]
        query = Query("mixed", found.path, found.columns, found.columns[:1], page_bytes=3000)
        for _ in range(2):
            pages = list(session.read(query, None))
            delivered = [row for page in pages for row in json.loads(b"[" + page.body + b"]")]
            assert [(row["id"], len(row["body"])) for row in delivered] == [
                (i, 200_000 if i % 700 in {0, 1} else i % 90) for i in range(1, 1501)
            ]
            assert [page.position for page in pages][-1] == Position((("integer", "1500"),))


@pytest.mark.parametrize("keys", [0, 1])
def test_an_error_of_a_view_is_not_taken_for_a_large_row(values: Source, keys: int) -> None:
    """The server says 22012 for both; read again, row by row, the view says it again."""
    values.run("DROP TABLE IF EXISTS odd.zero CASCADE; CREATE TABLE odd.zero (id int PRIMARY KEY)")
    values.run("INSERT INTO odd.zero VALUES (1), (0); CREATE VIEW odd.divided AS SELECT id, 1 / id AS n FROM odd.zero")
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "divided"]
        with pytest.raises(InvalidRequestError, match="22012"):
            list(session.read(Query("divided", found.path, found.columns, found.columns[:keys]), None))


def _column(table: Table, name: str) -> Column:
    found = table.column(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "definition",
    [
        "(k float8 PRIMARY KEY)",
        "(k real[] PRIMARY KEY)",
        "(k money PRIMARY KEY)",
        "(k int UNIQUE)",
        "(k int NOT NULL UNIQUE DEFERRABLE)",
        "(k int PRIMARY KEY DEFERRABLE)",
        "(k int NOT NULL, EXCLUDE (k WITH =))",
        "(k int NOT NULL); CREATE UNIQUE INDEX ON odd.unkeyed (k) WHERE k > 0",
        "(k int NOT NULL); CREATE UNIQUE INDEX ON odd.unkeyed (abs(k))",
        '(k text NOT NULL); CREATE UNIQUE INDEX ON odd.unkeyed (k COLLATE "C")',
        "(k text NOT NULL); CREATE UNIQUE INDEX ON odd.unkeyed (k text_pattern_ops)",
        "(k int PRIMARY KEY); CREATE TABLE odd.heir () INHERITS (odd.unkeyed)",
        "(k int); ALTER TABLE odd.unkeyed ADD CONSTRAINT f NOT NULL k NOT VALID, ADD UNIQUE (k)",
    ],
)
def test_what_does_not_order_every_row_exactly_once_is_no_key(values: Source, definition: str) -> None:
    """R-002-20, R-002-21: nullable, partial, deferred, inherited and floating keys are none."""
    if "NOT VALID" in definition and int(values.run("SHOW server_version_num")[0][0]) < 180_000:
        pytest.skip("this server has no NOT NULL constraint that is not validated")
    values.run(f"DROP TABLE IF EXISTS odd.unkeyed CASCADE; CREATE TABLE odd.unkeyed {definition}")
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        assert session.discover(["odd"]).tables["odd", "unkeyed"].key == ()


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        ("(a int, b int NOT NULL, PRIMARY KEY (a), UNIQUE (b))", ("a",)),
        ("(a float8 PRIMARY KEY, b int NOT NULL UNIQUE)", ("b",)),
        ("(a int NOT NULL, b int NOT NULL, c int NOT NULL UNIQUE, UNIQUE (a, b))", ("c",)),
        ("(a int NOT NULL, b int NOT NULL, PRIMARY KEY (b, a))", ("b", "a")),
        ("(a int NOT NULL); CREATE UNIQUE INDEX ON odd.keyed2 (a) INCLUDE (a)", ("a",)),
        ("(a int PRIMARY KEY) PARTITION BY RANGE (a)", ("a",)),
    ],
)
def test_the_best_key_is_taken(values: Source, definition: str, key: tuple[str, ...]) -> None:
    """R-002-18: the primary key, or else the shortest unique index."""
    values.run(f"DROP TABLE IF EXISTS odd.keyed2; CREATE TABLE odd.keyed2 {definition}")
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        assert session.discover(["odd"]).tables["odd", "keyed2"].key == key


FILTERS: Sequence[tuple[str, str, str, Any, bool]] = [
    ("varchar(3)", "'abc'", "eq", ("abcdef",), False),
    ("numeric(4,1)", "1.0", "eq", ("1.04",), False),
    ("bit(3)", "B'101'", "eq", ("1011",), False),
    ("bit(3)", "B'101'", "in", ("101", "1"), True),
    ("char(3)", "'ab'", "eq", ("ab",), True),
    ("char(3)", "'ab'", "in", ("abcd", "x"), False),
    ("name", "repeat('x', 63)", "eq", ("x" * 64,), False),
    ('"char"', "'a'", "eq", ("ab",), False),
    ("timestamp(0)", "'2026-01-31 00:00:01'", "eq", ("2026-01-31T00:00:00.6",), False),
    ("real", "0.1", "eq", ("0.1",), True),
    ("double precision", "0.1", "in", ("0.1", "2"), True),
    ("money", "'1.50'::numeric::money", "eq", ("1.5",), True),
    ("money", "'1.50'::numeric::money", "eq", ("1.501",), False),
    ("odd.citext", "'MiXed'", "eq", ("mixed",), True),
    ("odd.citext", "'MiXed'", "like", ("mix%",), True),
    ("odd.mood", "'fine'", "in", ("fine", 'so "so"'), True),
    ("odd.mood", "'fine'", "like", ("f_n%",), True),
    ("odd.older", "7", "gt", (6,), True),
    ("uuid", "md5('1')::uuid", "eq", ("C4CA4238-A0B9-2382-0DCC-509A6F75849B",), True),
    ("bytea", "'\\x00ff'", "in", (b"\x00\xff", b"a"), True),
    ("integer[]", "'{1,2}'", "in", ("{1,2}", "{3}"), True),
    ("jsonb", "'{\"a\": 1}'", "eq", ('{"a":1.0}',), True),
    ("inet", "'10.0.0.1'", "eq", ("10.0.0.1",), True),
    ("text", "'paid'", "eq", ("paid",), True),
    ("text", "'42'", "eq", ("42",), True),
]


@pytest.mark.parametrize(("declared", "literal", "verb", "given", "matches"), FILTERS)
def test_a_filter_compares_in_the_columns_type_without_cutting_the_value(
    values: Source, declared: str, literal: str, verb: Any, given: Any, matches: bool
) -> None:
    """R-000-90, R-000-94: the discovered type decides, and no length or scale widens a filter."""
    values.run(
        f"DROP TABLE IF EXISTS odd.filtered; CREATE TABLE odd.filtered AS SELECT ({literal})::{declared} AS paid"
    )
    with engine("postgresql").connect(values.to, values.secret, seconds=60, application="values") as session:
        found = session.discover(["odd"]).tables["odd", "filtered"]
        condition = TypedCondition(found.columns[0], verb, given)
        pages = list(session.read(Query("filtered", found.path, found.columns, (), (condition,)), None))
    assert bool(pages) is matches
