"""One module a kind: a server, and the tables that the shared suite reads.

A kind's module has `serving()`, which yields a `Source` with every table named below. Where a kind
differs by its nature, its module has `DIFFERENT`: the shared test that is left out, and the test of the
kind's own that stands in its place, with the reason. `DECLARED` spells the types of tables that every kind
gets alike, by their encoding; `RANDOM` has the types of random tables, each with a strategy for its values.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

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
    "pg_mine",
    "db_mine",
    "config",
    "a$b",
    "sys",
)
"""Tables of one row each: a key of the table's own name, which is 7, and a `note`."""


Rows = Sequence[Sequence[Any]]
Create = Callable[[str, Mapping[str, str], Sequence[str], Rows], None]


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """A served kind, and the way to its server beside the engine.

    `active` counts what the server is doing for an application's name. The user `reader` may read
    `events` alone. Reading the table `slow` takes a minute before the first row. While `held` is entered,
    by an application's name, its discovery waits at the server.

    `create` makes a table anew, in the default schema: its name, its columns' declared types by name, the names of its
    key, and its rows as values of Python; of several rows with one key one is kept. `stored` gives its rows by a SELECT
    of the kind's own, in the order of the key; a value is one of Python, or its text in the result.
    """

    to: Connection
    secret: Secret
    reader_password: str
    run: Callable[[str], Rows]
    active: Callable[[str], int]
    create: Create
    stored: Callable[[str, Sequence[str]], Rows]
    default_schema: str = "public"
    odd_names: Sequence[str] = ODD_NAMES
    tls_required: str = "require"
    held: Callable[[str], AbstractContextManager[None]] | None = None


def shown(value: Any) -> str | None:
    """Write a value of Python as the text that it has in a result, without quotes (`design.md` §7.2)."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case date():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def given(kind: str, port: int) -> tuple[Connection, Secret] | None:
    """Return the server that `FETCHER_TEST_<KIND>_DSN` names as `user:password@host:port/database`, if it is set."""
    address = os.environ.get(f"FETCHER_TEST_{kind.upper()}_DSN")
    if not address:
        return None
    parts = urlsplit(f"//{address.partition('://')[2] or address}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    to = Connection("source", kind, parts.hostname or "", parts.port or port, unquote(parts.path[1:]), user)
    return to, Secret(password)


def own_name() -> str:
    """Make a name for a database of our own on a server that is given."""
    return f"fetcher_contract_{os.urandom(4).hex()}"
