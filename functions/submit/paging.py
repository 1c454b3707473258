"""Lists page by page: rows are read until the page is full, the list ends, or enough were read."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

LIST_READ = 1_000
"""Rows that one request reads at most; a filter that matches few gives a short page and a cursor."""

T = TypeVar("T")
Row = Mapping[str, Any]
Read = Callable[[str | None, int], tuple[list[Row], str | None]]


def page(read: Read, chosen: Callable[[Row], T | None], limit: int, before: str | None) -> tuple[list[T], str | None]:
    """Return what `chosen` makes of up to `limit` rows, and the position behind the last one read.

    `read(before, most)` gives rows newest first, and where the next ones begin, if any.
    """
    found: list[T] = []
    seen = 0
    while len(found) < limit and seen < LIST_READ:
        rows, following = read(before, min(100, LIST_READ - seen))
        seen += len(rows)
        for row in rows:
            before = row["GSI1SK"]
            kept = chosen(row)
            if kept is not None:
                found.append(kept)
            if len(found) == limit and row is not rows[-1]:
                return found, before
        if following is None:
            return found, None
        before = following
    return found, before
