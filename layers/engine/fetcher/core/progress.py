"""How far an extraction is: counted by the reading threads, read by the heartbeat."""

from threading import Lock
from typing import Any


class Progress:
    """Rows, bytes and tables so far. `current` is the table most recently begun."""

    def __init__(self, tables: int) -> None:
        self._lock = Lock()
        self._rows = 0
        self._bytes = 0
        self._done = 0
        self._total = tables
        self._current: str | None = None

    def began(self, datasource: str, table: str) -> None:
        """A table is being read."""
        with self._lock:
            self._current = f"{datasource}/{table}"

    def page(self, rows: int, size: int) -> None:
        """A page of a table was read."""
        with self._lock:
            self._rows += rows
            self._bytes += size

    def ended(self) -> None:
        """A table was read to its end."""
        with self._lock:
            self._done += 1

    def shown(self) -> dict[str, Any]:
        """Render what the job shows while it runs (`design.md` §6.1)."""
        with self._lock:
            shown: dict[str, Any] = {
                "rows": self._rows,
                "bytes": self._bytes,
                "tables": {"done": self._done, "total": self._total},
            }
            if self._current is not None and self._done < self._total:
                shown["current"] = self._current
            return shown
