"""How long to wait before the next try, and when to give up; pure, with the counts kept by the caller.

The counts are on the extraction's record, so that neither a crash nor a hand-over gives it new tries; a
checkpoint does, because the source has given a part since; the extraction's own clock bounds them all.
"""

import random as randomness
from collections.abc import Callable
from dataclasses import dataclass

from fetcher.errors import UnavailableError

LONGEST_WAIT = 20.0
"""Seconds worth sleeping through. A longer wait is left by giving everything back."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`tries` in all, so one wait fewer; each wait is even in [0, min(`cap`, `base` · 2ⁿ)] seconds."""

    base: float = 1.0
    cap: float = 10.0
    tries: int = 5

    def bound(self, failed: int) -> float:
        """The longest wait after so many tries in vain, one or more."""
        return float(min(self.cap, self.base * 2.0 ** min(failed - 1, 32)))


STANDARD = Backoff()
FOR_A_SLOT = Backoff(base=2.0, cap=60.0)
"""Seconds first; later a minute, which is how long a slot may be free before somebody comes for it."""


def wait_after(
    failed: int,
    error: UnavailableError,
    random: Callable[[], float] = randomness.random,
    backoff: Backoff = STANDARD,
) -> float | None:
    """Return the seconds to wait after the `failed`th try in vain, or None when it was the last.

    What the source asked for replaces ours, unless that moment has passed (R-002-44, R-002-46, R-002-47, R-002-49).
    """
    if failed >= backoff.tries:
        return None
    if error.retry_after is not None and error.retry_after > 0:
        return error.retry_after
    return random() * backoff.bound(failed)


def slot_delay(waits: int, random: Callable[[], float] = randomness.random) -> float:
    """Return the seconds until a slot is asked for again, after so many waits; never less than half the bound."""
    return FOR_A_SLOT.bound(waits + 1) * (0.5 + random() / 2)
