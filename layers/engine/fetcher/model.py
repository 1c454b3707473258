"""The words of the domain: plain, frozen, and free of any driver or AWS type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "between", "in", "nin", "like"]
OPERATORS: tuple[Operator, ...] = ("eq", "ne", "gt", "gte", "lt", "lte", "between", "in", "nin", "like")

WILDCARD = ("*",)

DEFAULT_WORKERS, MOST_WORKERS = 5, 50
"""Extractions that may read one connection at once: by default, and at most."""

UNSAMPLED = "unsampled"
"""The type of a field that a schemaless source may have although no sample showed it."""


class Encoding(StrEnum):
    """How a source value becomes JSON: the rows of `design.md` §7.2, named in the manifest."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_UTC = "timestamp-utc"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    ARRAY = "array"
    BINARY = "binary"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a source is. Secrets travel separately and never live in this type.

    `address` is the checked IP to connect to when the host guard pinned one; `host` stays
    the name, for certificates and for messages.
    """

    name: str
    kind: str
    host: str
    port: int
    database: str
    user: str
    schema: str | None = None
    tls_mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    address: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """What opens a connection, and values in it. It has no `repr`, so that no log line can hold it.

    `hash_key` is text, `encryption_key` hex; only sources whose values are stored encrypted have them.
    """

    password: str
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    hash_key: str | None = None
    encryption_key: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column or field as the source declares it.

    `type` is the source's own name for it, such as `numeric(12,2)`; `element` is the encoding
    of an array's members and None elsewhere.
    """

    name: str
    type: str
    encoding: Encoding
    nullable: bool = True
    element: Encoding | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table, view or collection that a source offers.

    `path` is the fully qualified name, schema first where the kind has schemas. `key` names the
    columns of a unique, not-null key usable as a sort key; empty when there is none.
    """

    path: tuple[str, ...]
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def column(self, name: str) -> Column | None:
        """Return the column of exactly this name."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables discovered in a scope, by path."""

    tables: Mapping[tuple[str, ...], Table]


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter on one field: an operator and its list of JSON values, as the caller wrote them.

    Numbers arrive as `int` or `decimal.Decimal`, never as `float`, so no digit is lost.
    """

    field: str
    operator: Operator
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request asks of one table: fields in requested order, or the wildcard alone."""

    table: str
    fields: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A checked extraction request: datasource name to its selections, both sorted by name."""

    datasources: Mapping[str, tuple[Selection, ...]]
    metadata: Mapping[str, Any]

    @property
    def source(self) -> str:
        """The product that owns the job, lower-case and trimmed."""
        return str(self.metadata["source"]).strip().lower()


@dataclass(frozen=True, slots=True)
class Position:
    """The sort key of the last row delivered, each value as the source's own text with its type."""

    values: tuple[tuple[str, str], ...]
    """Pairs of (source type, text), in key order."""


@dataclass(frozen=True, slots=True)
class Query:
    """One table to read: resolved names, typed columns, checked conditions.

    `key` is the sort key (empty: unordered, no resume). `name` is the table as requested.
    `page_bytes` is the aim for one page's rendered size; one row may exceed it.
    """

    name: str
    path: tuple[str, ...]
    columns: tuple[Column, ...]
    key: tuple[Column, ...] = ()
    conditions: tuple["TypedCondition", ...] = ()
    page_bytes: int = 128 * 1024


@dataclass(frozen=True, slots=True)
class TypedCondition:
    """A condition whose field was found: the discovered column decides how values are compared."""

    column: Column
    operator: Operator
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Rows as they go into the result: JSON objects joined by commas, never empty.

    `position` is where a resumed read continues; None for a query without a key.
    """

    body: bytes
    rows: int
    position: Position | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one extraction. Embedded callers may lower them, never raise them."""

    datasources: int = 10
    tables: int = 20
    fields: int = 50
    filter_fields: int = 50
    filter_values: int = 10_000
    parallel: int = 4
    seconds: float = 300.0
    result_bytes: int = 256 * 1024 * 1024
