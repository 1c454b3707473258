"""The fields of a collection, from sampled documents and from the validator's schema, if it has one.

| observed | encoding |
|--|--|
| one type | the type's own |
| int and long | integer |
| int, long and double | float |
| binary UUIDs | uuid |
| several other types, objects, only nulls | document: any BSON value, each by its own type |

Null and missing make a field nullable and are no type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fetcher.engines._mongodb.keys import BRACKETS, KEY, TYPES
from fetcher.engines._mongodb.values import ARRAY, BINARY, LENGTH, OLD_UUID, UUID, UUID_BYTES, elements
from fetcher.model import Column, Encoding

KINDS: Mapping[str, Encoding] = {
    "double": Encoding.FLOAT,
    "string": Encoding.TEXT,
    "array": Encoding.ARRAY,
    "binData": Encoding.BINARY,
    "uuid": Encoding.UUID,
    "objectId": Encoding.TEXT,
    "bool": Encoding.BOOLEAN,
    "date": Encoding.TIMESTAMP_UTC,
    "int": Encoding.INTEGER,
    "long": Encoding.INTEGER,
    "decimal": Encoding.DECIMAL,
}
WHOLE, NUMBERS = {"int", "long"}, {"int", "long", "double"}
ORDER = [*(name for bracket in BRACKETS for name in bracket), "uuid"]
NOTHING = "null"


@dataclass(slots=True)
class _Field:
    types: set[str] = field(default_factory=set)
    members: set[str] = field(default_factory=set)
    filled: int = 0
    """Documents in which it is neither null nor missing."""


class Fields:
    """Collects what documents hold at their top level, in the order of first appearance."""

    def __init__(self, *, keyed: bool) -> None:
        self._fields: dict[str, _Field] = {KEY: _Field()} if keyed else {}
        self._keyed = keyed
        self._count = 0

    def seen(self, data: bytes, starts: Sequence[int]) -> None:
        """Take a batch of documents into account."""
        self._count += len(starts)
        for start in starts:
            for kind, name, begin, _ in elements(data, start):
                self._take(name.decode(), kind, data, begin)

    def declared(self, schema: Mapping[str, Any]) -> None:
        """Add the properties of a validator's `$jsonSchema`."""
        for name, about in (schema.get("properties") or {}).items():
            declared = about.get("bsonType", ())
            found = self._fields.setdefault(name, _Field())
            found.types |= {declared} if isinstance(declared, str) else set(declared)

    def columns(self) -> list[Column]:
        """Describe every field."""
        return [self._column(name, found) for name, found in self._fields.items()]

    def _take(self, name: str, kind: int, data: bytes, begin: int) -> None:
        found = self._fields.setdefault(name, _Field())
        found.types.add(_type(kind, data, begin))
        found.filled += TYPES[kind] != NOTHING
        if kind == ARRAY:
            found.members |= {_type(member, data, at) for member, _, at, _ in elements(data, begin)}

    def _column(self, name: str, found: _Field) -> Column:
        required = self._keyed and name == KEY
        encoding = _encoding(found.types)
        element = _encoding(found.members) if encoding is Encoding.ARRAY else None
        return Column(name, _named(found.types), encoding, not required and found.filled < self._count, element)


def _type(kind: int, data: bytes, at: int) -> str:
    if kind == BINARY and data[at + 4] in {OLD_UUID, UUID} and LENGTH(data, at)[0] == UUID_BYTES:
        return "uuid"
    return TYPES[kind]


def _encoding(types: set[str]) -> Encoding:
    present = types - {NOTHING}
    if len(present) == 1:
        return KINDS.get(present.pop(), Encoding.DOCUMENT)
    if present and present <= NUMBERS:
        return Encoding.INTEGER if present <= WHOLE else Encoding.FLOAT
    return Encoding.DOCUMENT


def _named(types: set[str]) -> str:
    present = types - {NOTHING} or {NOTHING}
    return "|".join(sorted(present, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))
