"""Waits between tries."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.retry import LONGEST_WAIT, Backoff, attempts, delays
from fetcher.errors import RefusedError, UnavailableError


def most() -> float:
    return 1.0


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


def test_the_bounds_double_from_1_second_to_10() -> None:
    """R-002-47, R-002-48."""
    assert list(delays(most, Backoff(tries=7))) == [1, 2, 4, 8, 10, 10]


def test_five_tries_have_four_waits() -> None:
    """R-002-49."""
    assert len(list(delays(most))) == 4


@given(st.floats(0, 1, exclude_max=True), st.builds(Backoff, st.floats(0, 100), st.floats(0, 100), st.integers(1, 20)))
def test_every_wait_is_between_zero_and_its_bound(drawn: float, backoff: Backoff) -> None:
    """R-002-47."""
    waits = list(delays(lambda: drawn, backoff))
    assert len(waits) == backoff.tries - 1
    for attempt, wait in enumerate(waits):
        assert 0 <= wait <= min(backoff.cap, backoff.base * 2**attempt)
    assert all(one <= two for one, two in pairwise(waits))


def test_a_call_that_comes_back_is_not_waited_for() -> None:
    waits: list[float] = []
    assert attempts(failing(), sleep=waits.append) == "done"
    assert waits == []


def test_what_is_unavailable_is_tried_again() -> None:
    waits: list[float] = []
    call = failing(UnavailableError("a"), UnavailableError("b"))
    assert attempts(call, sleep=waits.append, random=most) == "done"
    assert waits == [1, 2]


def test_after_the_last_try_its_error_is_raised_without_a_wait() -> None:
    """R-002-49."""
    waits: list[float] = []
    with pytest.raises(UnavailableError, match="try 5"):
        attempts(failing(*(UnavailableError(f"try {n}") for n in range(1, 7))), sleep=waits.append, random=most)
    assert waits == [1, 2, 4, 8]


def test_what_is_refused_is_never_tried_again() -> None:
    waits: list[float] = []
    with pytest.raises(RefusedError):
        attempts(failing(RefusedError("no")), sleep=waits.append)
    assert waits == []


def test_the_caller_may_say_what_is_worth_another_try() -> None:
    call = failing(KeyError("conflict"))
    assert attempts(call, lambda error: isinstance(error, KeyError), sleep=lambda _: None) == "done"


@pytest.mark.parametrize(("after", "waited"), [(7.0, 7.0), (LONGEST_WAIT, LONGEST_WAIT), (0.0, 1.0), (-3.0, 1.0)])
def test_the_wait_that_was_asked_for_wins_unless_it_has_passed(after: float, waited: float) -> None:
    """R-002-44, R-002-46."""
    waits: list[float] = []
    attempts(failing(UnavailableError("later", after=after)), sleep=waits.append, random=most)
    assert waits == [waited]


def test_a_long_wait_is_left_to_the_caller() -> None:
    waits: list[float] = []
    with pytest.raises(UnavailableError) as caught:
        attempts(failing(UnavailableError("later", after=LONGEST_WAIT + 1)), sleep=waits.append)
    assert caught.value.after == LONGEST_WAIT + 1
    assert waits == []
