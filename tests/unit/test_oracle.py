"""The rules of Oracle's engine that need no server: names, comparisons, types, keys, and what an error means."""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import oracledb
import pytest
from oracledb import errors as driver

from fetcher.engines._oracle import catalog
from fetcher.engines._oracle.dialect import DIALECT
from fetcher.engines._oracle.errors import explained, refused
from fetcher.engines._oracle.names import Owners, owner
from fetcher.engines._oracle.types import READABLE, TYPES, declared, encoding, kind, width
from fetcher.engines._sql import Where
from fetcher.errors import (
    FetcherError,
    InvalidRequestError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)
from fetcher.model import Catalog, Column, Connection, Encoding, Operator, Position, Table, TypedCondition

NAMING = Owners()
SCOTT = Connection("o", "oracle", "h", 1521, "d", "scott")


def column(name: str, declared_as: str, *, nullable: bool = True) -> Column:
    return Column(name, declared_as, encoding(declared_as), nullable)


def found(*paths: tuple[str, str]) -> Catalog:
    return Catalog({path: Table(path, ()) for path in paths})


# --- names


@pytest.mark.parametrize(
    ("user", "schema", "wanted"),
    [
        ("scott", None, "SCOTT"),
        ('"scott"', None, "scott"),
        ("app[scott]", None, "SCOTT"),
        ("scott", "hr", "hr"),
        ('"', None, '"'),
    ],
)
def test_the_owner_of_unqualified_names(user: str, schema: str | None, wanted: str) -> None:
    assert owner(Connection("o", "oracle", "h", 1521, "d", user, schema)) == wanted


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["EMP"], ("SCOTT",)),
        (["scott.emp"], ("SCOTT", "scott")),
        (["EMP", "HR.JOBS"], ("HR", "SCOTT")),
        (["HR.a.b"], ("HR", "HR.A", "HR.a")),
    ],
)
def test_scope(names: Sequence[str], wanted: tuple[str, ...]) -> None:
    """B-17: the connecting owner comes in with every unqualified name, also beside qualified ones."""
    assert NAMING.scope(names, SCOTT) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("EMP", ("SCOTT", "EMP")),
        ("emp", ("SCOTT", "EMP")),
        ("SCOTT.EMP", ("SCOTT", "EMP")),
        ("scott.emp", ("SCOTT", "EMP")),
        ("MixedCase", ("SCOTT", "MixedCase")),
        ("mixedcase", None),
        ("exact", ("SCOTT", "exact")),
        ("EXACT", ("SCOTT", "EXACT")),
        ("hr.jobs", ("HR", "JOBS")),
        ("JOBS", None),
        ("SCOTT.a.b", ("SCOTT", "a.b")),
        ("a.b", ("SCOTT", "a.b")),
        ('EMP"', None),
        ("", None),
        (".", None),
    ],
)
def test_a_name_is_what_is_written_or_else_its_capitals(name: str, wanted: tuple[str, str] | None) -> None:
    """B-09, R-000-26, R-000-32: quoted names of mixed case are reached exactly."""
    names = ("EMP", "MixedCase", "exact", "EXACT", "a.b")
    offered = found(*(("SCOTT", each) for each in names), ("HR", "JOBS"))
    assert NAMING.resolve(name, offered, SCOTT) == wanted


def test_fields_are_found_like_tables() -> None:
    table = Table(("S", "T"), (column("ID", "NUMBER"), column("id", "DATE"), column("Name", "DATE")))
    names = [None if each is None else each.name for each in (NAMING.column(n, table) for n in ("id", "Id", "name"))]
    assert names == ["id", "ID", None]


# --- types and keys


