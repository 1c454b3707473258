"""Waits between tries."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.retry import LONGEST_WAIT, STANDARD, Backoff, slot_delay, wait_after
from fetcher.errors import UnavailableError

PLAIN = UnavailableError("later")


def most() -> float:
    return 1.0


def test_the_bounds_double_from_1_second_to_10() -> None:
    """R-002-47, R-002-48."""
    assert [wait_after(failed, PLAIN, most, Backoff(tries=8)) for failed in range(1, 8)] == [1, 2, 4, 8, 10, 10, 10]


def test_five_tries_have_four_waits() -> None:
    """R-002-49, R-002-59: after the fifth there is none, whatever the source asks for."""
    waits = [wait_after(failed, PLAIN, most) for failed in range(1, 7)]
    assert waits == [1, 2, 4, 8, None, None]
    assert wait_after(STANDARD.tries, UnavailableError("later", retry_after=1)) is None


@given(
    st.floats(0, 1, exclude_max=True),
    st.builds(Backoff, st.floats(0, 100), st.floats(0, 100), st.integers(2, 2000)),
    st.integers(1, 2000),
)
def test_every_wait_is_between_zero_and_its_bound(drawn: float, backoff: Backoff, failed: int) -> None:
    """R-002-47: full jitter, and no overflow however long it goes on."""
    wait = wait_after(failed, PLAIN, lambda: drawn, backoff)
    assert (wait is None) == (failed >= backoff.tries)
    if wait is not None:
        assert 0 <= wait <= backoff.cap
        assert Fraction(wait) <= Fraction(backoff.base) * 2**failed  # as floats, the test itself would overflow


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(7.0, 7.0), (LONGEST_WAIT, LONGEST_WAIT), (3_600.0, 3_600.0), (0.0, 1.0), (-3.0, 1.0), (None, 1.0)],
)
def test_the_wait_that_was_asked_for_wins_unless_it_has_passed(asked: float | None, waited: float) -> None:
    """R-002-44, R-002-46."""
    assert wait_after(1, UnavailableError("later", retry_after=asked), most) == waited


@given(st.integers(0, 5000), st.floats(0, 1, exclude_max=True))
def test_a_slot_is_asked_for_again_after_seconds_first_and_within_a_minute_always(waits: int, drawn: float) -> None:
    """Design §6 j: jittered and growing; never at once, so that waiting is cheap, never over a minute."""
    delay = slot_delay(waits, lambda: drawn)
    assert 1 <= delay <= 60
    assert waits or delay <= 2
    assert waits < 5 or delay >= 30
