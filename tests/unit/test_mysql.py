"""What the engine for MySQL says and reads, without a server."""

import json
from collections.abc import Sequence
from decimal import Decimal
from struct import pack, unpack
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._mysql.errors import explained, refused
from fetcher.engines._mysql.finishing import MARK, NULL_BITS, finishing
from fetcher.engines._mysql.rows import Statement, shown
from fetcher.engines.mysql import NAMING
from fetcher.errors import (
    FetcherError,
    InvalidRequestError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)
from fetcher.model import Catalog, Column, Connection, Encoding, Position, Query, Table, TypedCondition

ID = Column("id", "bigint", Encoding.INTEGER, nullable=False)
NAME = Column("na`me", "varchar(20) collate utf8mb4_general_ci", Encoding.TEXT, nullable=False)
SMALL = Column("f", "float", Encoding.FLOAT)
LARGE = Column("d", "double", Encoding.FLOAT)
NESTED = Column("j", "longtext collate utf8mb4_bin", Encoding.JSON)


# --- names and statements


def test_a_name_is_one_word_and_has_no_scope() -> None:
    """R-000-30: no schema list is sent, and a dot does not divide a name."""
    to = Connection("c", "mysql", "h", 1, "shop", "u")
    catalog = Catalog({("a.b",): Table(("a.b",), ()), ("b",): Table(("b",), ())})
    assert NAMING.scope(["a.b", "b"], to) == ()
    assert NAMING.resolve("a.b", catalog, to) == ("a.b",)
    assert NAMING.resolve("shop.b", catalog, to) is None
    assert NAMING.resolve("B", catalog, to) is None


def statement(*conditions: TypedCondition, after: Position | None = None) -> tuple[str, list[bytes], str]:
    """Return the SELECT, the values that were assigned, and the EXECUTE."""
    made = Statement.reading(Query("t", ("t`",), (ID,), (NAME, ID), conditions), after)
    text, *values = (bytes.fromhex(part.split("'")[1]) for part in made.assign.split(", @"))
    return text.decode(), values, made.execute


HOSTILE = "' OR 1=1 -- \\' \" ` @fetcher0 ?"


def test_no_value_is_part_of_any_statement_but_as_hexadecimal_digits() -> None:
    """R-000-94."""
    select, values, execute = statement(
        TypedCondition(NAME, "in", (HOSTILE, "b")), after=Position(((NAME.type, HOSTILE), (ID.type, "7")))
    )
    assert HOSTILE not in select
    assert values == [HOSTILE.encode(), b"b", HOSTILE.encode(), HOSTILE.encode(), b"7"]
    assert execute == "EXECUTE fetcher USING @fetcher0, @fetcher1, @fetcher2, @fetcher3, @fetcher4"
    assert select.endswith(
        " FROM `t``` WHERE (`na``me` IN (?, ?)) AND ((`na``me` > ?) OR (`na``me` = ? AND `id` > CAST(? AS SIGNED)))"
        " ORDER BY `na``me`, `id`"
    )


def test_a_query_without_values_executes_without_them() -> None:
    assert statement()[2] == "EXECUTE fetcher"


@pytest.mark.parametrize(
    ("value", "spelled", "sent"),
    [
        (7, "CAST(? AS SIGNED)", b"7"),
        (-(2**63), "CAST(? AS SIGNED)", b"-9223372036854775808"),
        (2**63, "CAST(? AS UNSIGNED)", b"9223372036854775808"),
        (2**64, "CAST(? AS DECIMAL(65, 0))", b"18446744073709551616"),
        (-(2**63) - 1, "CAST(? AS DECIMAL(65, 0))", b"-9223372036854775809"),
        (Decimal("1.50"), "CAST(? AS DECIMAL(65, 1))", b"1.5"),
        (Decimal("7.000"), "CAST(? AS SIGNED)", b"7"),
        (Decimal("1E+3"), "CAST(? AS SIGNED)", b"1000"),
        (Decimal("-0.0"), "CAST(? AS SIGNED)", b"-0"),
    ],
)
def test_a_number_travels_with_every_digit(value: Any, spelled: str, sent: bytes) -> None:
    """B-23: no number of a filter passes through a float."""
    select, values, _ = statement(TypedCondition(ID, "gt", (value,)))
    assert f"`id` > {spelled}" in select
    assert values == [sent]


# --- errors


