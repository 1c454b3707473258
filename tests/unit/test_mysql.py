"""What the engine for MySQL says and reads, without a server."""

from decimal import Decimal
from io import BufferedReader, RawIOBase
from struct import pack, unpack
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._mysql.errors import explained, refused
from fetcher.engines._mysql.rows import Statement
from fetcher.engines._mysql.short import short
from fetcher.engines._mysql.values import finishing
from fetcher.engines._mysql.wire import CHUNK, Packets
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
    made = Statement(Query("t", ("t`",), (ID,), (NAME, ID), conditions), after)
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


def test_an_unknown_number_is_read_by_its_state() -> None:
    error = pymysql.OperationalError(3999, "words", sqlstate="22032")
    assert isinstance(explained(error), InvalidRequestError)


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"", 0, 1, "x"), IndexError(), AssertionError(), OSError()]
)
def test_whatever_the_driver_raises_is_a_broken_wire(error: Exception) -> None:
    """It lets errors of any class out when the bytes make no sense."""
    assert isinstance(explained(error), UnavailableError)
    assert isinstance(refused(error), UnavailableError)


# --- values that are finished here


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_fewest_digits_that_mean_it(number: float) -> None:
    """The server sends the exact double; any decimal that reads as the same FLOAT may stand for it."""
    text = finishing((SMALL,))(b'{"f":\x01%s\x01}' % repr(number).encode())[5:-1]
    assert unpack("<f", pack("<f", float(text)))[0] == number
    digits = len(text.split(b"e")[0].replace(b".", b"").strip(b"-0"))
    shorter = float(f"{number:.{digits - 1}g}") if digits > 1 else None
    assert shorter is None or _single(shorter) != number


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
    assert finishing((NESTED,))(b"\x02" + given + b"\x02") == expected


def test_other_columns_need_no_finishing() -> None:
    body = b"\x01\x02"
    assert finishing((ID, NAME))(body) == body


# --- packets


class Chunks(RawIOBase):
    """A socket that gives its bytes in pieces of a chosen size."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size, self._at = content, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        piece = self._content[self._at : self._at + min(self._size, len(into))]
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def length(count: int) -> bytes:
    if count < 251:
        return bytes([count])
    if count < 2**16:
        return b"\xfc" + pack("<H", count)
    return b"\xfd" + pack("<I", count)[:3] if count < 2**24 else b"\xfe" + pack("<Q", count)


def packets(payloads: list[bytes], sequence: int = 9) -> bytes:
    made = []
    for payload in payloads:
        parts = [payload[at : at + 0xFFFFFF] for at in range(0, len(payload) + 1, 0xFFFFFF)]
        for part in parts:
            made.append(pack("<I", len(part) | sequence % 256 << 24) + part)
            sequence += 1
    return b"".join(made)


def row(*values: bytes) -> bytes:
    return b"".join(length(len(value)) + value for value in values)


END = b"\xfe\0\0\2\0"


def taken(content: bytes, *, size: int = 2**16, aim: int = 1000) -> list[tuple[list[bytes], list[bytes]]]:
    wire = Packets(BufferedReader(Chunks(content, size)), 9, lambda: None)
    pages = []
    while (page := wire.take(aim))[0]:
        pages.append(([bytes(body) for body in page[0]], page[1]))
    assert wire.ended
    return pages


BODIES = st.lists(st.integers(1, 700), min_size=1, max_size=300)


@given(BODIES, st.integers(1, 5000), st.integers(1, 3000))
def test_rows_are_the_same_however_the_bytes_arrive(sizes: list[int], size: int, aim: int) -> None:
    bodies = [bytes([65 + at % 26]) * count for at, count in enumerate(sizes)]
    content = packets([*(row(body, str(at).encode()) for at, body in enumerate(bodies)), END])
    pages = taken(content, size=size, aim=aim)
    assert [body for page, _ in pages for body in page] == bodies
    last = -1
    for page, key in pages:
        last += len(page)
        assert key == [str(last).encode()]


@given(
    st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=200)), min_size=1, max_size=600),
    st.integers(600, 9000),
    st.integers(1, 9000),
)
def test_short_rows_with_any_bytes_are_the_same_too(rows: list[tuple[bytes, bytes]], size: int, aim: int) -> None:
    """Zeros look like the header of a packet: the lengths decide."""
    content = packets([*(row(body, key) for body, key in rows), END])
    pages = taken(content, size=size, aim=aim)
    assert [body for page, _ in pages for body in page] == [body for body, _ in rows]


def test_short_rows_are_cut_at_once() -> None:
    """Else nothing would show that the fast way is taken, or that it leaves the last row, which may go on."""
    bodies = [b'{"a":%d}' % at for at in range(700)]
    content = packets([row(body, b"k%d" % at) for at, body in enumerate(bodies)], sequence=250)
    found = short(content[:-1], 250)
    assert found is not None
    assert (found.values, found.rest) == (bodies[:-1], b"\4k698")
    assert content[found.taken :] == packets([row(bodies[-1], b"k699")], sequence=250 + 699)
    for broken in (content[1:], content.replace(b"k5", b"k\0\0", 1), packets([row(b"x" * 255, b"k")] * 3, 250)):
        assert short(broken, 250) is None
    assert short(content, 251) is None
    assert short(packets([b"\5{}", row(b"{}")], 250), 250) is None


@pytest.mark.parametrize("count", [250, 251, 65535, 65536, CHUNK, 2**24 - 6, 2**24 - 5, 2**24, 40_000_000])
def test_a_row_of_any_length_is_whole(count: int) -> None:
    """Also where it is spread over several packets of the protocol."""
    small = row(b"{}", b"1")
    ((_, key), *_rest) = pages = taken(packets([row(b"x" * count, b"k"), small, END]), aim=1)
    assert [len(page[0]) for page, _ in pages] == [count, 2]
    assert key == [b"k"]


WHOLE = packets([row(b"{}"), row(b"{}"), END])


@pytest.mark.parametrize(
    "broken",
    [
        WHOLE[:-1],
        WHOLE[:-9],
        WHOLE[:10],
        b"",
        packets([row(b"{}"), END], sequence=10),
        packets([row(b"{}") + b"\5", END]),
        packets([b"\x09{}", END]),
        packets([b"\xfd\xff\xff\xff{}", END]),
        packets([b"\xff\0", END]),
    ],
)
def test_bytes_that_do_not_add_up_are_never_rows(broken: bytes) -> None:
    """R-002-83, B-45: without the server's last word a read is not complete."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, the session translates it
        taken(broken, aim=10**9)
    assert isinstance(
        explained(caught.value) if not isinstance(caught.value, FetcherError) else caught.value, UnavailableError
    )


def test_the_servers_error_between_rows_is_raised() -> None:
    content = packets([row(b"{}"), b"\xff" + pack("<H", 1969) + b"#70100words"])
    with pytest.raises(pymysql.OperationalError) as caught:
        taken(content, aim=10**9)
    assert isinstance(explained(caught.value), TimedOutError)


def test_a_row_that_the_server_could_not_render_is_a_limit() -> None:
    with pytest.raises(LimitError):
        taken(packets([b"\xfb", END]))
