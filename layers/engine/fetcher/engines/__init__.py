"""The folder is the registry: each public module here, or in a folder added to `__path__`, is one kind of source.

To add one, add `<kind>.py` with `connect` and `NAMING`, and its server in `tests/contract/kinds`.
A driver is imported when its kind is first asked for, so a cold start pays for one.
"""

import pkgutil
from importlib import import_module
from typing import Protocol, cast

from fetcher.errors import InvalidRequestError
from fetcher.ports import Connect, Naming


class Engine(Protocol):
    """What a module of this folder offers."""

    @property
    def connect(self) -> Connect:
        """Open a session."""
        ...

    @property
    def NAMING(self) -> Naming:  # noqa: N802 - the module's constant
        """Resolve the table names of a request."""
        ...


def kinds() -> tuple[str, ...]:
    """Return every known kind, lower-case and sorted, without importing a driver."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")))


def engine(kind: str) -> Engine:
    """Import the engine of a kind, with its driver; an unknown kind is an `InvalidRequestError`."""
    if kind not in kinds():
        raise InvalidRequestError(f"unknown kind of source {kind!r}; known: {', '.join(kinds())}")
    return cast("Engine", import_module(f"{__name__}.{kind}"))