@pytest.mark.parametrize(
    ("name", "precision", "scale", "by_character", "wanted"),
    [
        ("NUMBER", None, None, False, "NUMBER"),
        ("NUMBER", None, 0, False, "NUMBER(*,0)"),
        ("NUMBER", 12, 2, False, "NUMBER(12,2)"),
        ("NUMBER", 5, -2, False, "NUMBER(5,-2)"),
        ("FLOAT", 126, None, False, "FLOAT(126)"),
        ("VARCHAR2", None, None, True, "VARCHAR2(20 CHAR)"),
        ("CHAR", None, None, False, "CHAR(20 BYTE)"),
        ("NVARCHAR2", None, None, True, "NVARCHAR2(20)"),
        ("RAW", None, None, False, "RAW(20)"),
        ("TIMESTAMP(6) WITH TIME ZONE", None, 6, False, "TIMESTAMP(6) WITH TIME ZONE"),
    ],
)
def test_a_type_is_spelled_as_oracle_declares_it(
    name: str, precision: int | None, scale: int | None, by_character: bool, wanted: str
) -> None:
    assert declared(name, length=20, precision=precision, scale=scale, by_character=by_character) == wanted


def test_a_collation_is_part_of_the_type_but_not_of_its_kind() -> None:
    collated = column("c", "VARCHAR2(50 CHAR) COLLATE GERMAN_CI")
    assert kind(collated) == "VARCHAR2"
    assert width(collated) == 200


USABLE = "NUMBER(9,0)"


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        ({"P": USABLE, "U": USABLE}, ("P",)),
        ({"P": "BINARY_DOUBLE", "U": USABLE}, ("U",)),
        ({"P": "NVARCHAR2(9)", "U": "VARCHAR2(9 BYTE) COLLATE BINARY"}, ("U",)),
        ({"P": "VARCHAR2(9 BYTE) COLLATE BINARY_CI", "U": "ROWID"}, ()),
    ],
)
def test_the_usable_key_is_the_primary_one_or_else_a_unique_one(types: dict[str, str], wanted: tuple[str, ...]) -> None:
    columns = [column(name, each, nullable=False) for name, each in types.items()]
    keys = {("S", "T"): {("U", "a"): ["U"], ("P", "z"): ["P"]}}
    assert catalog._table(("S", "T"), columns, keys).key == wanted


def test_a_nullable_column_is_no_key() -> None:
    assert catalog._table(("S", "T"), [column("U", USABLE)], {("S", "T"): {("U", "a"): ["U"]}}).key == ()


# --- comparisons

NUMBER, DAY, ZONED = column("n", "NUMBER"), column("d", "DATE"), column("z", "TIMESTAMP(6) WITH TIME ZONE")
STAMP, TEXT, CLOB = column("s", "TIMESTAMP(9)"), column("t", "VARCHAR2(9 BYTE)"), column("l", "CLOB")
SINGLE, RAW, FLAG = column("f", "BINARY_FLOAT"), column("r", "RAW(9)"), column("b", "BOOLEAN")
SECONDS = "'SYYYY-MM-DD HH24:MI:SS'"
STAMPS = "'SYYYY-MM-DD HH24:MI:SS.FF9'"


def where(each: Column, operator: Operator, *values: Any) -> Where:
    return Where(DIALECT, [TypedCondition(each, operator, values)])


@pytest.mark.parametrize(
    ("condition", "sql", "bound"),
    [
        ((NUMBER, "gt", Decimal("1.5")), '"n" > :1', [Decimal("1.5")]),
        ((NUMBER, "in", 1, 2, None), '("n" IN (:1, :2) OR "n" IS NULL)', [1, 2]),
        ((SINGLE, "eq", Decimal("0.1")), '("f" = TO_BINARY_FLOAT(:1))', ["0.1"]),
        ((DAY, "lte", "2026-01-31T08:30:00"), f'"d" <= TO_DATE(:1, {SECONDS})', [" 2026-01-31 08:30:00"]),
        ((DAY, "lt", "2026-01-31T08:30:00.5"), f'"d" < TO_TIMESTAMP(:1, {STAMPS})', [" 2026-01-31 08:30:00.5"]),
        ((DAY, "lte", date(2026, 1, 31)), f'"d" < TO_DATE(:1, {SECONDS})', [" 2026-02-01 00:00:00"]),
        ((STAMP, "gt", date(2026, 1, 31)), f'"s" >= TO_TIMESTAMP(:1, {STAMPS})', [" 2026-02-01 00:00:00"]),
        (
            (ZONED, "gte", "2026-01-31T08:30:00.123456789Z"),
            f"\"z\" >= FROM_TZ(TO_TIMESTAMP(:1, {STAMPS}), '+00:00')",
            [" 2026-01-31 08:30:00.123456789"],
        ),
        ((TEXT, "eq", ""), '("t" = NVL(:1, CHR(0)))', [""]),
        ((TEXT, "nin", "", "a"), '("t" NOT IN (NVL(:1, CHR(0)), :2))', ["", "a"]),
        ((TEXT, "like", "a\\b\\%\\\\_"), "\"t\" LIKE :1 ESCAPE '\\'", ["ab\\%\\\\_"]),
        ((CLOB, "like", "a%"), "\"l\" LIKE :1 ESCAPE '\\'", ["a%"]),
        ((CLOB, "ne", None), '("l" IS NOT NULL)', []),
        ((RAW, "eq", b"\x00"), '("r" = :1)', [b"\x00"]),
        ((FLAG, "eq", True), '("b" = :1)', [True]),
    ],
)
def test_conditions(condition: tuple[Column, Operator, Any], sql: str, bound: list[Any]) -> None:
    """R-000-84..94: nothing but marks stands for a value."""
    each = where(*condition)
    assert each.sql == f" WHERE {sql}"
    assert each.values == bound


