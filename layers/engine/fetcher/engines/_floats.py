"""Floats of four bytes, which Python knows only as the double that is equal."""

from struct import Struct

SINGLE = Struct("<f")
SMALLEST_NORMAL = 2.0**-126
"""Below it a float has fewer than six digits that count."""


def nearest_single(number: float) -> float:
    """Round to a float of four bytes. Raises `OverflowError` beyond the largest."""
    (rounded,) = SINGLE.unpack(SINGLE.pack(number))
    return float(rounded)


def shortest_single(number: float) -> bytes:
    """Find the shortest digits that mean the float of four bytes nearest to a finite number."""
    wanted = SINGLE.pack(number)
    for digits in range(6 if abs(number) >= SMALLEST_NORMAL else 1, 9):
        text = b"%.*g" % (digits, number)
        if SINGLE.pack(float(text)) == wanted:
            return text
    return b"%.9g" % number
