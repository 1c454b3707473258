"""The clocks of an attempt: what is looked at before each page."""

import pytest

from fetcher.core.stop import Paused, Stop
from fetcher.settings import load

LAMBDA_SECONDS = 900.0


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
