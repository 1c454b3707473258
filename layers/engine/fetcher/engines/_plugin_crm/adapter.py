"""`plugin_crm`: an adapter around the MongoDB engine, by the public system's compatibility path.

It turns one requested table into the collections of an organization, filters on encrypted fields into filters on
their hashes, and encrypted values into clear ones. Everything else is MongoDB's engine and the shared core.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fetcher.engines import mongodb
from fetcher.engines._mongodb.keys import MISFIT
from fetcher.engines._plugin_crm import fields
from fetcher.engines._plugin_crm.cipher import opener
from fetcher.engines._plugin_crm.names import BOUND, COLLECTION, SEVERAL, Logical, bound, merged, physical
from fetcher.errors import InvalidRequestError
from fetcher.model import Catalog, Column, Connection, Page, Position, Query, Secret, Selection

NAMING = Logical()


class PluginCRMSession:
    """A `Session` that is `Decrypting` and `Repeating`, around one of MongoDB."""

    def __init__(self, inner: mongodb.MongoDBSession, to: Connection, secret: Secret) -> None:
        self.isolation = inner.isolation
        self._inner = inner
        self._to = to
        self._secret = secret

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe the logical collections of a scope, each as one table."""
        groups = physical(scope or NAMING.everything(self._to), self._inner.collections())
        names = sorted(name for group in groups.values() for name in group)
        found = self._inner.discover(names).tables if names else {}
        # One that was dropped meanwhile takes its logical collection along: half of it would pass for all.
        whole = {logical: group for logical, group in groups.items() if all((name,) in found for name in group)}
        tables = [merged(logical, [found[(name,)] for name in group]) for logical, group in whole.items()]
        return Catalog({table.path: table for table in tables})

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield the pages of one collection after the other; a position also says in which."""
        collections = query.path[1:]
        if len(collections) > 1 and BOUND not in self._to.options:
            raise InvalidRequestError(SEVERAL)
        opened = opener(fields.spots(query), self._secret.encryption_key)
        inner = self._inner_query(query)
        start, position = _place(collections, after)
        for collection in collections[start:]:
            for page in self._inner.read(replace(inner, path=(collection,)), position):
                yield Page(opened(page.body), page.rows, _in(collection, page.position))
            position = None

    def cancel(self) -> None:
        """Cancel what MongoDB does for the session."""
        self._inner.cancel()

    def decrypted(self, query: Query) -> tuple[str, ...]:
        """Name the encrypted fields that a query reads."""
        return fields.decrypted(query)

    def repeats(self, query: Query) -> bool:
        """Whether MongoDB may deliver an `_id` twice."""
        return self._inner.repeats(query)

    def _inner_query(self, query: Query) -> Query:
        def known(columns: Sequence[Column]) -> tuple[Column, ...]:
            return tuple(column for column in columns if column.name != COLLECTION)

        conditions = fields.rewritten(query.conditions, self._secret.hash_key)
        return replace(query, columns=known(query.columns), key=known(query.key), conditions=conditions)


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[PluginCRMSession]:
    """Open a session of MongoDB. A connection that no request was bound to may look at fields, not mix rows."""
    with mongodb.connect(to, secret, seconds=seconds, application=application) as inner:
        yield PluginCRMSession(inner, to, secret)


def narrowed(to: Connection, selections: Sequence[Selection], metadata: Mapping[str, Any]) -> Connection:
    """Bind a connection to the organizations of a request, and refuse filters that hashes cannot answer."""
    fields.check(to.name, selections)
    return bound(to, metadata)


def _place(collections: Sequence[str], after: Position | None) -> tuple[int, Position | None]:
    """Return from which collection a read goes on, and behind what in it."""
    if after is None:
        return 0, None
    (kind, name), *rest = after.values or ((None, None),)
    if kind != COLLECTION or name not in collections:
        raise InvalidRequestError(MISFIT)
    return collections.index(name), Position(tuple(rest))


def _in(collection: str, position: Position | None) -> Position | None:
    return None if position is None else Position(((COLLECTION, collection), *position.values))
