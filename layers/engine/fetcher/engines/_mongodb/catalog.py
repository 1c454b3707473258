"""Collections and views, each with the fields of a bounded sample, read in a few commands.

The sample is the first and the last documents by `_id`, so that it only changes where documents come and go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pymongo.errors import ExecutionTimeout, OperationFailure

from fetcher.engines._mongodb.cursor import Batch, Command, Database
from fetcher.engines._mongodb.errors import UNAUTHORIZED
from fetcher.engines._mongodb.fields import Fields
from fetcher.engines._mongodb.keys import KEY
from fetcher.engines._mongodb.names import CLOSED, OPEN, REST
from fetcher.model import Catalog, Column, Encoding, Table

SAMPLE, SAMPLE_BYTES = 500, 2 * 1024 * 1024
"""At each end: so many documents, or so many bytes and the rest of a batch."""
SAMPLE_MS = 10_000
"""A view that computes for longer is not sampled: it is read as it comes."""

ALLOWED: Command = {"nameOnly": True, "authorizedCollections": True}
"""For users who may not list, but may read some collections."""

SYSTEM = "system."
"""Begins the names that MongoDB keeps to itself."""


def discovered(database: Database, names: Sequence[str]) -> Catalog:
    """Describe these collections and views, or all; the system's own are skipped by their reserved prefix."""
    chosen = {"filter": {"name": {"$in": list(names)}}} if names else {}
    tables = [_table(database, each) for each in _listed(database, chosen)]
    return Catalog({table.path: table for table in tables})


def named(database: Database) -> list[str]:
    """Name every collection and view, sorted, and look into none."""
    return [str(each["name"]) for each in _listed(database, {"nameOnly": True})]


def _listed(database: Database, chosen: Command) -> list[Mapping[str, Any]]:
    found = [each for each in _all(database, chosen) if not each["name"].startswith(SYSTEM)]
    return sorted(found, key=lambda each: str(each["name"]))


def _all(database: Database, chosen: Command) -> list[Mapping[str, Any]]:
    try:
        return database.collections(chosen)
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
        return database.collections({**chosen, **ALLOWED})


def _table(database: Database, described: Mapping[str, Any]) -> Table:
    name, options = str(described["name"]), described.get("options") or {}
    keyed = described.get("type", "collection") == "collection"
    schema = (options.get("validator") or {}).get("$jsonSchema") or {}
    fields = Fields(keyed=keyed)
    for order in ({KEY: 1}, {KEY: -1}) if keyed else ({},):
        for batch in _sample(database, name, order):
            fields.seen(batch.data, batch.starts())
    fields.declared(schema)
    rest = Column(REST, CLOSED if schema.get("additionalProperties") is False else OPEN, Encoding.DOCUMENT)
    return Table((name,), (*fields.columns(), rest), (KEY,) if keyed else ())


def _sample(database: Database, name: str, order: Command) -> Iterator[Batch]:
    """Read documents until there are enough of them, or of their bytes."""
    try:
        cursor = database.find(name, SAMPLE_MS, {"limit": SAMPLE, **({"sort": order} if order else {})})
        size = 0
        while size < SAMPLE_BYTES and (batch := cursor.batch()):
            size += len(batch.data)
            yield batch
        cursor.kill()
    except ExecutionTimeout:
        return
