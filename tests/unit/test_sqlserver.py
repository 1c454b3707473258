"""What SQL Server is told, and how its answers are read: asserted on the text, where the stand-in is not SQL Server."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
import sqlglot

from fetcher.engines._sql import Where
from fetcher.engines._sqlserver.address import connection_string
from fetcher.engines._sqlserver.catalog import _key
from fetcher.engines._sqlserver.dialect import DIALECT, key_text
from fetcher.engines._sqlserver.errors import explained, refused
from fetcher.engines._sqlserver.rows import Statement
from fetcher.engines._sqlserver.types import TYPES, declared, kind
from fetcher.engines._sqlserver.values import rendered
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError
from fetcher.model import Column, Connection, Encoding, Operator, Position, Query, Secret, TypedCondition

TO = Connection("source", "sqlserver", "db.example", 1433, "shop", "app")


def column(full: str, *, name: str = "c", nullable: bool = True) -> Column:
    return Column(name, full, TYPES.get(kind(Column(name, full, Encoding.TEXT)), Encoding.TEXT), nullable)


def where(of: Column, operator: Operator, *values: Any) -> tuple[str, list[Any]]:
    terms = Where(DIALECT, [TypedCondition(of, operator, values)])
    return terms.sql.removeprefix(" WHERE "), terms.values


# --- values


@pytest.mark.parametrize(
    ("full", "wanted"),
    [
        ("bigint", "ISNULL(CONVERT(varchar(20), [c]), 'null')"),
        ("decimal(38,10)", """ISNULL('"' + CONVERT(varchar(48), [c]) + '"', 'null')"""),
        ("money", """ISNULL('"' + CONVERT(varchar(40), [c], 2) + '"', 'null')"""),
        ("float", "ISNULL('\x01' + CONVERT(varchar(40), [c], 3) + '\x01', 'null')"),
        ("real", "ISNULL('\x02' + CONVERT(varchar(40), [c], 3) + '\x02', 'null')"),
        ("bit", "CASE [c] WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END"),
        ("time(7)", """ISNULL('"' + CONVERT(varchar(20), [c], 121) + '"', 'null')"""),
        ("datetime2(7)", """ISNULL('"' + STUFF(CONVERT(varchar(34), [c], 121), 11, 1, 'T') + '"', 'null')"""),
        (
            "datetimeoffset(7)",
            """ISNULL('"' + REPLACE(STUFF(CONVERT(varchar(40), SWITCHOFFSET([c], '+00:00'), 121), 11, 1, 'T'),"""
            """ ' +00:00', 'Z') + '"', 'null')""",
        ),
        ("uniqueidentifier", """ISNULL('"' + LOWER(CONVERT(char(36), [c])) + '"', 'null')"""),
        ("timestamp", "ISNULL('\x03' + CONVERT(varchar(max), CONVERT(varbinary(max), [c]), 2) + '\x03', 'null')"),
        ("json", "ISNULL(CONVERT(nvarchar(max), [c]), 'null')"),
    ],
)
def test_each_type_is_rendered_by_an_exact_expression(full: str, wanted: str) -> None:
    """Design §7.2: styles that keep every digit, whatever the session's settings."""
    assert rendered(column(full), "[c]") == wanted


@pytest.mark.parametrize(
    ("full", "wanted"),
    [
        ("xml", "CONVERT(nvarchar(max), [c])"),
        ("varchar(10) collate Greek_CI_AS", "CONVERT(nvarchar(max), [c])"),
        ("hierarchyid (clr)", "[c].ToString()"),
        ("geography (clr)", "[c].ToString()"),
        ("sql_variant", "SQL_VARIANT_PROPERTY([c], 'BaseType')"),
    ],
)
def test_what_has_no_encoding_of_its_own_is_escaped_text(full: str, wanted: str) -> None:
    sql = rendered(column(full), "[c]")
    assert wanted in sql
    assert "STRING_ESCAPE(" in sql
    assert " COLLATE Latin1_General_100_BIN2, 'json')" in sql


@pytest.mark.parametrize(
    "full", ["bigint", "float", "datetimeoffset(7)", "varbinary(max)", "xml", "sql_variant", "bit"]
)
def test_every_expression_is_t_sql(full: str) -> None:
    assert sqlglot.parse_one(f"SELECT {rendered(column(full), '[c]')} FROM [t]", read="tsql")


# --- types and keys


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (("nvarchar", 100, 0, 0, "X_CI"), "nvarchar(50) collate X_CI"),
        (("varchar", -1, 0, 0, "X_CI"), "varchar(max) collate X_CI"),
        (("decimal", 17, 38, 10, None), "decimal(38,10)"),
        (("datetime2", 8, 27, 7, None), "datetime2(7)"),
        (("uniqueidentifier", 16, 0, 0, None), "uniqueidentifier"),
    ],
)
def test_a_type_is_named_as_it_was_declared(facts: tuple[Any, ...], wanted: str) -> None:
    assert declared(*facts, is_class=False) == wanted


