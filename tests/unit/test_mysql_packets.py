"""How the engine for MySQL cuts rows out of packets: the same however they arrive, and nothing that does not add up."""

from io import BufferedReader, RawIOBase
from struct import pack
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._mysql.cutting import each, many, short
from fetcher.engines._mysql.errors import explained
from fetcher.engines._mysql.wire import CHUNK, Packets
from fetcher.errors import FetcherError, LimitError, TimedOutError, UnavailableError


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
    assert short(packets([b"\xfb" + b"x" * 252] * 3, 250), 250) is None, "NULL is no length"


SHORT_ROW, LONG_ROW = row(b"x" * 40, b"key"), row(b"x" * 400, b"key")


@pytest.mark.parametrize("cut", [many, each])
@pytest.mark.parametrize(
    ("payload", "place", "wrong"),
    [
        (SHORT_ROW, 3, b"\xaa"),
        (SHORT_ROW, 2, b"\1"),
        (SHORT_ROW, 0, b"\5"),
        (SHORT_ROW, 0, b"\x28"),
        (SHORT_ROW, 4, b"\x2d"),
        (SHORT_ROW, 4, b"\xfa"),
        (SHORT_ROW, 4, b"\xfb"),
        (SHORT_ROW, 4, b"\xff"),
        (LONG_ROW, 3, b"\xaa"),
        (LONG_ROW, 2, b"\1"),
        (LONG_ROW, 0, b"\5\0"),
        (LONG_ROW, 4, b"\xfb"),
        (LONG_ROW, 5, b"\x95\1"),
        (LONG_ROW, 5, b"\xff\xff"),
    ],
)
def test_a_header_that_does_not_agree_ends_what_is_cut_at_once(
    cut: Any, payload: bytes, place: int, wrong: bytes
) -> None:
    """R-002-83: sequence, both ends of a length, and a value that would be longer than its packet."""
    content = bytearray(packets([payload] * 60, 250))
    at = 20 * (4 + len(payload)) + place
    content[at : at + len(wrong)] = wrong
    found = cut(bytes(content), 0, 10**9, 250)
    assert len(found.values) == 20
    assert found.rest == b"\3key"
    assert short(bytes(content), 250) is None


def test_lengths_that_only_add_up_are_not_believed() -> None:
    """One row that says less and one that says more, or a length of two packets in one."""
    content = packets([SHORT_ROW] * 60, 250)
    step = 4 + len(SHORT_ROW)
    for place in (20 * step, 59 * step):
        broken = content[:place] + bytes([len(SHORT_ROW) + 1]) + content[place + 1 :]
        assert short(broken, 250) is None or place == 59 * step
        found = many(broken, 0, 10**9, 250)
        assert found is not None
        assert len(found.values) <= place // step + 1


def test_rows_are_cut_up_to_the_aim_and_not_far_beyond() -> None:
    """R-002-84: a page is of the bytes that were asked for."""
    for size in (40, 240, 400, 60_000):
        content = packets([row(b"x" * size)] * (1 + 200_000 // size), 3)
        for aim in (1, 5000, 131_072):
            found = many(content, 0, aim, 3)
            assert found is not None
            assert found.taken <= max(aim, 0) + size + 7


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
