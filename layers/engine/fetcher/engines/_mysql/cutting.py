"""Rows cut from bytes that have arrived, many at once: each length and sequence number is compared, none is believed.

Short ones are found by the two zeros in the header of a packet of fewer than 256 bytes, which text that JSON can hold
has not. Rows that have some all the same do not agree with their lengths, and are cut one by one, like longer ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt, itemgetter
from struct import Struct

HEADER = Struct("<I")
"""Three bytes of length and one of sequence."""
ROW = Struct("<HBBBH")
"""The same, with the high byte of the length apart; the first value's first byte, and two more, of a longer length."""
ONE, TWO = 1, 3
"""Bytes that a value's length takes: one, or a mark and two."""
LARGEST, LONGER = 0xFA, 0xFC
"""The largest length of one byte, and the mark of one of two."""
SOME = 1024
"""Bytes below which looking for many rows at once costs more than it saves."""

SEQUENCES = bytes(range(256))
PLUS_TWO, PLUS_THREE = (bytes((length + more) % 256 for length in range(256)) for more in (2, 3))
VALUES = [slice(2, 2 + size) for size in range(256)]
"""Where a first value is, by its length, behind the zeros, a sequence number and this length."""
number_of, size_of, length_of_next = itemgetter(0), itemgetter(1), itemgetter(-1)
only_value = itemgetter(slice(2, -1))
"""The same where no key follows."""

Piece = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Cut:
    """First values of rows, the rest of the last row behind its own, and the bytes that all of them took."""

    values: Sequence[Piece]
    rest: bytes
    taken: int


def many(buffer: bytes, at: int, aim: int, sequence: int) -> Cut | None:
    """Cut whole rows from the place `at`, of `aim` bytes or a little more. None when there is no whole one, or no row.

    What does not agree is left for the caller to look at.
    """
    if len(buffer) - at > SOME and not buffer[at + 1]:
        found = short(buffer[at : at + aim], sequence)
        if found:
            return found
    return each(buffer, at, aim, sequence)


def short(data: bytes, sequence: int) -> Cut | None:
    """Cut short rows, but for the last one, which may go on behind `data`; None when anything does not agree."""
    first, *rows = data.split(b"\0\0")
    if len(first) != 1 or len(rows) < 2:
        return None
    rows.pop()
    try:
        found, numbers, sizes = bytes(map(len, rows)), bytes(map(number_of, rows)), bytes(map(size_of, rows))
    except (IndexError, ValueError):  # nothing in it, or more than any byte says
        return None
    following = bytes(map(length_of_next, rows))
    lengths = first + following[:-1]
    expected = SEQUENCES[sequence:] + SEQUENCES * (len(rows) // len(SEQUENCES) + 1)
    agreed = found == lengths.translate(PLUS_TWO) and numbers == expected[: len(rows)]
    if not agreed or max(sizes) > LARGEST or not all(map(gt, lengths, sizes)):
        return None
    if found == sizes.translate(PLUS_THREE):
        values = list(map(only_value, rows))
    else:
        values = [row[VALUES[size]] for row, size in zip(rows, sizes, strict=True)]
    return Cut(values, rows[-1][2 + sizes[-1] : -1], sum(lengths) + HEADER.size * len(rows))


def each(buffer: bytes, at: int, aim: int, sequence: int) -> Cut | None:
    """Cut rows of fewer than 64 KiB, one after the other."""
    values: list[bytes] = []
    add, unpack = values.append, ROW.unpack_from
    begin, behind, whole = at, at, len(buffer)
    last = min(whole - ROW.size, at + aim - 1)
    while at <= last:
        length, more, found, first, longer = unpack(buffer, at)
        end = at + HEADER.size + length
        if first <= LARGEST:
            start = at + HEADER.size + ONE
            stop = start + first
        elif first == LONGER:
            start = at + HEADER.size + TWO
            stop = start + longer
        else:
            break
        if more or found != sequence or not stop <= end <= whole:
            break
        add(buffer[start:stop])
        at, behind, sequence = end, stop, (sequence + 1) & 0xFF
    return Cut(values, buffer[behind:at], at - begin) if values else None
