"""Discovered schemas, kept for five minutes: by tenant, connection, version and scope (`design.md` §4, item 2)."""

import gzip
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import dynamo
from fetcher.aws.stored import Stored
from fetcher.core.faults import Point, reach
from fetcher.model import Catalog, Column, Encoding, Table
from fetcher.ports import Clock

KEEP_MS = 300_000
LARGEST = 350_000
"""Bytes of a compressed schema that still fit an item; a larger one is simply discovered each time."""

_log = logging.getLogger(__name__)


class Schemas:
    """The schema cache in the table `main`."""

    def __init__(self, client: Any, table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def get(self, stored: Stored, scope: Sequence[str]) -> Catalog | None:
        """Return what was discovered within the last five minutes; a cache that fails is an empty one."""
        try:
            answer = self._client.get_item(TableName=self._table, Key=dynamo.marshal(_key(stored, scope)))
        except (ClientError, BotoCoreError):
            _log.warning("the schema cache could not be read", exc_info=True)
            return None
        item = answer.get("Item")
        if item is None or int(item["fetchedAt"]["N"]) + KEEP_MS < self._clock():
            return None
        return _catalog(json.loads(gzip.decompress(item["tables"]["B"])))

    def put(self, stored: Stored, scope: Sequence[str], catalog: Catalog) -> None:
        """Keep what was just discovered."""
        body = gzip.compress(json.dumps(_plain(catalog)).encode(), compresslevel=6, mtime=0)
        if len(body) > LARGEST:
            _log.info("a schema is too large to be cached", extra={"bytes": len(body)})
            return
        now = self._clock()
        item = {**_key(stored, scope), "fetchedAt": now, "expiresAt": (now + KEEP_MS) // 1000}
        try:
            self._client.put_item(TableName=self._table, Item={**dynamo.marshal(item), "tables": {"B": body}})
        except (ClientError, BotoCoreError):
            _log.warning("the schema could not be cached", exc_info=True)
        else:
            reach(Point.REMEMBERED)


def _key(stored: Stored, scope: Sequence[str]) -> dict[str, str]:
    digest = hashlib.sha256("\x00".join(scope).encode()).hexdigest()[:16]
    return {"PK": f"T#{stored.tenant}#SOURCE#{stored.id}", "SK": f"SCHEMA#{stored.version:06d}#{digest}"}


def _plain(catalog: Catalog) -> list[dict[str, Any]]:
    return [asdict(table) for table in catalog.tables.values()]


def _catalog(tables: Sequence[Mapping[str, Any]]) -> Catalog:
    found = [
        Table(tuple(table["path"]), tuple(map(_column, table["columns"])), tuple(table["key"])) for table in tables
    ]
    return Catalog({table.path: table for table in found})


def _column(column: Mapping[str, Any]) -> Column:
    element = column["element"]
    return Column(
        column["name"],
        column["type"],
        Encoding(column["encoding"]),
        column["nullable"],
        None if element is None else Encoding(element),
    )
