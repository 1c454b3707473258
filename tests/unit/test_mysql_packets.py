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


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 3)), min_size=1, max_size=200),
    st.integers(0, 255),
    st.integers(0, 10**9),
    st.sampled_from([0, 1, 2, 3, 4, 17, 255]),
)
def test_a_byte_that_is_wrong_is_never_cut_as_if_it_were_right(
    sizes: list[tuple[int, int]], sequence: int, place: int, change: int
) -> None:
    """R-002-83: whatever is cut is what a reader of each header, one by one, would find before the fault."""
    content = bytearray(packets([row(b"x" * size, *[b"k"] * keys) for size, keys in sizes], sequence))
    content[place % len(content)] ^= change
    buffer = bytes(content) + b"\5\0\0"
    right = each(buffer, 0, 10**9, sequence)
    found = many(buffer, 0, 10**9, sequence)
    count = len(found.values) if found else 0
    assert (right.values[:count] if right else []) == (found.values if found else [])
    if found and right and count == len(right.values):
        assert (found.rest, found.taken) == (right.rest, right.taken)


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
