"""Filter values against discovered types: what fits, what it becomes, and what never passes."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.filters import SETS, typed
from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError, Where
from fetcher.model import OPERATORS, Column, Condition, Encoding, Operator

WHERE = Where("pg", "public.t", "f")
ORDERED: tuple[Operator, ...] = ("gt", "gte", "lt", "lte", "between")


def read(encoding: Encoding, *values: Any, operator: Operator = "in") -> tuple[Any, ...]:
    column = Column("f", "whatever", encoding)
    return typed(column, Condition("f", operator, values), WHERE).values


def refused(encoding: Encoding, *values: Any, operator: Operator = "in") -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        read(encoding, *values, operator=operator)
    return caught.value


FITTING: list[tuple[Encoding, Any, Any]] = [
    (Encoding.INTEGER, 9007199254740993, 9007199254740993),
    (Encoding.INTEGER, "-9007199254740993", -9007199254740993),
    (Encoding.INTEGER, Decimal("3.00"), 3),
    (Encoding.INTEGER, Decimal("1e3"), 1000),
    (Encoding.INTEGER, Decimal("1.5"), Decimal("1.5")),
    (Encoding.DECIMAL, 7, 7),
    (Encoding.DECIMAL, Decimal("0.10"), Decimal("0.10")),
    (Encoding.DECIMAL, "-12345678901234567890.0100", Decimal("-12345678901234567890.0100")),
    (Encoding.FLOAT, "1.5E-3", Decimal("1.5E-3")),
    (Encoding.FLOAT, Decimal("0.1"), Decimal("0.1")),
    (Encoding.BOOLEAN, True, True),
    (Encoding.BOOLEAN, False, False),
    (Encoding.TEXT, "", ""),
    (Encoding.TEXT, "a%b", "a%b"),
    (Encoding.UUID, "019996B8-F3D1-7D2B-A192-6E91464D82FC", "019996b8-f3d1-7d2b-a192-6e91464d82fc"),
    (Encoding.UUID, "019996b8f3d17d2ba1926e91464d82fc", "019996b8-f3d1-7d2b-a192-6e91464d82fc"),
    (Encoding.DATE, "2024-02-29", "2024-02-29"),
    (Encoding.TIME, "08:30", "08:30"),
    (Encoding.TIME, "-838:59:59.000000", "-838:59:59.000000"),
    (Encoding.TIME, "08:30:00.123456789+02:00", "08:30:00.123456789+02:00"),
    (Encoding.TIMESTAMP, "2026-01-31", date(2026, 1, 31)),
    (Encoding.TIMESTAMP, "2026-01-31 08:30", "2026-01-31T08:30:00"),
    (Encoding.TIMESTAMP, "2026-01-31T23:59:59.9999999", "2026-01-31T23:59:59.9999999"),
    (Encoding.TIMESTAMP_UTC, "2026-01-31", date(2026, 1, 31)),
    (Encoding.TIMESTAMP_UTC, "2026-01-31T08:30:00", "2026-01-31T08:30:00Z"),
    (Encoding.TIMESTAMP_UTC, "2026-01-31T08:30:00.123456789Z", "2026-01-31T08:30:00.123456789Z"),
    (Encoding.TIMESTAMP_UTC, "2026-01-01T01:30:00.5+02:00", "2025-12-31T23:30:00.5Z"),
    (Encoding.TIMESTAMP_UTC, "2026-01-01 01:30-0330", "2026-01-01T05:00:00Z"),
    (Encoding.BINARY, "AAEC/w==", b"\x00\x01\x02\xff"),
    (Encoding.BINARY, "", b""),
    (Encoding.DOCUMENT, "1", "1"),
    (Encoding.DOCUMENT, 1, 1),
    (Encoding.DOCUMENT, Decimal("1.0"), Decimal("1.0")),
    (Encoding.DOCUMENT, True, True),
]


@pytest.mark.parametrize(("encoding", "value", "expected"), FITTING)
def test_a_value_that_fits_reaches_the_engine_in_one_form(encoding: Encoding, value: Any, expected: Any) -> None:
    """R-000-90."""
    (given,) = read(encoding, value)
    assert (given, type(given)) == (expected, type(expected))


NUMERIC = {Encoding.INTEGER, Encoding.DECIMAL, Encoding.FLOAT, Encoding.DOCUMENT}
TEXTUAL = {Encoding.TEXT, Encoding.BINARY, Encoding.DOCUMENT}
UNFITTING: list[tuple[Encoding, Any]] = [
    *((encoding, {"a": 1}) for encoding in Encoding),
    *((encoding, [1]) for encoding in Encoding),
    *((encoding, True) for encoding in Encoding if encoding not in {Encoding.BOOLEAN, Encoding.DOCUMENT}),
    *((encoding, 1) for encoding in Encoding if encoding not in NUMERIC),
    *((encoding, "text") for encoding in Encoding if encoding not in TEXTUAL),
    *((encoding, 0.5) for encoding in Encoding),
    (Encoding.INTEGER, "1.0"),
    (Encoding.INTEGER, " 1"),
    (Encoding.INTEGER, "1_000"),
    (Encoding.INTEGER, "١"),
    (Encoding.INTEGER, "9" * 1001),
    (Encoding.INTEGER, Decimal("NaN")),
    (Encoding.INTEGER, Decimal("1e999999")),
    (Encoding.DECIMAL, Decimal("Infinity")),
    (Encoding.DECIMAL, Decimal("1e-999999")),
    (Encoding.DECIMAL, "NaN"),
    (Encoding.DECIMAL, "1,5"),
    (Encoding.DECIMAL, "1e9999"),
    (Encoding.FLOAT, ""),
    (Encoding.BOOLEAN, "true"),
    (Encoding.UUID, "019996b8-f3d17d2b-a192-6e91464d82fc"),
    (Encoding.UUID, "{019996b8-f3d1-7d2b-a192-6e91464d82fc}"),
    (Encoding.DATE, "2026-02-29"),
    (Encoding.DATE, "20260131"),
    (Encoding.DATE, "2026-W05-6"),
    (Encoding.DATE, "2026-01-31T00:00:00"),
    (Encoding.TIME, "8:30"),
    (Encoding.TIME, "08:60"),
    (Encoding.TIMESTAMP, "2026-02-30"),
    (Encoding.TIMESTAMP, "2026-01-31T24:00"),
    (Encoding.TIMESTAMP, "2026-01-31T08:30:00Z"),
    (Encoding.TIMESTAMP, "2026-01-31T08:30:00+02:00"),
    (Encoding.TIMESTAMP, "2026-01-31T08:30.5"),
    (Encoding.TIMESTAMP_UTC, "2026-02-30"),
    (Encoding.TIMESTAMP_UTC, "2026-01-31T08:30:61Z"),
    (Encoding.TIMESTAMP_UTC, "2026-01-31T08:30:00+25:00"),
    (Encoding.TIMESTAMP_UTC, "0001-01-01T00:00:00+01:00"),
    (Encoding.TIMESTAMP_UTC, "now()"),
    (Encoding.BINARY, "AAE"),
    (Encoding.BINARY, "AA E="),
    (Encoding.BINARY, "ä"),
]


@pytest.mark.parametrize(("encoding", "value"), UNFITTING)
def test_a_value_that_does_not_fit_fails_safely_and_says_where(encoding: Encoding, value: Any) -> None:
    """R-000-20, R-000-82: the text is fixed and no cause quotes the value."""
    error = refused(encoding, value)
    assert (error.message, error.code, error.where) == (SCHEMA_VALIDATION, "FET-2010", WHERE)
    assert error.__cause__ is None
    assert error.__suppress_context__


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000), st.sampled_from(ORDERED))
def test_a_fraction_is_never_cut_off_an_integer_comparison(value: Decimal, operator: Operator) -> None:
    """B-25 of the reference: `> 1.5` must not become `> 1`."""
    values = (value, value) if operator == "between" else (value,)
    assert read(Encoding.INTEGER, *values, operator=operator) == values


@pytest.mark.parametrize("name", ["paid", "width", "paid_at", "uuid", "created_date", "account_id"])
def test_a_columns_name_says_nothing_about_its_type(name: str) -> None:
    """R-000-90, B-07: the discovered type decides."""
    for encoding, value in ((Encoding.TEXT, "abc"), (Encoding.INTEGER, 7), (Encoding.DECIMAL, Decimal("1.5"))):
        column = Column(name, "its type", encoding)
        assert typed(column, Condition(name, "eq", (value,)), WHERE).values == (value,)
    with pytest.raises(InvalidRequestError):
        typed(Column(name, "uuid", Encoding.UUID), Condition(name, "eq", ("abc",)), WHERE)


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("operator", OPERATORS)
def test_null_is_compared_for_equality_only(encoding: Encoding, operator: Operator) -> None:
    """R-000-93."""
    if operator in SETS:
        assert read(encoding, None, None, operator=operator) == (None, None)
    else:
        refused(encoding, None, None, operator=operator)


@pytest.mark.parametrize("encoding", Encoding)
def test_an_empty_list_fits_every_type(encoding: Encoding) -> None:
    assert read(encoding) == ()


@pytest.mark.parametrize("encoding", sorted(set(Encoding) - {Encoding.TEXT, Encoding.DOCUMENT}))
def test_only_text_is_like(encoding: Encoding) -> None:
    refused(encoding, "1", operator="like")


def test_text_is_like() -> None:
    assert read(Encoding.TEXT, "a.b%", operator="like") == ("a.b%",)


@pytest.mark.parametrize("operator", ORDERED)
def test_bytes_have_no_order(operator: Operator) -> None:
    refused(Encoding.BINARY, "AAEC", "AAEC", operator=operator)


def test_a_condition_keeps_its_column_and_operator() -> None:
    column = Column("paid", "text", Encoding.TEXT)
    condition = typed(column, Condition("paid", "eq", ("abc",)), WHERE)
    assert (condition.column, condition.operator, condition.values) == (column, "eq", ("abc",))
