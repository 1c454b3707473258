"""Collections and views, each with the fields of a bounded sample, read in a few commands.

The sample is the first and the last documents by `_id`, so that it only changes where documents come and go.
"""

from collections.abc import Iterator, Sequence

from pymongo.errors import ExecutionTimeout

from fetcher.engines._mongodb.cursor import Batch, Command, Database
from fetcher.engines._mongodb.fields import Fields
from fetcher.engines._mongodb.keys import KEY
from fetcher.engines._mongodb.listing import Listed
from fetcher.engines._mongodb.names import CLOSED, OPEN, REST
from fetcher.model import Catalog, Column, Encoding, Table

SAMPLE, SAMPLE_BYTES = 500, 2 * 1024 * 1024
"""At each end: so many documents, or so many bytes and the rest of a batch."""
SAMPLE_MS = 10_000
"""A view that computes for longer is not sampled: it is read as it comes."""

OTHER_ORDER: Command = {"collation": {}}
"""Options that are not shown may name an order of texts in which different ones are equal."""


def discovered(database: Database, found: Sequence[Listed], *, sharded: bool = False) -> Catalog:
    """Describe these collections and views by their fields.

    `sharded` may be collections whose `_id` is no key: twins on two shards are told from neighbours only where texts
    are in the order of their bytes.
    """
    tables = [_table(database, each, sharded=sharded) for each in found]
    return Catalog({table.path: table for table in tables})


def _table(database: Database, described: Listed, *, sharded: bool) -> Table:
    name, options = str(described["name"]), described.get("options", OTHER_ORDER) or {}
    keyed = described.get("type", "collection") == "collection" and not (sharded and "collation" in options)
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
