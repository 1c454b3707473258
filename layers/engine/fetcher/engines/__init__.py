"""The folder is the registry: each public module here, or in a folder added to `__path__`, is one kind of source.

To add one, add `<kind>.py` with `connect` and `NAMING`, and its server in `tests/contract/kinds`.
A driver is imported when its kind is first asked for, so a cold start pays for one.
An adapter is a kind around another kind's engine; only the operator can set one up, so it is not listed.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from fetcher.core.kinds import PLUGIN_CRM
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Selection
from fetcher.ports import Connect, Naming, Narrowing

ADAPTERS: Mapping[str, str] = {PLUGIN_CRM: "_plugin_crm.adapter"}


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
    if kind not in kinds() and kind not in ADAPTERS:
        raise InvalidRequestError(f"unknown kind of source {kind!r}; known: {', '.join(kinds())}")
    return cast("Engine", import_module(f"{__name__}.{ADAPTERS.get(kind, kind)}"))


def narrowed(to: Connection, selections: Sequence[Selection], metadata: Mapping[str, Any]) -> Connection:
    """Bind a connection to one request, where its kind asks for that; without importing a driver elsewhere.

    Raises `InvalidRequestError` for what the source can never answer.
    """
    if to.kind not in ADAPTERS:
        return to
    offered = engine(to.kind)
    return offered.narrowed(to, selections, metadata) if isinstance(offered, Narrowing) else to
