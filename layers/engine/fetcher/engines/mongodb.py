"""MongoDB 7 and later, by pymongo: documents in the order of `_id`, their BSON written as JSON as it arrives."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from fetcher.engines._mongodb.catalog import discovered
from fetcher.engines._mongodb.client import Client, descriptor, opened, seen_as
from fetcher.engines._mongodb.cursor import Cursor, Database, killed
from fetcher.engines._mongodb.documents import pages, projection
from fetcher.engines._mongodb.errors import explained, refused
from fetcher.engines._mongodb.filters import filters
from fetcher.engines._mongodb.keys import KEY, behind
from fetcher.engines._mongodb.listing import Identity, identities, listed, named
from fetcher.engines._mongodb.names import Collections
from fetcher.engines._watchdog import Watchdog
from fetcher.errors import ChangedError, FetcherError, RefusedError
from fetcher.model import Catalog, Connection, Page, Position, Query, Secret

CANCEL_SECONDS = 2.0
PROBE_SECONDS = 5.0
MONGOS = "isdbgrid"
"""What the router of a sharded cluster says of itself."""

NAMING = Collections()

log = logging.getLogger(__name__)


class MongoDBSession:
    """A `Session` that is `Repeating`: it sees what a majority has, but each batch as it is then.

    Through `mongos` any collection may be `sharded`, and by another key than `_id`: then it is unique on each shard
    alone. Which ones are, only users with rights on the cluster may ask.
    """

    def __init__(
        self, database: Database, watchdog: Watchdog, isolation: str, other: "_Other", *, sharded: bool
    ) -> None:
        self.isolation = isolation
        self._database = database
        self._watchdog = watchdog
        self._other = other
        self._sharded = sharded
        self._planned: dict[str, Identity] = {}

    def discover(self, scope: Sequence[str]) -> Catalog:
        """Describe these collections, or all, by a bounded sample of each, and note what their names stand for."""
        with self._watchdog.waiting(explained):
            found = listed(self._database, scope)
            self._planned |= identities(self._database, found)
            return discovered(self._database, found, sharded=self._sharded)

    def collections(self) -> list[str]:
        """Name every collection and view, sorted."""
        with self._watchdog.waiting(explained):
            return named(self._database)

    def read(self, query: Query, after: Position | None) -> Iterator[Page]:
        """Yield pages of documents; a read that is left half-way is forgotten by the server.

        Raises `ChangedError` behind the last one if the collection is not the one that was discovered.
        """
        with self._watchdog.waiting(explained):
            planned = self._planned.get(query.path[-1]) or self._identity(query)
            cursor = self._started(query, after)
        self._other.cursors[id(cursor)] = cursor
        rows = pages(cursor, query, self._watchdog.beat, twins=self._sharded)
        try:
            while (page := self._next(rows)) is not None:
                yield page
        finally:
            if not self._watchdog.ended:  # else whoever ended it looks for the cursor
                del self._other.cursors[id(cursor)]
                with suppress(PyMongoError), pymongo.timeout(CANCEL_SECONDS):
                    cursor.kill()
        with self._watchdog.waiting(explained):
            if not planned or planned != self._identity(query):
                raise ChangedError("a collection was dropped or replaced while it was read; it has to be read again")

    def repeats(self, query: Query) -> bool:
        """Whether an `_id` may come twice: from two shards, or by an index of a filtered field that changes."""
        return self._sharded or bool(query.conditions)

    def _identity(self, query: Query) -> Identity:
        """Tell what the name stands for now; nothing, if it is not there."""
        name = query.path[-1]
        return identities(self._database, listed(self._database, [name])).get(name, {})

    def _started(self, query: Query, after: Position | None) -> Cursor:
        terms = [] if after is None else [behind(after)]
        sort = {"sort": {KEY: 1}} if query.key else {}
        options = {"filter": filters(query.conditions, *terms), **sort, **projection(query)}
        return self._database.find(query.path[-1], round(1000 * self._watchdog.left()), options)

    def _next(self, rows: Iterator[Page]) -> Page | None:
        with self._watchdog.waiting(explained):
            return next(rows, None)

    def cancel(self) -> None:
        """End cursors and what works for us over a second connection, then drop the socket whatever happened."""
        self._watchdog.note("canceled")
        try:
            self._other.end()
        except Exception:
            log.debug("the cancel request did not get through", exc_info=True)
        finally:
            self._watchdog.end("canceled")


class _Other:
    """Asks and tells the server about a session over a connection of its own."""

    def __init__(self, to: Connection, secret: Secret, application: str) -> None:
        self.connection: int | None = None
        self.cursors: dict[int, Cursor] = {}
        self._database = to.database
        self._application = seen_as(application)
        self._opened = partial(opened, to, secret, application=application)

    def working(self) -> bool:
        """Whether the server computes for the session."""
        try:
            with self._client(PROBE_SECONDS) as client:
                return bool(self._operations(client))
        except (FetcherError, PyMongoError, OSError):
            return False

    def end(self) -> None:
        """Kill the session's operations, and cursors that wait for their next batch."""
        cursors = [(cursor.name, cursor.id) for cursor in list(self.cursors.values()) if cursor.id]
        with self._client(CANCEL_SECONDS) as client:
            for operation in self._operations(client):
                client.admin.command({"killOp": 1, "op": operation["opid"]})
            for name, cursor in cursors:
                client[self._database].command(killed(name, cursor))

    def _operations(self, client: Client) -> Sequence[dict[str, Any]]:
        """Find what works for the session; every user may see and end what is his own.

        Connections are counted from a server's start, so the number alone may be of another of his by now.
        """
        if self.connection is None:
            return ()
        found = client.admin.command({"currentOp": 1, "$ownOps": True, "connectionId": self.connection})
        return [each for each in found["inprog"] if each.get("active") and self._is_ours(each)]

    def _is_ours(self, operation: Mapping[str, Any]) -> bool:
        named = operation.get("clientMetadata", {}).get("application", {}).get("name")
        application = operation.get("appName", named)
        return (operation.get("connectionId"), application) == (self.connection, self._application)

    @contextmanager
    def _client(self, seconds: float) -> Iterator[Client]:
        with pymongo.timeout(seconds), self._opened(seconds=seconds) as client:
            yield client


@contextmanager
def connect(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[MongoDBSession]:
    """Open a session on the checked address itself; no other member of a replica set is looked for."""
    other = _Other(to, secret, application)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog(seconds, working=other.working, abandon=other.end))
        with watchdog.waiting(refused, blind=True):
            client = stack.enter_context(opened(to, secret, seconds=seconds, application=application))
            watchdog.guard(descriptor(client))
        with watchdog.waiting(explained):
            hello = client.admin.command("hello")
            _must_exist(client, to.database)
            other.connection = hello.get("connectionId")
            sharded = hello.get("msg") == MONGOS
            concern = "majority" if "setName" in hello or sharded else "local"
            database = stack.enter_context(closing(Database(client, to.database, concern)))
        yield MongoDBSession(database, watchdog, f"read concern {concern}", other, sharded=sharded)


def _must_exist(client: Client, name: str) -> None:
    """MongoDB would take an unknown database for an empty one. Who may not list databases is let pass."""
    try:
        listed = client.admin.command({"listDatabases": 1, "nameOnly": True, "filter": {"name": name}})
    except OperationFailure:
        return
    if not listed["databases"]:
        raise RefusedError("MongoDB has no such database")
