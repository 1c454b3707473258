"""Rows as the server sends them, in bulk: the packets of a text result cut from large buffers.

PyMySQL makes several Python calls a row and reads each packet in two pieces; here a row costs one slice.
For that this module, and no other, touches the driver's private attributes, in `_taken`. Where a release of
the driver does not have them, its own unbuffered cursor brings the same rows, slower.
"""

from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from typing import Any, Protocol

from pymysql.cursors import SSCursor
from pymysql.err import raise_mysql_exception

from fetcher.engines._mysql.cutting import HEADER, Cut, Piece, many
from fetcher.engines._mysql.errors import TOO_LARGE
from fetcher.engines._mysql.opening import Opened, closed
from fetcher.errors import FetcherError, UnavailableError

CHUNK = 256 * 1024
LONGEST = 0xFFFFFF
"""A packet of this length goes on in the next one."""

NULL = 0xFB
"""What stands in place of a value's length when there is no value; less is a length."""
MORE = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""Bytes that a longer length takes, by the one before them."""
END_SIZE = 9
"""A packet that begins like a value of eight bytes' length, and is shorter than that length, ends the rows."""

Buffer = bytes | bytearray


class Wire(Protocol):
    """Rows in order. `ended` only when the server itself has said that there are no more."""

    @property
    def ended(self) -> bool:
        """Whether the last row has been taken."""
        ...

    def take(self, aim: int) -> tuple[list[Piece], list[bytes]]:
        """Return rows' objects, of `aim` bytes or a little more, with the key's texts of the last one."""
        ...


def wire(connection: Opened, execute: str, beat: Callable[[], None]) -> Wire:
    """Send the query that has been prepared, and choose the way in which its rows come."""
    cursor = SSCursor(connection)
    cursor.execute(execute)
    beat()
    try:
        return Packets(*_taken(connection), beat)
    except AttributeError:
        return Cursor(cursor, beat)


def _taken(connection: Any) -> tuple[BufferedReader, int]:
    """Make the driver forget its result, which it would read to the end, and take over its stream."""
    stream, sequence, result = connection._rfile, connection._next_seq_id, connection._result  # noqa: SLF001 - the driver offers no bulk read
    if not (isinstance(stream, BufferedReader) and isinstance(sequence, int) and result.unbuffered_active):
        raise AttributeError("another driver than expected")
    result.unbuffered_active = False
    return stream, sequence


def abandoned(connection: Any) -> None:
    """Drop the socket with whatever is still on its way: the driver alone would read it to the end."""
    with suppress(AttributeError):
        connection._result.unbuffered_active = False  # noqa: SLF001 - nor a way to stop
    closed(connection)


class Packets:
    """The fast way. Every length and sequence number must agree, or the rows are not believed."""

    def __init__(self, stream: BufferedReader, sequence: int, beat: Callable[[], None]) -> None:
        self.ended = False
        self._stream = stream
        self._beat = beat
        self._buffer = b""
        self._at = 0
        self._sequence = sequence

    def take(self, aim: int) -> tuple[list[Piece], list[bytes]]:
        """Cut the object out of each packet; the key's texts behind it are only needed of the last."""
        bodies: list[Piece] = []
        size, rest = 0, b""
        while size < aim and not self.ended:
            found = self._arrived(aim - size) or self._single()
            if found:
                bodies += found.values
                size, rest = size + found.taken, found.rest
        return bodies, _values(rest)

    def _arrived(self, aim: int) -> Cut | None:
        """Take the rows that are whole in the buffer."""
        found = many(self._buffer, self._at, aim, self._sequence)
        if found:
            self._at += found.taken
            self._sequence = (self._sequence + len(found.values)) & 0xFF
        return found

    def _single(self) -> Cut | None:
        """Take the next packet, whatever it is and when it comes; None for the one that ends the rows."""
        buffer, start, end = self._packet()
        match buffer[start]:
            case 0xFE if end - start < END_SIZE:
                self.ended = True
                return None
            case 0xFB:
                raise _too_large()
            case 0xFF:
                raise_mysql_exception(bytes(buffer[start:end]))
        at, stop = _span(buffer, start)
        if stop > end:
            raise _broken()
        value = buffer[at:stop] if stop - at < CHUNK else memoryview(buffer)[at:stop]
        return Cut([value], bytes(buffer[stop:end]), end - start)

    def _packet(self) -> tuple[Buffer, int, int]:
        """Return a buffer that holds the next packet, its first byte there and the byte behind its last."""
        while True:
            start, size = self._at + HEADER.size, len(self._buffer)
            header = HEADER.unpack_from(self._buffer, self._at)[0] if start <= size else 0
            length = header & LONGEST
            if length >= CHUNK:
                whole = self._joined(self._buffer[self._at :])
                return whole, 0, len(whole)
            if start + length <= size and start <= size:
                self._follow(header)
                self._at = start + length
                return self._buffer, start, self._at
            self._buffer, self._at = self._buffer[self._at :] + self._read(CHUNK), 0

    def _follow(self, header: int) -> None:
        if header >> 24 != self._sequence:
            raise _broken()
        self._sequence = (self._sequence + 1) & 0xFF

    def _joined(self, rest: bytes) -> bytearray:
        """Collect a large row, which may be spread over several packets, without copying it again and again."""
        whole, length = bytearray(), LONGEST
        while length == LONGEST:
            while len(rest) < HEADER.size:
                rest += self._read(CHUNK)
            header = HEADER.unpack_from(rest)[0]
            self._follow(header)
            length = header & LONGEST
            end = len(whole) + length
            whole += rest[HEADER.size : HEADER.size + length]
            rest = rest[HEADER.size + length :]
            while len(whole) < end:
                whole += self._read(min(CHUNK, end - len(whole)))
        self._buffer, self._at = rest, 0
        return whole

    def _read(self, size: int) -> bytes:
        """Take what has arrived, waiting for the first byte."""
        received = self._stream.read1(size)
        if not received:
            raise _broken()
        self._beat()
        return received


class Cursor:
    """The driver's own way."""

    def __init__(self, cursor: SSCursor, beat: Callable[[], None]) -> None:
        self.ended = False
        self._cursor = cursor
        self._beat = beat

    def take(self, aim: int) -> tuple[list[Piece], list[bytes]]:
        """Fetch row by row."""
        bodies: list[Piece] = []
        size, key = 0, []
        while size < aim and not self.ended:
            row: Any = self._cursor.fetchone()
            self._beat()
            if row is None:
                self.ended = True
            elif row[0] is None:
                raise _too_large()
            else:
                bodies.append(row[0])
                size, key = size + len(row[0]), list(row[1:])
        return bodies, key


def _values(rest: bytes) -> list[bytes]:
    """Cut the values that follow a row's object, up to the very end of its packet."""
    values, at = [], 0
    while at < len(rest):
        start, at = _span(rest, at)
        values.append(rest[start:at])
    if at != len(rest):
        raise _broken()
    return values


def _span(buffer: Buffer, at: int) -> tuple[int, int]:
    """Find a value by its length: one byte, or one that says how many follow."""
    first = buffer[at]
    if first < NULL:
        return at + 1, at + 1 + first
    if first not in MORE:
        raise _broken()
    start = at + 1 + MORE[first]
    return start, start + int.from_bytes(buffer[at + 1 : start], "little")


def _broken() -> UnavailableError:
    return UnavailableError("the connection to MySQL broke in the middle of a read")


def _too_large() -> FetcherError:
    return TOO_LARGE.error()
