"""Where an extraction goes on after a crash or a hand-over: the parts that are stored, and what they end with.

Only the first datasource in order streams; the others are spooled and read again. A mark counts only
inside a table with a key, because only there a position says what comes next (`design.md` §5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fetcher.core.seal import START_OF_CHAIN, Chunk, chained
from fetcher.errors import RefusedError
from fetcher.model import Page, Position

LARGEST_POSITION = 16 * 1024
"""Bytes of a position's texts. A key may be as long as a document; the record holds it beside up to 1,250 parts, each
of them twice, and DynamoDB ends it at 400 KB (R-AWS-3)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stored part: its number, S3's ETag, size in bytes, and SHA-256 in hex."""

    number: int
    etag: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The last row of a part: in which table of the first datasource, and the rows of each table so far."""

    table: int
    position: Position
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One upload and how far it is trusted. Without a mark it is only an upload to drop.

    `versions` are those of the connections when it was made; `snapshots` counts the moments at which
    the first datasource was seen.
    """

    token: str
    key: str
    upload_id: str | None = None
    plan_digest: str = ""
    versions: Mapping[str, int] | None = None
    snapshots: int = 1
    parts: tuple[Part, ...] = ()
    mark: Mark | None = None

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The stored parts as links of the result's hash chain."""
        return chunks_of(self.parts)

    def fits(self, plan_digest: str, versions: Mapping[str, int]) -> bool:
        """Whether a worker with this plan and these connections may go on from here (R-002-13)."""
        return self.mark is not None and self.plan_digest == plan_digest and self.versions == versions


def marked(page: Page, table: int, rows: Sequence[int]) -> Mark | None:
    """Describe the end of a page of the `table`th table, before whose page `rows` had been read of each.

    None where nothing could go on: behind a row without a key, or with a huge one; a later part then counts for both.
    """
    if page.position is None or sum(len(text.encode()) for _, text in page.position.values) > LARGEST_POSITION:
        return None
    return Mark(table, page.position, (*rows[:-1], rows[-1] + page.rows))


def moved(position: Position | None, last: Position | None) -> Position | None:
    """Return where a read stands behind a page; `last` is where it stood before. Neither is known without a key.

    A mask may show one key for all rows. The read itself is whole, since the database sorts by what it has; one that
    goes on behind the mask begins anew, or finds nothing more.
    """
    if position is not None and position == last:
        raise RefusedError(
            "rows of the table show the same key: this user may see a mask of it; read as one who sees it"
        )
    return position or last


def chunks_of(parts: Sequence[Part]) -> tuple[Chunk, ...]:
    """Chain stored parts in their order."""
    chunks: list[Chunk] = []
    for part in parts:
        previous = chunks[-1].chain if chunks else START_OF_CHAIN
        chunks.append(Chunk(part.size, part.sha256, chained(previous, part.sha256)))
    return tuple(chunks)


def to_item(checkpoint: Checkpoint) -> dict[str, Any]:
    """Render as attributes; members without a value are left out."""
    item = {
        "token": checkpoint.token,
        "key": checkpoint.key,
        "uploadId": checkpoint.upload_id,
        "planDigest": checkpoint.plan_digest,
        "versions": dict(checkpoint.versions or {}),
        "snapshots": checkpoint.snapshots,
        "parts": [asdict(part) for part in checkpoint.parts],
        "mark": _mark_item(checkpoint.mark) if checkpoint.mark else None,
    }
    return {name: value for name, value in item.items() if value is not None}


def from_item(item: Mapping[str, Any] | None) -> Checkpoint | None:
    """Read what `to_item` wrote."""
    if item is None:
        return None
    return Checkpoint(
        token=item["token"],
        key=item["key"],
        upload_id=item.get("uploadId"),
        plan_digest=item["planDigest"],
        versions=item["versions"],
        snapshots=item["snapshots"],
        parts=tuple(Part(**part) for part in item["parts"]),
        mark=_mark(item["mark"]) if "mark" in item else None,
    )


def _mark_item(mark: Mark) -> dict[str, Any]:
    position = [list(pair) for pair in mark.position.values]
    return {"table": mark.table, "position": position, "rows": list(mark.rows)}


def _mark(item: Mapping[str, Any]) -> Mark:
    position = Position(tuple((kind, text) for kind, text in item["position"]))
    return Mark(item["table"], position, tuple(item["rows"]))
