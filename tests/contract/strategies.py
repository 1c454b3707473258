"""Values that are hard on a database and its driver, drawn alike for every kind."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

Drawn = st.SearchStrategy[Any]

ODD_WORDS = ("", "NULL", "\\", '"', "'", "%s", ":1", "?", "a", "A", "ä", "\n", "a ", "[", "🎉")

INTEGERS: Drawn = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
"""Often equal, so that keys have ties, and of 64 bits."""
WORDS: Drawn = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ODD_WORDS
)
WORDS_WITH_NUL: Drawn = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(ODD_WORDS)
FILLED_WORDS: Drawn = WORDS.filter(bool)
DECIMALS: Drawn = st.decimals(-(10**9), 10**9, allow_nan=False, places=3)
DECIMALS_OR_NAN: Drawn = DECIMALS | st.just("NaN")
DATES: Drawn = st.dates()
DATETIMES: Drawn = st.datetimes()
SECONDS: Drawn = st.datetimes().map(lambda moment: moment.replace(microsecond=0))
MILLISECONDS: Drawn = st.datetimes(min_value=datetime(1970, 1, 1)).map(  # noqa: DTZ001 - the zone comes behind
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)
BOOLEANS: Drawn = st.booleans()
BYTES: Drawn = st.binary(max_size=4)
UUIDS: Drawn = st.uuids().map(str)
BITS_OF_FIVE: Drawn = st.integers(0, 31)


def sampled(values: Sequence[Any]) -> Drawn:
    """Draw one of these."""
    return st.sampled_from(values)


@st.composite
def tables(draw: st.DrawFn, types: Mapping[str, Drawn]) -> tuple[list[str], int, list[tuple[Any, ...]]]:
    """Draw column types, how many of the first columns are the key, and rows.

    The columns of a key before its last hold few values, so that a page often ends among rows that are told apart by
    the last one alone. Keys may repeat, other columns may be NULL.
    """
    names = sorted(types)
    keys = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    others = draw(st.lists(st.sampled_from(names), max_size=3))
    values = [types[name] for name in keys] + [types[name] | st.none() for name in others]
    for at in range(len(keys) - 1):
        values[at] = st.sampled_from(draw(st.lists(values[at], min_size=1, max_size=3)))
    least = draw(st.sampled_from((0, 1, 12)))
    return [*keys, *others], len(keys), draw(st.lists(st.tuples(*values), min_size=least, max_size=25))
