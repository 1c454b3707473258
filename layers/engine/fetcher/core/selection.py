"""The body of `validate-schema`, checked whole, and what its answer may name.

A selection without filters: an empty table map asks for the datasource alone, an empty list of fields for the
table alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fetcher.core.problems import BAD_SELECTION, NOT_JSON, Path, Report, pointer
from fetcher.core.shapes import members, name_fault, only
from fetcher.errors import InvalidRequestError, Problem, Where
from fetcher.model import WILDCARD, Limits, Selection

MISSING = "FET-0402"
TOO_MANY = "FET-1061"

Kind = Literal["DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_DOWN", "TABLE_NOT_FOUND", "FIELD_NOT_FOUND"]
Selections = Mapping[str, tuple[Selection, ...]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a source does not have, or a source that could not be asked."""

    kind: Kind
    where: Where
    pointer: str
    detail: str


def parse(body: Any, limits: Limits) -> dict[str, tuple[Selection, ...]]:
    """Read `mappedFields`, sorted by name. Raises `InvalidRequestError` with every problem of its shape."""
    if not isinstance(body, Mapping):
        detail = "the body must be a JSON object with mappedFields"
        raise InvalidRequestError(detail, code=NOT_JSON, problems=(Problem("", detail),))
    report = Report()
    only(("mappedFields",), body, (), report)
    found = members(body.get("mappedFields"), ("mappedFields",), MISSING, "name the datasources to check", report)
    if found is not None and not found:
        report.add(BAD_SELECTION, ("mappedFields",), "name at least one datasource")
    selections = _datasources(found or {}, limits, report)
    report.raise_if_any()
    return selections


def finding(kind: Kind, where: Where, detail: str, index: int | None = None) -> Finding:
    """Make a finding; `index` is the field's place in its list."""
    steps = [step for step in (where.datasource, where.table) if step is not None]
    path: Path = ("mappedFields", *steps, *(() if index is None else (index,)))
    return Finding(kind, where, pointer(path), detail)


def _datasources(found: Mapping[str, Any], limits: Limits, report: Report) -> dict[str, tuple[Selection, ...]]:
    path = ("mappedFields",)
    _named(found, path, "datasources", limits.datasources, report)
    return {name: _tables(found[name], (*path, name), limits, report) for name in sorted(found)}


def _tables(value: Any, path: Path, limits: Limits, report: Report) -> tuple[Selection, ...]:
    found = members(value, path, BAD_SELECTION, "map table names to lists of fields", report) or {}
    _named(found, path, "tables", limits.tables, report)
    return tuple(Selection(name, _fields(found[name], (*path, name), limits, report)) for name in sorted(found))


def _fields(value: Any, path: Path, limits: Limits, report: Report) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        report.add(BAD_SELECTION, path, 'list the fields, or ["*"] for all of them')
        return ()
    if len(value) > limits.fields:
        report.add(TOO_MANY, path, f"{len(value)} fields are too many; {limits.fields} are allowed")
    if "*" in value and tuple(value) != WILDCARD:
        report.add(BAD_SELECTION, path, '"*" must be the only entry; it already selects every field')
    for index, name in enumerate(value):
        if fault := name_fault(name):
            report.add(BAD_SELECTION, (*path, index), fault)
    return tuple(map(str, value))


def _named(found: Mapping[str, Any], path: Path, things: str, most: int, report: Report) -> None:
    if len(found) > most:
        report.add(TOO_MANY, path, f"{len(found)} {things} are too many; {most} are allowed")
    for name in sorted(found):
        if fault := name_fault(name):
            report.add(BAD_SELECTION, (*path, name), fault)
