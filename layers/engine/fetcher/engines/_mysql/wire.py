"""Rows as the server sends them, in bulk: the packets of a text result cut from large buffers.

PyMySQL makes several Python calls a row and reads each packet in two pieces; here a row costs one slice.
For that this module, and no other, touches the driver's private attributes, in `_taken`. Where a release of
the driver does not have them, its own unbuffered cursor brings the same rows, slower.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from struct import Struct
from typing import Any, Protocol

from pymysql.cursors import SSCursor
from pymysql.err import raise_mysql_exception

from fetcher.engines._mysql.errors import TOO_LARGE
from fetcher.engines._mysql.opening import Opened, closed
from fetcher.engines._mysql.short import Short, short
from fetcher.errors import FetcherError, UnavailableError

CHUNK = 256 * 1024
SOME = 1024
"""Bytes below which looking for many rows at once costs more than it saves."""
LONGEST = 0xFFFFFF
"""A packet of this length goes on in the next one."""

HEADER = Struct("<I")
"""Three bytes of length and one of sequence."""
SHORT, LONG = Struct("<H"), Struct("<Q")
NULL, TWO, THREE, EIGHT = 0xFB, 0xFC, 0xFD, 0xFE
"""What the first byte of a row or of a value says when it is not a length of one byte."""
END_SIZE = 9
"""A packet that begins like a value of eight bytes' length, and is shorter than that length, ends the rows."""

Buffer = bytes | bytearray
Piece = bytes | bytearray | memoryview


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
        self._left = 0
        self._short: Short | None = None
        self._packets = self._cut(sequence)

    def take(self, aim: int) -> tuple[list[Piece], list[bytes]]:
        """Cut the object out of each packet; the key's texts behind it are only needed of the last."""
        bodies: list[Piece] = []
        last: tuple[Buffer, int, int] = (b"", 0, 0)
        size, add, self._left = 0, bodies.append, aim
        for buffer, start, end in () if self.ended else self._packets:
            if self._short:
                found, self._short = self._short, None
                bodies += found.values
                last = (found.rest, 0, len(found.rest))
                size += found.taken
                if size >= aim:
                    break
                self._left = aim - size
                continue
            first = buffer[start]
            if first < NULL:
                at, stop = start + 1, start + 1 + first
            elif first == TWO:
                at = start + 3
                stop = at + SHORT.unpack_from(buffer, start + 1)[0]
            elif first == EIGHT and end - start < END_SIZE:
                self.ended = True
                break
            else:
                at, stop = _span(buffer, start, end)
            if stop > end:
                raise _broken()
            add(buffer[at:stop] if stop - at < CHUNK else memoryview(buffer)[at:stop])
            last = (buffer, stop, end)
            size += stop - at
            if size >= aim:
                break
            self._left = aim - size
        return bodies, _values(*last)

    def _cut(self, sequence: int) -> Iterator[tuple[Buffer, int, int]]:
        """Yield each packet as a buffer, its first byte there and the byte behind its last; or short ones at once."""
        buffer, at, unpack = b"", 0, HEADER.unpack_from
        size, quick = 0, False
        while True:
            if quick and (found := short(memoryview(buffer)[at : at + self._left], sequence)):
                self._short = found
                yield b"", 0, 0
                at, sequence = at + found.taken, (sequence + found.rows) & 0xFF
                continue
            quick = False
            start = at + HEADER.size
            end = start + (unpack(buffer, at)[0] & LONGEST) if start <= size else start
            if end <= size and end - start < LONGEST:
                if buffer[start - 1] != sequence:
                    raise _broken()
                yield buffer, start, end
                at, sequence = end, (sequence + 1) & 0xFF
            elif end - start < CHUNK:
                buffer, at = buffer[at:] + self._read(CHUNK), 0
                size = len(buffer)
                quick = size > SOME and not buffer[1]
            else:
                whole, buffer, sequence = self._joined(buffer[at:], sequence)
                at, size = 0, len(buffer)
                yield whole, 0, len(whole)

    def _joined(self, rest: bytes, sequence: int) -> tuple[bytearray, bytes, int]:
        """Collect a large row, which may be spread over several packets, without copying it again and again."""
        whole, length = bytearray(), LONGEST
        while length == LONGEST:
            while len(rest) < HEADER.size:
                rest += self._read(CHUNK)
            header = HEADER.unpack_from(rest)[0]
            if header >> 24 != sequence:
                raise _broken()
            length, sequence = header & LONGEST, (sequence + 1) & 0xFF
            end = len(whole) + length
            whole += rest[HEADER.size : HEADER.size + length]
            rest = rest[HEADER.size + length :]
            while len(whole) < end:
                whole += self._read(min(CHUNK, end - len(whole)))
        return whole, rest, sequence

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


def _span(buffer: Buffer, start: int, end: int) -> tuple[int, int]:
    """Find a value behind one of the rarer first bytes: a longer length, NULL, or the server's error."""
    match buffer[start]:
        case 0xFD:
            return start + 4, start + 4 + int.from_bytes(buffer[start + 1 : start + 4], "little")
        case 0xFE:
            return start + 9, start + 9 + LONG.unpack_from(buffer, start + 1)[0]
        case 0xFB:
            raise _too_large()
        case _:
            raise_mysql_exception(bytes(buffer[start:end]))
            raise _broken()


def _values(buffer: Buffer, at: int, end: int) -> list[bytes]:
    """Cut the values that follow a row's object, up to the very end of its packet."""
    values = []
    while at < end:
        first = buffer[at]
        start, stop = (at + 1, at + 1 + first) if first < NULL else _span_of_key(buffer, at)
        values.append(bytes(buffer[start:stop]))
        at = stop
    if at != end:
        raise _broken()
    return values


def _span_of_key(buffer: Buffer, at: int) -> tuple[int, int]:
    """An index holds no more than 3,072 bytes, so a key needs no more than two bytes for its length."""
    if buffer[at] != TWO:
        raise _broken()
    return at + 3, at + 3 + SHORT.unpack_from(buffer, at + 1)[0]


def _broken() -> UnavailableError:
    return UnavailableError("the connection to MySQL broke in the middle of a read")


def _too_large() -> FetcherError:
    return TOO_LARGE.error()
