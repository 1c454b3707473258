"""Named points at which a test may kill the process: every boundary of `design.md` §6.

A point does nothing unless the environment arms it, which the template allows only where the stage is
`local`. Names read «step, before or after, effect».
"""

import os
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

ARMED = "FETCHER_FAULT"
"""`<point>` kills on every visit; `<point>:<file>` kills once and leaves the file behind."""


class Point(StrEnum):
    """A boundary between two effects."""

    BODY_STORED = "e-after-body"
    ACCEPTED = "f-after-transaction"
    SENT = "g-after-send"
    DISPATCHED = "g-after-mark"
    CLAIMED = "h-after-claim"
    PLANNED = "i-after-plan"
    FIRST_PAGE = "k-after-first-page"
    PART_STORED = "k-after-part"
    READ = "k-after-read"
    SEALED = "l-after-seal"
    STORED = "l-after-object"
    MANIFEST_STORED = "l-after-manifest"
    HANDED_OVER = "k-after-hand-over"
    FINISHED = "m-after-finish"
    NOTIFIED = "n-after-send"
    PUBLISHED = "n-after-publish"
    MARKED = "n-after-mark"


def reach(point: Point, env: Mapping[str, str] = os.environ) -> None:
    """Die here by SIGKILL if this point is armed; no handler, no `finally`, as in a real crash."""
    armed = env.get(ARMED)
    if not armed or env.get("FETCHER_STAGE") != "local":
        return
    name, _, once = armed.partition(":")
    if name != point or (once and Path(once).exists()):
        return
    if once:
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)
