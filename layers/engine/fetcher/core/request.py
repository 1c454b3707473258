"""The body of `POST /v1/fetcher`, checked whole: every problem is reported, with its pointer, in one answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from fetcher.core import conditions
from fetcher.core.canonical import dumps
from fetcher.core.limits import DEFAULTS
from fetcher.core.problems import BAD_SELECTION, NOT_JSON, Path, Report
from fetcher.core.shapes import members, name_fault, only
from fetcher.errors import InvalidRequestError, Problem
from fetcher.model import WILDCARD, Limits, Request, Selection

MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_METADATA_BYTES = 8 * 1024
"""An event carries the metadata; within this bound it always fits EventBridge's entry."""

BAD_METADATA = "FET-0402"
TOO_LARGE = "FET-2003"

Mapped = dict[str, dict[str, tuple[str, ...]]]

_MAPPED = ("dataRequest", "mappedFields")


def check_size(size: int) -> None:
    """Refuse a body over 2 MiB before it is parsed (FET-2003; HTTP answers 413)."""
    if size > MAX_BODY_BYTES:
        raise InvalidRequestError(
            f"the body has {size} bytes; {MAX_BODY_BYTES} are allowed: name fewer fields or values", code=TOO_LARGE
        )


def parse(body: Any, limits: Limits = DEFAULTS) -> Request:
    """Check what `strict_loads` read, without knowing any source.

    Raises `InvalidRequestError` with all problems in the order of the schema: unknown members,
    `mappedFields`, `filters`, `metadata`, names in sorted order; its code is that of the first.
    """
    if not isinstance(body, Mapping):
        detail = "the body must be a JSON object with dataRequest and metadata"
        raise InvalidRequestError(detail, code=NOT_JSON, problems=(Problem("", detail),))
    report = Report()
    only(("dataRequest", "metadata"), body, (), report)
    mapped, filters = _data_request(body.get("dataRequest"), limits, report)
    metadata = _metadata(body.get("metadata"), report)
    report.raise_if_any()
    return Request({name: _selections(name, mapped, filters) for name in sorted(mapped)}, metadata)


def _selections(datasource: str, mapped: Mapped, filters: conditions.Filters) -> tuple[Selection, ...]:
    tables = mapped[datasource]
    return tuple(Selection(table, tables[table], filters.get((datasource, table), ())) for table in sorted(tables))


def _data_request(value: Any, limits: Limits, report: Report) -> tuple[Mapped, conditions.Filters]:
    path = ("dataRequest",)
    found = members(value, path, BAD_SELECTION, "name mappedFields in a JSON object", report)
    if found is None:
        return {}, {}
    only(("mappedFields", "filters"), found, path, report)
    mapped = _mapped_fields(found.get("mappedFields"), limits, report)
    return mapped, conditions.parse(found.get("filters"), mapped, limits, report)


def _mapped_fields(value: Any, limits: Limits, report: Report) -> Mapped:
    found = _names(value, _MAPPED, "datasource", limits.datasources, report)
    return {name: _tables(found[name], (*_MAPPED, name), limits, report) for name in sorted(found)}


def _tables(value: Any, path: Path, limits: Limits, report: Report) -> dict[str, tuple[str, ...]]:
    found = _names(value, path, "table", limits.tables, report)
    return {name: _fields(found[name], (*path, name), limits, report) for name in sorted(found)}


def _names(value: Any, path: Path, thing: str, most: int, report: Report) -> Mapping[str, Any]:
    """Check an object whose members are named by the caller."""
    found = members(value, path, BAD_SELECTION, f"name at least one {thing} in a JSON object", report)
    if found is None:
        return {}
    if not found:
        report.add(BAD_SELECTION, path, f"name at least one {thing}")
    if len(found) > most:
        report.add(BAD_SELECTION, path, f"{len(found)} {thing}s are too many; {most} are allowed")
    seen: set[str] = set()
    for name in sorted(found):
        if fault := name_fault(name) or _twice(name, seen):
            report.add(BAD_SELECTION, (*path, name), fault)
    return found


def _twice(name: str, seen: set[str]) -> str | None:
    """Names that differ in surrounding blanks only are one name, or a mistake."""
    bare = name.strip()
    if bare in seen:
        return "this name is given twice, but for surrounding blanks; keep one"
    seen.add(bare)
    return None


def _fields(value: Any, path: Path, limits: Limits, report: Report) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        report.add(BAD_SELECTION, path, 'list at least one field, or ["*"] for all of them')
        return ()
    if len(value) > limits.fields:
        report.add(BAD_SELECTION, path, f"{len(value)} fields are too many; {limits.fields} are allowed")
    if "*" in value and tuple(value) != WILDCARD:
        report.add(BAD_SELECTION, path, '"*" must be the only entry; it already selects every field')
    for index, name in enumerate(value):
        if fault := name_fault(name):
            report.add(BAD_SELECTION, (*path, index), fault)
    return tuple(dict.fromkeys(map(str, value)))


def _metadata(value: Any, report: Report) -> Mapping[str, Any]:
    path = ("metadata",)
    found = members(value, path, BAD_METADATA, "name the product in metadata.source", report)
    if found is None:
        return {}
    source = found.get("source")
    if not isinstance(source, str) or not source.strip():
        report.add(BAD_METADATA, (*path, "source"), "name the product that owns the job as a non-blank string")
    size = len(dumps(found).encode())
    if size > MAX_METADATA_BYTES:
        report.add(BAD_METADATA, path, f"{size} bytes are too many; {MAX_METADATA_BYTES} are allowed")
    return found
