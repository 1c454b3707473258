"""The seal of a multipart upload as the record holds it: for whoever completes the upload after a crash."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fetcher.core.checkpoint import Checkpoint, Part
from fetcher.core.extraction import Extraction
from fetcher.core.manifest import DatasourceEntry
from fetcher.core.run import Reader


@dataclass(frozen=True, slots=True)
class SealedUpload:
    """A multipart list that may become the object, and what was read for it."""

    checkpoint: Checkpoint
    upload_id: str
    parts: tuple[Part, ...]
    datasources: Sequence[Mapping[str, Any]]


def sealed_upload(extraction: Extraction, plan_digest: str) -> SealedUpload | None:
    """Find the multipart list of this very plan that an earlier attempt fixed, if one did."""
    checkpoint, sealed = extraction.checkpoint, extraction.sealed
    if extraction.phase != "seal" or checkpoint is None or checkpoint.upload_id is None or sealed is None:
        return None
    if sealed["planDigest"] != plan_digest:
        return None
    parts = tuple(Part(**part) for part in sealed["parts"])
    return SealedUpload(checkpoint, checkpoint.upload_id, parts, sealed["datasources"])


def already_read(extraction: Extraction) -> tuple[int, int, int]:
    """Rows, bytes and tables that are stored, so that this attempt need not read them if it makes the same plan."""
    checkpoint, sealed = extraction.checkpoint, extraction.sealed
    if checkpoint is None or checkpoint.upload_id is None:
        return 0, 0, 0
    if extraction.phase == "seal" and sealed is not None:
        rows = [count for datasource in sealed["datasources"] for count in datasource["rows"]]
        return sum(rows), sum(part["size"] for part in sealed["parts"]), len(rows)
    if checkpoint.mark is None:
        return 0, 0, 0
    done = checkpoint.mark.rows
    return sum(done), sum(part.size for part in checkpoint.parts), len(done) - 1


def to_item(parts: Sequence[Part], plan_digest: str, datasources: Sequence[DatasourceEntry]) -> dict[str, Any]:
    """Render what whoever completes the upload needs to describe it."""
    return {
        "parts": [asdict(part) for part in parts],
        "planDigest": plan_digest,
        "datasources": [
            {
                "name": datasource.name,
                "kind": datasource.kind,
                "isolation": datasource.isolation,
                "snapshots": datasource.snapshots,
                "rows": [table.rows for table in datasource.tables],
            }
            for datasource in datasources
        ],
    }


def restored(datasources: Sequence[Mapping[str, Any]], reader: Reader) -> tuple[DatasourceEntry, ...]:
    """Describe again what was read before the seal."""
    return tuple(
        DatasourceEntry(
            name=entry["name"],
            kind=entry["kind"],
            isolation=entry["isolation"],
            tables=reader.tables(entry["name"], entry["rows"]),
            snapshots=entry["snapshots"],
        )
        for entry in datasources
    )
