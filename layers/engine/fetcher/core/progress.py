"""How far an extraction is: counted by the reading threads, read by the heartbeat."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

WINDOW = 10.0
"""Seconds that a rate looks back: long enough to be steady, short enough to show that a source slowed down."""
_STEP = 0.5
"""Seconds between two notes of the counters; pages come far more often than anybody looks."""

WAITING = "waiting for "


def waiting(progress: Mapping[str, Any], for_what: str) -> dict[str, Any]:
    """Say what the extraction waits for, in place of the table that it reads and of how fast."""
    kept = {name: value for name, value in progress.items() if name != "rate"}
    return {**kept, "current": f"{WAITING}{for_what}"}


def reading(progress: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the datasource and the table that are being read; neither while something is waited for."""
    current = str(progress.get("current", ""))
    if current.startswith(WAITING):
        return None, None
    datasource, _, table = current.partition("/")
    return datasource or None, table or None


def at_the_end(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Say what stays true when the extraction has ended: nothing is waited for any more."""
    if str(progress.get("current", "")).startswith(WAITING):
        return {name: value for name, value in progress.items() if name != "current"}
    return dict(progress)


class Progress:
    """Rows, bytes and tables so far. `current` is the table most recently begun.

    Costs no write of its own: what `shown` returns travels with the heartbeat and with each checkpoint.
    """

    def __init__(self, tables: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._rows = 0
        self._bytes = 0
        self._done = 0
        self._total = tables
        self._current: str | None = None
        self._noted: deque[tuple[float, int, int]] = deque()

    def began(self, datasource: str, table: str) -> None:
        """A table is being read."""
        with self._lock:
            self._current = f"{datasource}/{table}"
            self._note()

    def page(self, rows: int, size: int) -> None:
        """A page of a table was read."""
        with self._lock:
            self._rows += rows
            self._bytes += size
            self._note()

    def ended(self) -> None:
        """A table was read to its end."""
        with self._lock:
            self._done += 1

    def credit(self, rows: int, size: int, tables: int) -> None:
        """Begin with what earlier attempts have read; it was not read just now, so it is in no rate."""
        with self._lock:
            self._rows, self._bytes, self._done = rows, size, tables

    def anew(self) -> None:
        """Nothing of it counts after all: everything is read again."""
        self.credit(0, 0, 0)

    def shown(self) -> dict[str, Any]:
        """Render what the job shows while it runs (`design.md` §6.1); `rate` is per second, whole numbers."""
        with self._lock:
            shown: dict[str, Any] = {
                "rows": self._rows,
                "bytes": self._bytes,
                "tables": {"done": self._done, "total": self._total},
            }
            if self._current is not None and self._done < self._total:
                shown["current"] = self._current
                shown["rate"] = self._rate()
            return shown

    def _note(self) -> None:
        now = self._monotonic()
        if not self._noted or now - self._noted[-1][0] >= _STEP:
            self._noted.append((now, self._rows, self._bytes))
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop notes from before the window, but the last of them: it is where the window begins."""
        while len(self._noted) > 1 and now - self._noted[1][0] >= WINDOW:
            self._noted.popleft()

    def _rate(self) -> dict[str, int]:
        now = self._monotonic()
        self._forget(now)
        at, rows, size = self._noted[0]
        seconds = max(now - at, 1e-3)
        return {"rows": round((self._rows - rows) / seconds), "bytes": round((self._bytes - size) / seconds)}