@pytest.mark.parametrize(
    ("full", "usable"),
    [("bigint", True), ("uniqueidentifier", True), ("nvarchar(20) collate X", True), ("hierarchyid (clr)", True),
     ("float", False), ("real", False), ("sql_variant", False), ("geography (clr)", False)],
)  # fmt: skip
def test_only_types_with_an_exact_order_are_keys(full: str, usable: bool) -> None:
    """Design §8: binary floats are refused as keys."""
    assert _key([column(full, nullable=False)], {(False, 1): ["c"]}) == (("c",) if usable else ())


def test_the_primary_key_comes_first_and_then_the_shortest() -> None:
    columns = [column("int", name=name, nullable=False) for name in "abc"]
    assert _key(columns, {(True, 2): ["c"], (False, 3): ["a", "b"]}) == ("a", "b")
    assert _key(columns, {(True, 2): ["a", "b"], (True, 3): ["c"]}) == ("c",)
    assert _key(columns, {(True, 2): ["a", "x"]}) == ()


@pytest.mark.parametrize(
    ("full", "text", "compared"),
    [
        ("bigint", "CONVERT(nvarchar(4000), CONVERT(varchar(20), [c]))", "CONVERT(bigint, ?)"),
        ("datetime", "CONVERT(nvarchar(4000), CONVERT(varchar(34), [c], 121))", "CONVERT(datetime, ?, 121)"),
        ("datetimeoffset(7)", "CONVERT(nvarchar(40), [c], 121)", "CONVERT(datetimeoffset(7), ?, 121)"),
        ("money", "CONVERT(nvarchar(4000), CONVERT(varchar(40), [c], 2))", "CONVERT(money, ?)"),
        ("decimal(38,4)", "CONVERT(nvarchar(4000), CONVERT(varchar(48), [c]))", "CONVERT(decimal(38,4), ?)"),
        (
            "varchar(9) collate X_CI",
            "CONVERT(nvarchar(4000), CONVERT(nvarchar(max), [c]))",
            "CONVERT(varchar(8000), ? COLLATE X_CI)",
        ),
        ("hierarchyid (clr)", "[c].ToString()", "CONVERT(hierarchyid, ?)"),
    ],
)
def test_a_position_comes_back_in_the_type_of_its_column(full: str, text: str, compared: str) -> None:
    """The database orders: also uniqueidentifier, and each collation, as only it does."""
    key = column(full)
    assert key_text(key, "[c]") == text
    assert DIALECT.key("?", key) == compared


def test_a_composite_position_is_spelled_out() -> None:
    """T-SQL has no comparison of rows."""
    key = (column("int", name="a"), column("int", name="b"))
    statement = Statement(Query("t", ("dbo", "t"), key, key), Position((("int", "1"), ("int", "2"))))
    assert statement.sql.endswith(
        " WHERE (([a] > CONVERT(bigint, ?)) OR ([a] = CONVERT(bigint, ?) AND [b] > CONVERT(bigint, ?)))"
        " ORDER BY [a], [b]"
    )
    assert statement.values == ["1", "1", "2"]


# --- filters