@pytest.mark.parametrize(
    ("number", "family"),
    [
        (1045, RefusedError),
        (1049, RefusedError),
        (1142, RefusedError),
        (1040, UnavailableError),
        (1205, UnavailableError),
        (1213, UnavailableError),
        (1317, UnavailableError),
        (2006, UnavailableError),
        (2013, UnavailableError),
        (1969, TimedOutError),
        (3024, TimedOutError),
        (1054, InvalidRequestError),
        (1064, InvalidRequestError),
        (1146, InvalidRequestError),
        (1267, InvalidRequestError),
        (1301, LimitError),
        (2099, UnavailableError),
        (3999, UnavailableError),
    ],
)
def test_a_number_says_what_the_caller_must_do(number: int, family: type[FetcherError]) -> None:
    """And the server's own words stay on the cause."""
    error = explained(pymysql.OperationalError(number, "secret words"))
    assert type(error) is family
    assert str(number) in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("resource", "wait"),
    [
        ("max_connections_per_hour", 900),
        ("max_queries_per_hour", 900),
        ("max_questions", 900),
        ("max_user_connections", None),
    ],
)
def test_an_hour_that_is_used_up_is_waited_for_and_a_moment_is_not(resource: str, wait: float | None) -> None:
    """Design §8: 1226 names its resource; only what is counted by the hour closes the gate."""
    error = explained(pymysql.OperationalError(1226, f"User 'x' has exceeded the '{resource}' resource"))
    assert isinstance(error, UnavailableError)
    assert error.retry_after == wait


@pytest.mark.parametrize(
    ("number", "state", "family", "connecting"),
    [
        # of no state of their own, and nothing is known of them: a server that fails, a shard that is moved
        *((one, "HY000", UnavailableError, UnavailableError) for one in (1004, 1015, 1016, 1024, 1194, 1195, 1297)),
        *((one, "HY000", UnavailableError, UnavailableError) for one in (1026, 1206, 1296, 1429, 1430, 1637, 1689)),
        *((one, "HY000", UnavailableError, UnavailableError) for one in (1105, 1615, 1815, 1878, 3032, 3168, 9001)),
        (1999, None, UnavailableError, UnavailableError),
        (1461, "42000", UnavailableError, UnavailableError),  # statements of all sessions together
        # the same state, and known to last
        *((one, "HY000", RefusedError, RefusedError) for one in (1129, 1130, 1275, 1524, 3118, 3159, 3554, 3955)),
        *((one, "HY000", InvalidRequestError, InvalidRequestError) for one in (1111, 1168, 1193, 1273, 1356, 1449)),
        *((one, "HY000", InvalidRequestError, InvalidRequestError) for one in (3040, 3636, 3692, 4078)),
        *((one, "HY000", LimitError, LimitError) for one in (1116, 1119, 1436)),
        # a state that is a verdict
        (3999, "22032", InvalidRequestError, InvalidRequestError),
        (1242, "21000", InvalidRequestError, InvalidRequestError),
        (1644, "45000", InvalidRequestError, InvalidRequestError),
        (1999, "25001", InvalidRequestError, RefusedError),
        (1999, "08S01", UnavailableError, UnavailableError),
    ],
)
def test_a_number_without_a_state_of_its_own_may_pass_unless_it_is_known_to_last(
    number: int, state: str | None, family: type[FetcherError], connecting: type[FetcherError]
) -> None:
    """R-002-59: what a failing server says is tried again, what a view or an account lacks is not."""
    error = pymysql.OperationalError(number, "words", sqlstate=state)
    assert (type(explained(error)), type(refused(error))) == (family, connecting)


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"", 0, 1, "x"), IndexError(), AssertionError(), OSError()]
)
def test_whatever_the_driver_raises_is_a_broken_wire(error: Exception) -> None:
    """It lets errors of any class out when the bytes make no sense."""
    assert isinstance(explained(error), UnavailableError)
    assert isinstance(refused(error), UnavailableError)


# --- values that are finished here


def finished(column: Column, *values: bytes) -> list[bytes]:
    """Finish rows of one column, whose marks are all that is around a value."""
    page = b",".join(MARK + value + MARK for value in values)
    return finishing((column,))(page, len(values)).split(b",")


def bits(*numbers: float) -> list[bytes]:
    return [pack("<d", number).hex().encode() for number in numbers]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_fewest_digits_that_mean_it(number: float) -> None:
    """The server sends the exact double; any decimal that reads as the same FLOAT may stand for it."""
    (text,) = finished(SMALL, *bits(number))
    assert unpack("<f", pack("<f", float(text)))[0] == number
    digits = len(text.split(b"e")[0].replace(b".", b"").strip(b"-0"))
    shorter = float(f"{number:.{digits - 1}g}") if digits > 1 else None
    assert shorter is None or _single(shorter) != number


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_double_has_the_digits_that_python_finds_too(numbers: list[float]) -> None:
    """R-000-101: one call writes a page of them, and each stays in its place, without a point behind a whole one."""
    texts = finished(LARGE, *bits(*numbers))
    for text, number in zip(texts, numbers, strict=True):
        assert pack("<d", float(text)) == pack("<d", number)
        assert Decimal(text.decode()) == Decimal(repr(number)), "the shortest digits"
        assert not text.endswith(b".0")


