"""The cache of schemas: an item, or nothing."""

import json
from secrets import token_hex
from typing import Any

from fetcher.aws.schemas import LARGEST, Schemas
from fetcher.aws.stored import Stored
from fetcher.model import Catalog, Column, Connection, Encoding, Secret, Table
from tests.unit.test_checkpoint import ITEM_LIMIT


class Recording:
    """Stands in for DynamoDB, which has no say in what is sent to it."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def put_item(self, *, Item: dict[str, Any], **_: Any) -> None:  # noqa: N803 - AWS's name
        self.items.append(Item)


def catalog(columns: int) -> Catalog:
    """One table whose names can hardly be compressed."""
    named = tuple(Column(token_hex(60), "text", Encoding.TEXT, nullable=True) for _ in range(columns))
    return Catalog({("public", "t"): Table(("public", "t"), named, ())})


def kept(columns: int) -> list[dict[str, Any]]:
    """What is written of a schema of so many columns, for the longest tenant."""
    to = Connection("n" * 100, "postgresql", "h", 5432, "d", "u")
    client = Recording()
    schemas = Schemas(client, "main", lambda: 1_800_000_000_000)
    schemas.put(Stored("t" * 256, "i" * 36, "p", to, Secret("s"), "", "", ""), ["public"], catalog(columns))
    return client.items


def test_the_largest_schema_that_is_kept_is_an_item_and_a_larger_one_is_not_kept() -> None:
    """R-AWS-3: what does not fit is discovered each time instead."""
    [item] = kept(4_500)
    body = item.pop("tables")["B"]
    assert LARGEST * 3 // 4 < len(body) <= LARGEST
    assert LARGEST + len(json.dumps(item)) < ITEM_LIMIT
    assert kept(9_000) == []
