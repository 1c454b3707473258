"""Named points at which a test may kill the process: every boundary of `design.md` §6.

A point does nothing unless the environment arms it, which the template allows only where the stage is
`local`. Names read «step, before or after, effect».
"""

import os
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from random import random

ARMED = "FETCHER_FAULT"
"""`<point>` kills on every visit; `<point>:<file>` once, leaving the file behind; `2%` at any point, by chance.

Several stand behind each other, with commas between them.
"""


class Point(StrEnum):
    """A boundary between two effects on something outside the process, in the order of a job's life.

    What several functions do is one point: an end is written by extract, sweeper, dead letter and cancel
    alike. Where nothing lies between two effects, the point after the first is the one before the second.
    """

    # submit: a job is posted
    STORING_BODY = "e-before-body"
    BODY_STORED = "e-after-body"
    ACCEPTING = "f-before-transaction"
    ACCEPTED = "f-after-transaction"
    SENT = "g-after-send"
    DISPATCHED = "g-after-mark"

    # submit: a connection is created, changed, assigned or deleted; tested
    CHANGING = "connection-before-change"
    CHANGED = "connection-after-change"
    RATED = "test-after-rate"

    # submit: a cancel; a result is erased
    CANCELING = "cancel-before-mark"
    CANCEL_MARKED = "cancel-after-mark"
    ERASING = "erase-before-mark"
    ERASED = "erase-after-mark"
    OBJECTS_ERASED = "erase-after-objects"

    # extract: claim, protection of the sources, plan
    CLAIMING = "h-before-claim"
    CLAIMED = "h-after-claim"
    BEATEN = "h-after-heartbeat"
    RENEWING = "h-before-slot-renewal"
    RELEASING = "h-before-release"
    RELEASED = "h-after-release"
    HIDDEN = "h-after-visibility"
    TAKING = "j-before-slot"
    TAKEN = "j-after-slot"
    CLOSING = "j-before-gate"
    CLOSED = "j-after-gate"
    OPENED = "i-after-session"
    REMEMBERED = "i-after-schema"
    PLANNED = "i-after-plan"

    # extract: read, write, checkpoint
    BEGUN = "k-after-begin"
    DROPPED = "k-after-drop"
    GONE_ON = "k-after-go-on"
    FIRST_PAGE = "k-after-first-page"
    UPLOAD_MADE = "k-after-upload"
    UPLOAD_NOTED = "k-after-note"
    PART_SENT = "k-after-part-sent"
    PART_STORED = "k-after-part"
    RETRIED = "k-after-retry"
    HANDING_OVER = "k-before-hand-over"
    HANDED_OVER = "k-after-hand-over"
    NEXT_SENT = "k-after-next-send"
    READ = "k-after-read"

    # extract: the result and its manifest are stored
    SEALED = "l-after-seal"
    STORED = "l-after-object"
    MANIFEST_STORED = "l-after-manifest"

    # whoever ends a job: extract, sweeper, dead letter, cancel
    ENDING = "m-before-end"
    FINISHED = "m-after-end"
    ABORTED = "m-after-abort"
    OBJECT_DELETED = "m-after-object"
    EACH_DELETED = "m-after-each"
    CLEANED = "m-after-clean"
    FREEING = "m-before-free"
    FREED = "m-after-free"
    NOTIFIED = "n-after-send"

    # notify
    PUBLISHING = "n-before-publish"
    PUBLISHED = "n-after-publish"
    MARKED = "n-after-mark"

    # sweeper
    SWEEPING = "p-before-take"
    SWEPT = "p-after-take"
    SENT_AGAIN = "p-after-send"
    GIVING_BACK = "p-before-give-back"
    GIVEN_BACK = "p-after-give-back"
    OUTBOX_SWEPT = "p-after-outbox-take"
    NOTIFIED_AGAIN = "p-after-outbox-send"


def reach(point: Point, env: Mapping[str, str] = os.environ) -> None:
    """Die here by SIGKILL if this point is armed; no handler, no `finally`, as in a real crash."""
    armed = env.get(ARMED)
    if not armed or env.get("FETCHER_STAGE") != "local":
        return
    for each in armed.split(","):
        _visit(point, each)


def _visit(point: Point, armed: str) -> None:
    name, _, once = armed.partition(":")
    if once and Path(once).exists():
        return
    if not (_by_chance(name) if name.endswith("%") else name == point):
        return
    if once:
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def _by_chance(percent: str) -> bool:
    return random() * 100 < float(percent.removesuffix("%"))