@pytest.mark.parametrize("column", [SMALL, LARGE])
def test_null_is_null_among_numbers(column: Column) -> None:
    assert finished(column, *bits(1.5), NULL_BITS.encode(), *bits(-0.0, 2)) == [b"1.5", b"null", b"-0", b"2"]


def _single(number: float) -> float | None:
    try:
        single: float = unpack("<f", pack("<f", number))[0]
    except OverflowError:
        return None
    return single


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b'{"a": 1e400}', b'{"a": 1e400}'),
        (b" [1]\n", b" [1]\n"),
        (b'{"a": 1.}', rb'"{\"a\": 1.}"'),
        (b"NaN", b'"NaN"'),
    ],
)
def test_json_is_left_alone_and_what_is_none_becomes_text(given: bytes, expected: bytes) -> None:
    assert finished(NESTED, given) == [expected]
    assert finished(NESTED, b"{}", given, b"null") == [b"{}", expected, b"null"]


@pytest.mark.parametrize(
    "given",
    [
        (b"[1", b"2]"),
        (b'{"a":1', b"1}"),
        (b'"a', b'b"'),
        (b"1],[2", b"[3", b"4]"),
        (b"", b"1"),
        (b"1 2", b"/*", b"*/"),
        (b"[" * 100_000, b"]" * 100_000),
        (b"\1x\1", b"\2", b""),
    ],
)
def test_documents_are_judged_one_by_one_whatever_stands_beside_them(given: Sequence[bytes]) -> None:
    """R-000-101: texts that are no JSON, but would be together, are strings."""
    page = b"\n".join(MARK + value + MARK for value in (b"[]", *given, b"{}"))
    first, *texts, last = finishing((NESTED,))(page, len(given) + 2).split(b"\n")
    assert [json.loads(text) for text in texts] == [1 if value == b"1" else value.decode() for value in given]
    assert (first, last) == (b"[]", b"{}")


def test_a_value_with_the_mark_in_it_is_never_delivered() -> None:
    """No UTF-8 has that byte; a server that says otherwise is not believed."""
    for text in (MARK, b"[1]" + MARK + b"," + MARK + b"[2]", b"x" + MARK, b"\xfe"):
        with pytest.raises(InvalidRequestError, match="character set"):
            finished(NESTED, b"{}", text)


@given(st.text(st.characters(), max_size=8) | st.text(st.sampled_from("\ud83c\udf89\ud7ff\ue000\\a"), max_size=8))
def test_halves_of_surrogate_pairs_are_escapes(text: str) -> None:
    """R-000-101: MariaDB's bytes of one are no UTF-8; a pair of them is what it means, as in any JSON."""
    body = json.dumps({"n": text}, ensure_ascii=False).encode(errors="surrogatepass")
    (made,) = {finishing(columns)(body, 0) for columns in ((NAME,), (NESTED,))}
    assert json.loads(made.decode())["n"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert made == body or any("\ud800" <= character <= "\udfff" for character in text)


def test_columns_are_finished_beside_each_other() -> None:
    """And only they: what is between marks of others stays."""
    row = b'{"d":%b%b%b,"i":1,"j":%b1.%b,"f":%b%b%b}' % (MARK, *bits(0.1), MARK, MARK, MARK, MARK, *bits(1.5), MARK)
    page = finishing((LARGE, ID, NESTED, SMALL))(b",".join([row] * 3), 3)
    assert page == b",".join([b'{"d":0.1,"i":1,"j":"1.","f":1.5}'] * 3)


def test_other_columns_need_no_finishing() -> None:
    body = b"\1\2" + MARK
    assert finishing((ID, NAME))(body, 1) == body


SECOND = Column('se"c.ond', "int(4) zerofill", Encoding.INTEGER, nullable=False)


@pytest.mark.parametrize(
    ("columns", "key", "expected"),
    [
        ((ID, NAME), (ID,), [b"7"]),
        ((ID, SECOND), (SECOND, ID), [b"-9", b"7"]),
        ((ID,), (ID,), [b"7"]),
        ((NAME, ID), (ID,), None),
        ((ID, NAME), (ID, NAME), None),
        ((SECOND, NAME), (ID,), None),
        ((ID,), (), None),
    ],
)
def test_a_key_is_read_from_the_integers_in_front_and_sent_beside_the_object_otherwise(
    columns: tuple[Column, ...], key: tuple[Column, ...], expected: list[bytes] | None
) -> None:
    """R-002-22: the position of a page is the key of its last row."""
    values: dict[Column, Any] = {ID: 7, SECOND: -9, NAME: '","id":8}'}
    body = json.dumps({each.name: values[each] for each in columns}, separators=(",", ":")).encode()
    query = Query("t", ("t",), columns, key)
    texts = shown(query)
    assert (texts and texts(memoryview(body))) == expected
    select = bytes.fromhex(Statement.reading(query, None).assign.split("'")[1]).decode()
    assert (select.partition(" FROM ")[0].count("), `") == 0) is (expected is not None or not key)
