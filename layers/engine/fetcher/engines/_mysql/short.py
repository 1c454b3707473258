"""Short rows, many at once: where each begins and ends is found by one pattern, and every length is checked after it.

A packet of fewer than 256 bytes has two zeros in its header, and text that JSON can hold has none. Rows that have some
all the same do not agree with their lengths, and are cut one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt, itemgetter

HEADER = 4
LONGEST = 0xFA
"""The longest value whose length is one byte."""
SEQUENCES = bytes(range(256))

split = re.compile(rb"(?s:\x00\x00(.)(.))").split
"""Behind the zeros stand the sequence number and the length of a row's first value. The byte before them, the packet's
length, stays at the end of what the packet before it holds: a pattern that begins with a constant is found faster.
"""
last_byte = itemgetter(-1)


@dataclass(frozen=True, slots=True)
class Short:
    """First values of rows, the rest of the last row behind its own, and the bytes that all of them took."""

    values: Sequence[bytes]
    rest: bytes
    taken: int

    @property
    def rows(self) -> int:
        """Number the rows."""
        return len(self.values)


def short(data: bytes | memoryview, sequence: int) -> Short | None:
    """Cut the rows of a text result that `data` begins with, but for the last one, which may go on behind it.

    None when the first one is not short, or anything does not agree.
    """
    first, *parts = split(data)
    packets, rows = parts[2:-3:3], len(parts) // 3 - 1
    if len(first) != 1 or rows < 1:
        return None
    sizes = b"".join(parts[1:-3:3])
    try:
        lengths = first + bytes(map(last_byte, packets))
        agreed = bytes(map(len, packets)) == lengths[:-1]
    except (IndexError, ValueError):  # nothing in it, or more than any byte says
        return None
    numbers = SEQUENCES[sequence:] + SEQUENCES * (rows // len(SEQUENCES) + 1)
    if not agreed or b"".join(parts[:-3:3]) != numbers[:rows] or max(sizes) > LONGEST:
        return None
    values = [packet[:size] for packet, size in zip(packets, sizes, strict=True)]
    if sum(map(len, values)) != sum(sizes) or not all(map(gt, lengths, sizes)):
        return None
    return Short(values, packets[-1][sizes[-1] : -1], sum(lengths[:-1]) + HEADER * rows)
