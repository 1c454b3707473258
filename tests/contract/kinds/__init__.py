"""One module a kind: a server, and the tables that the shared suite reads.

A kind's module has `serving()`, which yields a `Source` with every table named below. Where a kind
differs by its nature, its module has `DIFFERENT`: the shared test that is left out, and the test of the
kind's own that stands in its place, with the reason.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from fetcher.model import Connection, Secret

EVENTS = 500
"""Rows of `events`: id 1…, `kind` has five values (ties), `note` is NULL in every third row,
`amount` = id / 100 with two digits, `at` = one minute a row from 2026-01-01 00:00:30, `flag` = even."""

MILLION = 1_000_000
HEAVY = 150
"""Rows of `heavy`, of 1 MiB each."""


OTHER_SCHEMA = "other"
ODD_NAMES = (
    "a.b",
    'say "hi"',
    "two words",
    "100%s",
    "%(x)s",
    "Größe 🎉",
    "MixedCase",
    "semi;colon",
    "it's",
    "other.events",
    "t",
    "select",
)
"""Tables of one row each: a key of the table's own name, which is 7, and a `note`."""


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """A served kind, and the way to its server beside the engine.

    `active` counts what the server is doing for an application's name. The user `reader` may read
    `events` alone. Reading the table `slow` takes a minute before the first row. While `held` is entered,
    by an application's name, its discovery waits at the server.
    """

    to: Connection
    secret: Secret
    reader_password: str
    run: Callable[[str], Sequence[Sequence[Any]]]
    active: Callable[[str], int]
    default_schema: str = "public"
    odd_names: Sequence[str] = ODD_NAMES
    tls_required: str = "require"
    held: Callable[[str], AbstractContextManager[None]] | None = None