@pytest.mark.parametrize(
    ("full", "operator", "values", "wanted", "bound"),
    [
        ("int", "eq", (7,), "([c] = CONVERT(bigint, ?))", ["7"]),
        ("int", "gt", (Decimal("1.50"),), "[c] > CONVERT(decimal(2,1), ?)", ["1.5"]),
        ("int", "lt", (2**70,), "[c] < CONVERT(decimal(22,0), ?)", [str(2**70)]),
        ("int", "in", (1, 2), "([c] = ANY (SELECT CONVERT(bigint, [value]) FROM OPENJSON(?)))", ['["1", "2"]']),
        ("int", "nin", (1, 2), "([c] <> ALL (SELECT CONVERT(bigint, [value]) FROM OPENJSON(?)))", ['["1", "2"]']),
        ("real", "eq", (Decimal("0.1"),), "([c] = CONVERT(real, ?))", ["0.1"]),
        ("datetime", "gte", ("2026-01-01T00:00:00.5",), "[c] >= CONVERT(datetime, ?, 126)", ["2026-01-01T00:00:00.5"]),
        ("datetime", "gt", ("2026-01-01T00:00:00.001",), "[c] > CONVERT(datetime2(7), ?, 126)",
         ["2026-01-01T00:00:00.001"]),
        ("datetime2(7)", "lte", (date(2026, 1, 31),), "[c] < CONVERT(datetime2(7), ?, 126)", ["2026-02-01T00:00:00"]),
        ("datetimeoffset(0)", "gte", (date(2026, 1, 1),), "[c] >= CONVERT(datetimeoffset(7), ?, 127)",
         ["2026-01-01T00:00:00Z"]),
        ("varchar(9) collate X", "eq", ("a",), "([c] = CONVERT(varchar(8000), ? COLLATE X))", ["a"]),
        ("varchar(9) collate X", "eq", ("ā",), "([c] = ? COLLATE X)", ["ā"]),
        ("nvarchar(9) collate X", "in", ("a", "b"), "([c] = ANY (SELECT [value] COLLATE X FROM OPENJSON(?)))",
         ['["a", "b"]']),
        ("text collate X", "eq", ("ā",), "(CONVERT(nvarchar(max), [c]) = ? COLLATE X)", ["ā"]),
        ("varbinary(9)", "eq", (b"\xff",), "([c] = CONVERT(varbinary(max), ?, 2))", ["ff"]),
        ("nvarchar(9) collate X", "like", ("a[1]\\%\\[%",), "[c] LIKE ? ESCAPE '\\'", ["a\\[1]\\%\\[%"]),
        ("hierarchyid (clr)", "eq", ("/1/",), "([c].ToString() = ?)", ["/1/"]),
    ],
)  # fmt: skip
def test_filters_are_bound_in_the_type_of_their_column(
    full: str, operator: Operator, values: tuple[Any, ...], wanted: str, bound: list[str]
) -> None:
    """R-000-84..94."""
    assert where(column(full), operator, *values) == (wanted, bound)


@pytest.mark.parametrize(
    ("full", "value"),
    [("int", 10**38), ("nvarchar(9) collate X", "a\0b"), ("datetime2(7)", "soon"), ("time(7)", "-26:00:00"),
     ("datetime2(7)", "2026-01-01T00:00:00.12345678")],
)  # fmt: skip
def test_a_value_that_would_be_cut_is_refused(full: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError):
        where(column(full), "eq", value)


def test_more_parameters_than_the_server_takes_are_refused_with_the_limit() -> None:
    """Design §7.3."""
    conditions = tuple(TypedCondition(column("int"), "eq", (number,)) for number in range(2_100))
    with pytest.raises(LimitError, match="2099"):
        Statement(Query("t", ("dbo", "t"), (column("int"),), (), conditions), None)


# --- the address


def test_what_a_part_holds_stays_inside_its_braces() -> None:
    """R-000-96: every printable character, also those that end a value."""
    text = connection_string(TO, Secret("a};Trusted_Connection=yes;{b}"), "x" * 200)
    assert "PWD={a}};Trusted_Connection=yes;{b}}}" in text
    assert f"APP={{{'x' * 128}}}" in text
    assert "ConnectRetryCount={0}" in text


@pytest.mark.parametrize(
    ("mode", "wanted"), [(None, "no"), ("disable", "no"), ("false", "no"), ("true", "yes"), ("strict", "strict")]
)
def test_tls_modes_do_what_they_say(mode: str | None, wanted: str) -> None:
    """R-000-100; B-33: `true` verifies, and `false` does not encrypt."""
    to = Connection("s", "sqlserver", "db.example", 1433, "shop", "app", tls_mode=mode, address="10.0.0.7")
    text = connection_string(to, Secret("x"), "app")
    assert f"Encrypt={{{wanted}}};" in text
    assert "SERVER={tcp:10.0.0.7,1433}" in text
    assert "HostnameInCertificate={db.example}" in text
    assert "TrustServerCertificate={no}" in text


@pytest.mark.parametrize("secret", [Secret("x", tls_certificate="pem"), Secret("x\0y")])
def test_what_cannot_be_used_is_refused(secret: Secret) -> None:
    with pytest.raises(InvalidRequestError):
        connection_string(TO, secret, "app")


# --- errors


class Error(Exception):
    """Looks like pyodbc's."""


Error.__module__ = "pyodbc"


@pytest.mark.parametrize(
    ("state", "number", "family"),
    [
        ("28000", 18456, RefusedError),
        ("42000", 4060, UnavailableError),
        ("42000", 229, RefusedError),
        ("40001", 1205, UnavailableError),
        ("HY000", 40197, UnavailableError),
        ("HY000", 40501, UnavailableError),
        ("HY000", 40613, UnavailableError),
        ("HY000", 49920, UnavailableError),
        ("42000", 3961, UnavailableError),
        ("21000", 512, InvalidRequestError),
        ("08S01", 0, UnavailableError),
        ("08001", 0, UnavailableError),
        ("HYT00", 0, UnavailableError),
        ("42S22", 207, InvalidRequestError),
        ("42S02", 208, InvalidRequestError),
        ("22007", 241, InvalidRequestError),
        ("42000", 8003, LimitError),
        ("HY000", 99999, UnavailableError),
    ],
)
def test_errors_are_told_apart_by_their_numbers(state: str, number: int, family: type[FetcherError]) -> None:
    """R-000-96; the server's words are never passed on."""
    error = explained(Error(state, f"[{state}] [Microsoft][SQL Server]the secret words ({number}) (SQLExecDirectW)"))
    assert type(error) is family
    assert "secret" not in str(error)


