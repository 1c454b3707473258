"""The `filters` of a request: shape, operators and arity. Types are checked later, against real columns."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fetcher.core.canonical import Number
from fetcher.core.problems import BAD_SELECTION, Path, Report
from fetcher.core.shapes import members, name_fault
from fetcher.model import OPERATORS, Condition, Limits, Operator

UNKNOWN_OPERATOR = "FET-2001"
BAD_OPERAND = "FET-2002"

ARITY: Mapping[Operator, int] = {"gt": 1, "gte": 1, "lt": 1, "lte": 1, "like": 1, "between": 2}
"""How many values an operator takes; those not listed take any number, none included."""

Filters = dict[tuple[str, str], tuple[Condition, ...]]
"""Conditions by datasource and table, sorted by field and then in the order of `OPERATORS`."""

_PATH = ("dataRequest", "filters")


def parse(value: Any, mapped: Mapping[str, Mapping[str, Any]], limits: Limits, report: Report) -> Filters:
    """Check the filters of a request against the tables that it selects."""
    if value is None:
        return {}
    found = members(value, _PATH, BAD_SELECTION, "map datasource, table and field to operators", report) or {}
    filters: Filters = {}
    for name in sorted(found):
        if name in mapped:
            filters |= _datasource(name, found[name], mapped[name], limits, report)
        else:
            report.add(BAD_SELECTION, (*_PATH, name), "mappedFields does not name this datasource")
    _check_total(filters, limits, report)
    return filters


def _check_total(filters: Filters, limits: Limits, report: Report) -> None:
    total = sum(len(condition.values) for given in filters.values() for condition in given)
    if total > limits.filter_values:
        report.add(BAD_SELECTION, _PATH, f"{total} values are too many; {limits.filter_values} are allowed")


def _datasource(name: str, value: Any, tables: Mapping[str, Any], limits: Limits, report: Report) -> Filters:
    path = (*_PATH, name)
    found = members(value, path, BAD_SELECTION, "map table and field to operators", report) or {}
    filters: Filters = {}
    for table in sorted(found):
        if table in tables:
            filters[name, table] = _table(found[table], (*path, table), limits, report)
        else:
            report.add(BAD_SELECTION, (*path, table), "mappedFields does not name this table; write it the same way")
    return filters


def _table(value: Any, path: Path, limits: Limits, report: Report) -> tuple[Condition, ...]:
    found = members(value, path, BAD_SELECTION, "map each field to operators", report) or {}
    if len(found) > limits.filter_fields:
        report.add(BAD_SELECTION, path, f"{len(found)} fields are too many; {limits.filter_fields} are allowed")
    given: list[Condition] = []
    for field in sorted(found):
        if fault := name_fault(field):
            report.add(BAD_SELECTION, (*path, field), fault)
        given += _field(field, found[field], (*path, field), report)
    return tuple(given)


def _field(field: str, value: Any, path: Path, report: Report) -> list[Condition]:
    found = members(value, path, BAD_OPERAND, 'write {"<operator>": [<value>, …]}', report)
    if found is None:
        return []
    if not found:
        report.add(UNKNOWN_OPERATOR, path, "name an operator, or leave the field out")
    for name in sorted(found.keys() - set(OPERATORS)):
        report.add(UNKNOWN_OPERATOR, (*path, name), f"there is no such operator; known are {', '.join(OPERATORS)}")
    return [
        Condition(field, operator, _operands(operator, found[operator], (*path, operator), report))
        for operator in OPERATORS
        if operator in found
    ]


def _operands(operator: Operator, value: Any, path: Path, report: Report) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        report.add(BAD_OPERAND, path, "values must be a list, also when there is only one")
        return ()
    wanted = ARITY.get(operator)
    if wanted is not None and len(value) != wanted:
        report.add(BAD_OPERAND, path, f"{operator} takes exactly {wanted}, not {len(value)}")
    for index, item in enumerate(value):
        if fault := _operand_fault(operator, item):
            report.add(BAD_OPERAND, (*path, index), fault)
    return tuple(item.exact if isinstance(item, Number) else item for item in value)


def _operand_fault(operator: Operator, value: Any) -> str | None:
    if operator == "like":
        return None if isinstance(value, str) else "like takes a string"
    if value is None and operator in ARITY:
        return f"{operator} cannot compare with null; eq and ne can"
    if value is None or isinstance(value, str | int | Decimal | Number):
        return None
    if isinstance(value, float):
        return "a float may have lost digits; give a Decimal"
    return "a value must be a string, a number, true, false or null"