def test_a_list_of_over_a_thousand_values_is_split() -> None:
    """ORA-01795; none-of stays none-of."""
    some, none = where(NUMBER, "in", *range(2001)), where(NUMBER, "nin", *range(2001))
    assert some.sql.count(" IN (") == 3
    assert some.sql.count(" OR ") == 2
    assert none.sql.count(" AND ") == 2
    assert some.values == none.values == list(range(2001))


@pytest.mark.parametrize(
    ("each", "value"),
    [
        (NUMBER, Decimal(f"0.{'1' * 39}")),
        (NUMBER, 10**39 + 1),
        (NUMBER, Decimal("1E+126")),
        (SINGLE, Decimal("1E+400")),
        (STAMP, "secret value"),
        (STAMP, "2026-02-30T00:00:00"),
        (TEXT, "a\0b"),
        (TEXT, "ü" * 2001),
        (column("l", "CLOB"), "x"),
        (column("l", "LONG"), "x"),
        (column("l", "BLOB"), b"x"),
    ],
)
def test_a_value_that_oracle_would_change_or_not_compare_is_refused_and_not_shown(each: Column, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        where(each, "eq", value)
    assert str(value) not in str(caught.value)


def test_numbers_of_38_digits_of_any_size_are_bound_as_they_are() -> None:
    values = (int("9" * 38), 10**100, Decimal(f"1.{'1' * 37}E-50"))
    assert where(NUMBER, "in", *values).values == list(values)


@pytest.mark.parametrize(
    ("declared_as", "sql"),
    [
        ("NUMBER(9,0)", "TO_NUMBER(:1)"),
        ("DATE", f"TO_DATE(:1, {SECONDS})"),
        ("TIMESTAMP(6)", f"TO_TIMESTAMP(:1, {STAMPS})"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", f"FROM_TZ(TO_TIMESTAMP(:1, {STAMPS}), '+00:00')"),
        ("RAW(9)", "HEXTORAW(:1)"),
        ("CHAR(9 BYTE)", ":1"),
    ],
)
def test_positions(declared_as: str, sql: str) -> None:
    each = Where(DIALECT)
    each.after([column("k", declared_as)], Position(((declared_as, "x"),)))
    assert each.sql == f' WHERE "k" > {sql}'
    assert each.values == ["x"]


# --- errors


def raised(text: str, cause: BaseException | None = None) -> oracledb.Error:
    error = driver._Error(text)
    made: oracledb.Error = error.exc_type(error)
    made.__cause__ = cause
    return made


@pytest.mark.parametrize(
    ("code", "family"),
    [
        ("ORA-00942", InvalidRequestError),
        ("ORA-00904", InvalidRequestError),
        ("ORA-01722", InvalidRequestError),
        ("ORA-14551", InvalidRequestError),
        ("ORA-01456", InvalidRequestError),
        ("ORA-01861", InvalidRequestError),
        ("ORA-01031", RefusedError),
        ("ORA-01013", UnavailableError),
        ("ORA-01489", LimitError),
        ("DPY-4024", TimedOutError),
        ("ORA-02393", LimitError),
        ("ORA-02395", LimitError),
        ("ORA-01427", InvalidRequestError),
        ("ORA-04063", InvalidRequestError),
        ("ORA-04064", InvalidRequestError),
        ("ORA-04061", UnavailableError),
        ("ORA-04065", UnavailableError),
        ("ORA-04068", UnavailableError),
        ("ORA-20001", InvalidRequestError),
        ("ORA-00054", UnavailableError),
        ("ORA-00060", UnavailableError),
        ("ORA-08177", UnavailableError),
        ("ORA-01555", UnavailableError),
        ("ORA-03113", UnavailableError),
        ("ORA-03114", UnavailableError),
        ("ORA-12537", UnavailableError),
        ("ORA-00028", UnavailableError),
        ("ORA-00600", UnavailableError),
        ("ORA-12699", UnavailableError),
        ("DPY-4011", UnavailableError),
        ("DPY-2005", InvalidRequestError),
    ],
)
def test_what_an_error_in_a_session_means(code: str, family: type[FetcherError]) -> None:
    error = explained(raised(f"{code}: the server's words, with a secret"))
    assert type(error) is family
    assert code in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("code", "family"),
    [
        ("ORA-01017", RefusedError),
        ("ORA-28000", RefusedError),
        ("ORA-12154", RefusedError),
        ("ORA-12504", RefusedError),
        ("ORA-12514", UnavailableError),
        ("ORA-12505", UnavailableError),
        ("ORA-12521", UnavailableError),
        ("ORA-12541", UnavailableError),
        ("ORA-01033", UnavailableError),
        ("ORA-00018", UnavailableError),
        ("DPY-6005", UnavailableError),
        ("DPY-6001", UnavailableError),
        ("DPY-6003", UnavailableError),
        ("DPY-4026", RefusedError),
        ("DPY-3010", RefusedError),
    ],
)
def test_what_an_error_while_connecting_means(code: str, family: type[FetcherError]) -> None:
    assert type(refused(raised(f"{code}: words"))) is family


def test_the_reason_that_the_driver_carries_along_decides() -> None:
    wrapped = raised("DPY-6005: cannot connect", raised("ORA-01017: invalid"))
    assert isinstance(refused(wrapped), RefusedError)
    assert "ORA-01017" in str(refused(wrapped))


@pytest.mark.parametrize("error", [OSError("reset"), ValueError("odd"), oracledb.InterfaceError()])
def test_any_other_exception_is_a_broken_connection(error: Exception) -> None:
    """Whatever the driver lets out: an error never passes as an end of data."""
    assert isinstance(explained(error), UnavailableError)
    assert isinstance(refused(error), UnavailableError)


def test_text_that_is_no_unicode_is_the_callers() -> None:
    error = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
    assert isinstance(explained(error), InvalidRequestError)
    assert isinstance(refused(error), RefusedError)


def test_text_that_cannot_be_read_is_the_tables() -> None:
    """The driver lets Python's own error out of a text that is not valid in the database's character set."""
    error = explained(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
    assert type(error) is InvalidRequestError
    assert "a text of the table" in str(error)


def test_every_type_has_its_encoding_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "values.md").read_text().partition("## Oracle")[2]
    table = re.sub(r"\([^)]*\)", "", page)
    told = {
        name: cells[1].strip()
        for cells in (line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `"))
        for name in re.findall(r"`([^`]+)`", cells[0])
        if cells[1].strip() in set(Encoding)
    }
    assert set(told) - {"INTEGER"} == READABLE
    assert {name: told[name] for name in TYPES if name != "NUMBER"} == {
        name: str(each) for name, each in TYPES.items() if name != "NUMBER"
    }


def test_the_encoding_of_each_type() -> None:
    wanted = {
        "DATE": Encoding.TIMESTAMP,
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": Encoding.TIMESTAMP_UTC,
        "INTERVAL DAY(2) TO SECOND(6)": Encoding.INTERVAL,
        "LONG RAW": Encoding.BINARY,
        "UROWID": Encoding.TEXT,
        "JSON": Encoding.JSON,
    }
    assert {name: encoding(name) for name in wanted} == wanted