TRANSIENT = (3948, 3953, 3954, 3956, 3957, 3958, 3967, 41301, 41302, 41305, 41325, 41839)
SHORT = (1101, 1104, 8642, 10936, 17189, 49977)
AWAY = (3955, 9001, 17142, 17187, 17188, 40143, 40166, 42108, 42109)


@pytest.mark.parametrize("number", [*TRANSIENT, *SHORT, *AWAY])
@pytest.mark.parametrize("translate", [explained, refused])
def test_what_passes_is_tried_again(number: int, translate: Callable[[Exception], FetcherError]) -> None:
    """R-002-15: the driver gives any of them the SQLSTATE of a syntax error."""
    error = translate(Error("42000", f"[42000] [Microsoft][ODBC][SQL Server]Words. ({number}) (SQLDriverConnect)"))
    assert type(error) is UnavailableError
    assert str(number) in str(error)


@pytest.mark.parametrize(("number", "says"), [(3952, "ALLOW_SNAPSHOT_ISOLATION"), (41332, "memory-optimized")])
def test_what_no_snapshot_can_ever_read_says_so(number: int, says: str) -> None:
    error = explained(Error("42000", f"[42000] [Microsoft][ODBC][SQL Server]Words. ({number}) (SQLExecDirectW)"))
    assert type(error) is InvalidRequestError
    assert says in str(error)


def test_a_number_that_is_not_listed_is_no_mistake_of_a_request_that_was_not_sent_yet() -> None:
    """While connecting no statement can be wrong; in a session it may be."""
    error = Error("42000", "[42000] [Microsoft][ODBC][SQL Server]Words. (99999) (SQLDriverConnect)")
    assert type(refused(error)) is UnavailableError
    assert type(explained(error)) is InvalidRequestError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Conversion failed when converting the varchar value '(1205)' to data type int. (245) (SQLFetch)", 245),
        ("Conversion failed: '(1205) (SQLFetch) ' is no int. (245) (SQLFetch)", 245),
        ("Invalid object name 'a (229)'. (208) (SQLExecDirectW)", 208),
        ("No. (99999) (SQLFetch); [42000] [Microsoft][SQL Server]Yes (1205) here. (229)", 229),
        ("Cannot open database. (4060) (SQLDriverConnect); [28000] [Microsoft][SQL Server]Login failed. (18456)", 4060),
    ],
)
def test_a_number_in_the_words_is_not_the_errors(text: str, number: int) -> None:
    """The words hold values and names: what stands there decides nothing."""
    assert f"({number})" in str(explained(Error("42000", f"[42000] [Microsoft][ODBC][SQL Server]{text}")))


def test_text_that_is_not_valid_is_the_tables_or_the_requests() -> None:
    """Read from the table it cannot be decoded; taken from the request it cannot be encoded."""
    assert "table" in str(explained(UnicodeDecodeError("utf-16-le", b"\0", 0, 1, "x")))
    assert "request" in str(explained(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x")))
    assert type(explained(UnicodeDecodeError("utf-16-le", b"\0", 0, 1, "x"))) is InvalidRequestError


def test_an_error_of_another_class_is_a_broken_wire() -> None:
    assert isinstance(explained(ValueError("x")), UnavailableError)
    assert isinstance(refused(OSError("x")), UnavailableError)
    assert isinstance(explained(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x")), InvalidRequestError)


def test_a_certificate_that_is_not_accepted_is_refused() -> None:
    text = "[08001] [Microsoft][ODBC Driver 18]SSL Provider: certificate verify failed:self-signed certificate (-1)"
    assert isinstance(refused(Error("08001", text)), RefusedError)
    text = "[08001] [Microsoft][ODBC Driver 18]Encryption not supported on SQL Server. (20)"
    assert isinstance(refused(Error("08001", text)), RefusedError)


def test_an_answer_that_is_no_tls_is_a_broken_wires() -> None:
    """R-002-59: the driver has a code for bytes that it could not read."""
    text = "[08001] [Microsoft][ODBC Driver 18]SSL Provider: Error code 0x80090308 (-2146893048)"
    assert isinstance(refused(Error("08001", text)), UnavailableError)
