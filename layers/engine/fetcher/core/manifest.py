"""What an extraction read, what that proves and what it does not, under one signature.

A manifest is compact JSON whose last member is `"hmac"`. Signed is the file with its last 75 bytes,
`,"hmac":"<64 hex>"}`, replaced by `}`. `fetcher.core.audit` checks one offline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fetcher.core.canonical import dumps
from fetcher.core.seal import Chunk, Seal
from fetcher.model import Column, Position, Query

VERSION = "1"
TRAILER = 75
"""Bytes of `,"hmac":"<64 hex>"}`."""

SNAPSHOTS = frozenset({"repeatable read", "serializable", "snapshot", "read only"})
"""What `Session.isolation` says when all reads of the session see one moment, and only then."""

UNMOVED = SNAPSHOTS | {"read concern majority", "read concern local"}
"""What it says when no row can be met twice, or passed over, because it is moved while its table is read: the `_id` of
a document of MongoDB never changes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A half-open range of a table's key and its rows. None is minus or plus infinity."""

    rows: int
    low: Position | None = None
    high: Position | None = None


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table as it was read. `sampled` names fields that no discovered schema holds.

    `decrypted` names fields that are stored encrypted and were delivered in the clear. With `repeats`, a key
    may be there twice although it is unique.
    """

    query: Query
    parts: tuple[Part, ...]
    sampled: tuple[str, ...] = ()
    decrypted: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def rows(self) -> int:
        """Rows over all parts."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class DatasourceEntry:
    """One datasource: its kind, the isolation its session named, and how many snapshots were needed."""

    name: str
    kind: str
    isolation: str
    tables: tuple[TableEntry, ...]
    snapshots: int = 1

    @property
    def one_moment(self) -> bool:
        """Whether all its tables were seen as they were at one instant."""
        return self.snapshots == 1 and self.isolation.lower() in SNAPSHOTS

    @property
    def unmoved(self) -> bool:
        """Whether its rows stood still while each of its tables was read, by every attempt for itself."""
        return self.isolation.lower() in UNMOVED


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The stored object. Its rows are those of the tables."""

    path: str
    size: int
    sha256: str
    hmac: str
    key_version: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is signed; times as RFC 3339 in UTC."""

    extraction_id: str
    tenant: str
    request_hash: str
    plan_digest: str
    datasources: tuple[DatasourceEntry, ...]
    result: ResultEntry
    created_at: str
    started_at: str
    completed_at: str
    attempts: int
    engine_version: str
    retries: int = 0
    waits: int = 0

    @property
    def rows(self) -> int:
        """Rows over all tables."""
        return sum(table.rows for datasource in self.datasources for table in datasource.tables)


@dataclass(frozen=True, slots=True)
class Claim:
    """A stable code and a sentence for people."""

    code: str
    text: str


def render(manifest: Manifest, key: bytes) -> bytes:
    """Write and sign the file. The key is the one that signed the result."""
    body = dumps(_members(manifest)).encode()
    return b'%b,"hmac":"%b"}' % (body[:-1], signature(body, key).encode())


def signature(body: bytes, key: bytes) -> str:
    """Sign the file as it is before the last member."""
    seal = Seal(key)
    seal.update(body)
    return seal.hmac


def proven(datasources: Sequence[DatasourceEntry]) -> Iterator[Claim]:
    """Say what the run showed, and nothing that it merely hopes."""
    yield Claim("read_to_end", "Every table was read until its source said that there are no more rows.")
    yield Claim("rows_counted", "The rows of every table were counted while they were written.")
    if all(datasource.one_moment for datasource in datasources):
        yield Claim("one_snapshot", "The tables of a datasource are seen as they were at one moment.")
    if not _doubtful(datasources):
        yield Claim("unique_rows", "Rows were read in the order of a unique key, each key once.")


def not_proven(datasources: Sequence[DatasourceEntry]) -> Iterator[Claim]:
    """Say what a reader could wrongly take for granted."""
    several = [datasource.name for datasource in datasources if not datasource.one_moment]
    if several:
        yield Claim("one_snapshot", f"Tables may be of different moments in: {', '.join(several)}.")
    if len(datasources) > 1:
        yield Claim("same_moment", "Different datasources were read at different moments.")
    if doubtful := _doubtful(datasources):
        yield Claim("unique_rows", doubtful)
    yield Claim("later_changes", "What was committed after the read began may be missing.")


def _doubtful(datasources: Sequence[DatasourceEntry]) -> str:
    """Name the tables of which a row may have been delivered twice, and why; nothing where there is none."""
    tables = [(each, f"{each.name}/{table.query.name}", table) for each in datasources for table in each.tables]
    keyless = [name for _, name, table in tables if not table.query.key]
    repeated = [name for _, name, table in tables if table.query.key and table.repeats]
    moving = [name for each, name, table in tables if table.query.key and not (table.repeats or each.unmoved)]
    reasons = {
        "No unique key orders the rows of": keyless,
        "The key may be met twice in": repeated,
        "Rows could move while they were read in": moving,
    }
    return " ".join(f"{reason}: {', '.join(names)}." for reason, names in reasons.items() if names)


def _members(manifest: Manifest) -> dict[str, Any]:
    return {
        "version": VERSION,
        "extractionId": manifest.extraction_id,
        "tenant": manifest.tenant,
        "requestHash": manifest.request_hash,
        "planDigest": manifest.plan_digest,
        "datasources": [_datasource(datasource) for datasource in manifest.datasources],
        "proven": [_claim(claim) for claim in proven(manifest.datasources)],
        "notProven": [_claim(claim) for claim in not_proven(manifest.datasources)],
        "retries": manifest.retries,
        "waits": manifest.waits,
        "result": _result(manifest.result, manifest.rows),
        "createdAt": manifest.created_at,
        "startedAt": manifest.started_at,
        "completedAt": manifest.completed_at,
        "attempts": manifest.attempts,
        "engineVersion": manifest.engine_version,
    }


def _claim(claim: Claim) -> dict[str, str]:
    return {"code": claim.code, "text": claim.text}


def _datasource(datasource: DatasourceEntry) -> dict[str, Any]:
    return {
        "name": datasource.name,
        "kind": datasource.kind,
        "isolation": datasource.isolation,
        "snapshots": datasource.snapshots,
        "tables": [_table(table) for table in datasource.tables],
    }


def _table(table: TableEntry) -> dict[str, Any]:
    query = table.query
    return {
        "name": query.name,
        "path": query.path,
        "columns": [_column(column) for column in query.columns],
        "order": [column.name for column in query.key],
        "filters": [{"field": given.column.name, "operator": given.operator} for given in query.conditions],
        "sampled": table.sampled,
        **({"decrypted": table.decrypted} if table.decrypted else {}),
        "window": None,
        "parts": [_part(part) for part in table.parts],
        "rows": table.rows,
    }


def _column(column: Column) -> dict[str, str | None]:
    return {"name": column.name, "type": column.type, "encoding": column.encoding, "element": column.element}


def _part(part: Part) -> dict[str, Any]:
    return {"low": _bound(part.low), "high": _bound(part.high), "rows": part.rows}


def _bound(position: Position | None) -> tuple[tuple[str, str], ...] | None:
    return None if position is None else position.values


def _result(result: ResultEntry, rows: int) -> dict[str, Any]:
    return {
        "path": result.path,
        "sizeBytes": result.size,
        "rowCount": rows,
        "sha256": result.sha256,
        "hmac": result.hmac,
        "keyVersion": result.key_version,
        "chunks": [{"size": chunk.size, "sha256": chunk.sha256, "chain": chunk.chain} for chunk in result.chunks],
    }
