"""One stop for all that works on an extraction, and the clocks that set it."""

import pytest

from fetcher.core.stop import Paused, Stop
from fetcher.errors import LostClaimError, TimedOutError
from fetcher.settings import load
from tests.clock import Clock

LAMBDA_SECONDS = 900.0


def test_sealing_has_its_own_time_behind_the_attempts() -> None:
    """R-AWS-5: a hand-over comes half a minute later there, and at once when it failed and is read again."""
    clock = Clock()
    stop = Stop(300, 100, clock)
    with stop.put_off(30):
        clock.now += 129
        stop.check()
    with pytest.raises(Paused):
        stop.check()


def test_sealing_ends_with_its_own_time() -> None:
    """R-AWS-5: the rest of the margin is for the hand-over."""
    clock = Clock()
    stop = Stop(300, 100, clock)
    with stop.put_off(30):
        clock.now += 131
        with pytest.raises(Paused):
            stop.check()


def test_sealing_puts_off_no_other_clock() -> None:
    """Design §6: the extraction's clock and the lease end it there as anywhere."""
    clock = Clock()
    timed, lost = Stop(100, 50, clock), Stop(300, 50, clock)
    lost.renewed(clock.now + 100)
    clock.now += 101
    for stop, error in ((timed, TimedOutError), (lost, LostClaimError)):
        with stop.put_off(1_000), pytest.raises(error):
            stop.check()


def test_an_attempt_with_a_minute_left_starts_no_page() -> None:
    """R-AWS-5: the margin is sixty seconds, in which it stores, seals or hands over."""
    now = 0.0
    margin = load({}).margin_seconds
    assert margin == 60
    stop = Stop(10_000, LAMBDA_SECONDS - margin, lambda: now)
    now = LAMBDA_SECONDS - 60.001
    stop.check()
    now = LAMBDA_SECONDS - 60
    with pytest.raises(Paused):
        stop.check()
