"""Waiting between tries: full jitter, bounded; pure, with randomness and sleep given from outside."""

import random as randomness
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from fetcher.errors import UnavailableError

T = TypeVar("T")

LONGEST_WAIT = 20.0
"""Seconds worth sleeping through. A longer wait is the caller's: it gives its time back first."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`tries` in all, so one wait fewer; each wait is even in [0, min(`cap`, `base` · 2ⁿ)] seconds."""

    base: float = 1.0
    cap: float = 10.0
    tries: int = 5


STANDARD = Backoff()


def delays(random: Callable[[], float] = randomness.random, backoff: Backoff = STANDARD) -> Iterator[float]:
    """Yield the waits after each try but the last (R-002-47, R-002-49)."""
    for attempt in range(backoff.tries - 1):
        yield random() * min(backoff.cap, backoff.base * 2.0**attempt)


def unavailable(error: Exception) -> bool:
    """Whether the family of errors says: the same call, later."""
    return isinstance(error, UnavailableError)


def attempts(
    call: Callable[[], T],
    retryable: Callable[[Exception], bool] = unavailable,
    sleep: Callable[[float], object] = time.sleep,
    random: Callable[[], float] = randomness.random,
    backoff: Backoff = STANDARD,
) -> T:
    """Call until it succeeds; raises the last error as it is.

    A wait that the other side asked for replaces ours; one over `LONGEST_WAIT` ends the tries.
    """
    for delay in delays(random, backoff):
        try:
            return call()
        except Exception as error:
            wait = _asked(error, delay)
            if not retryable(error) or wait > LONGEST_WAIT:
                raise
        sleep(wait)
    return call()


def _asked(error: Exception, delay: float) -> float:
    """Zero or less means that the moment has passed: back off."""
    after = error.after if isinstance(error, UnavailableError) else None
    return after if after is not None and after > 0 else delay
