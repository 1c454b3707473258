"""Logical collections, and the physical ones behind each: `holders` is one `holders_<organization>` or several.

An organization's id has no underscore, so the last one of a name is the border: `holders_history_1` is never part
of `holders` (B-55). A scope says which collections, and of whom:

| scope | means |
|--|--|
| `holders$1` · `holders$1,2` | of these organizations, each of which must have it |
| `holders$` | of the only organization there is; refused where there are several |
| `holders$*` | of all: to look at fields, never to read rows |
| `$…` | every logical collection |
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fetcher.core.problems import pointer
from fetcher.engines._mongodb.keys import KEY
from fetcher.engines._mongodb.names import OPEN, REST, Collections
from fetcher.errors import InvalidRequestError, Problem, Where
from fetcher.model import Catalog, Column, Connection, Encoding, Table

BOUND = "bound organizations"
"""The option of a connection that was bound to a request. No query string of the operator's names it by accident."""
PINNED = "organizationId"
"""The operator's option, and the metadata's member: one id, or several; the option's are joined by commas."""
MOST = 100

ALL = "*"
BORDER = "$"
"""Never in a collection's name."""
COLLECTION = "$collection"
"""The first part of the key where several collections are one table; no request can name it."""

LOOKED_AT = 10
"""Collections of a logical one whose fields are looked at, where none is read."""

SEVERAL = "the collection belongs to several organizations; name yours in metadata.organizationId"

_ID = re.compile(r"[A-Za-z0-9-]{1,100}")


class Logical(Collections):
    """A `Naming`, a `FieldNaming` and `Schemaless`. A path is a logical name and its physical collections."""

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        """Return the requested names, each with whose collections are meant."""
        whose = _whose(connection)
        return tuple(f"{name}{BORDER}{whose}" for name in sorted(set(names)))

    def everything(self, connection: Connection) -> tuple[str, ...]:
        """Return the scope of every logical collection."""
        return (f"{BORDER}{_whose(connection)}",)

    def resolve(self, name: str, catalog: Catalog, _connection: Connection) -> tuple[str, ...] | None:
        """Return the path that begins with this name."""
        return next((path for path in catalog.tables if path[0] == name), None)

    def column(self, name: str, table: Table) -> Column | None:
        """Return what MongoDB's own naming does."""
        return None if name == COLLECTION else super().column(name, table)


def bound(to: Connection, metadata: Mapping[str, Any]) -> Connection:
    """Bind a connection to the organizations of a request; none named means the only one there is."""
    asked, pinned = _asked(metadata.get(PINNED)), _pinned(to)
    if pinned and not set(asked) <= set(pinned):
        raise _refused("this datasource is not for the organization")
    return replace(to, options={**to.options, BOUND: ",".join(asked or pinned)})


def physical(scope: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the collections behind each logical name of a scope that has them.

    Raises `InvalidRequestError` where rows of several organizations would be mixed without being asked for.
    """
    owners = _owners(names)
    found: dict[str, list[str]] = {}
    alone: set[str] = set()
    for each in scope:
        name, _, whose = each.rpartition(BORDER)
        for logical in [name] if name else sorted(owners):
            chosen = _chosen(owners.get(logical, []), whose)
            if not whose and len(alone := alone | set(chosen)) > 1:
                raise InvalidRequestError(SEVERAL, where=Where(table=logical))
            if chosen:
                found[logical] = [f"{logical}_{owner}" for owner in chosen]
    return found


def _owners(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the organizations of each logical collection, sorted."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        logical, _, owner = name.rpartition("_")
        if logical and _ID.fullmatch(owner):
            found.setdefault(logical, []).append(owner)
    return found


def _chosen(owners: Sequence[str], whose: str) -> list[str]:
    """Return whose collections are meant; none at all if one that was named has none."""
    if not whose:
        return list(owners)
    if whose == ALL:
        return list(owners[:LOOKED_AT])
    named = whose.split(",")
    return named if set(named) <= set(owners) else []


def merged(logical: str, tables: Sequence[Table]) -> Table:
    """Describe several collections as one table; a field of different types may hold any value."""
    path = (logical, *(table.path[-1] for table in tables))
    if len(tables) == 1:
        return replace(tables[0], path=path)
    columns: dict[str, Column] = {COLLECTION: Column(COLLECTION, "collection", Encoding.TEXT, nullable=False)}
    for table in tables:
        for column in table.columns:
            known = columns.get(column.name)
            columns[column.name] = column if known is None else _both(known, column)
    everywhere = {name for name in columns if all(table.column(name) for table in tables)}
    found = [
        replace(each, nullable=each.nullable or each.name not in {*everywhere, COLLECTION}) for each in columns.values()
    ]
    keyed = all(table.key for table in tables)
    return Table(path, tuple(found), (COLLECTION, KEY) if keyed else ())


def _both(one: Column, other: Column) -> Column:
    nullable = one.nullable or other.nullable
    if one.name == REST:
        return one if one.type == OPEN else other
    if (one.type, one.encoding, one.element) == (other.type, other.encoding, other.element):
        return replace(one, nullable=nullable)
    return Column(
        one.name, "|".join(sorted({*one.type.split("|"), *other.type.split("|")})), Encoding.DOCUMENT, nullable
    )


def _whose(connection: Connection) -> str:
    return connection.options.get(BOUND, ",".join(_pinned(connection)) or ALL)


def _pinned(connection: Connection) -> tuple[str, ...]:
    """Read the operator's option; one that is empty binds to nobody, and not to everybody."""
    return _asked(connection.options[PINNED].split(",")) if PINNED in connection.options else ()


def _asked(value: Any) -> tuple[str, ...]:
    """Read one id, a list of them, or none."""
    if value is None:
        return ()
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, Sequence) or not 1 <= len(ids) <= MOST or not all(map(_is_id, ids)):
        raise _refused(f"give an organization's id (letters, digits, hyphens), or a list of at most {MOST}")
    return tuple(sorted(set(ids)))


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _refused(detail: str) -> InvalidRequestError:
    problem = Problem(pointer(("metadata", PINNED)), detail)
    return InvalidRequestError(f"metadata.{PINNED}: {detail}", code="FET-0402", problems=(problem,))
