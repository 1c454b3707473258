"""Conditions as MongoDB's query (`design.md` §7.3), with SQL's meaning of null and of empty lists.

Every condition is a term of one `$and`, so none replaces another. A value only ever stands behind an operator,
where MongoDB takes it as a value, whatever it looks like; a name that could be an operator is refused.
"""

import re
from collections.abc import Sequence
from typing import Any

from fetcher.core.filters import UNFIT
from fetcher.engines._mongodb.candidates import of
from fetcher.engines._mongodb.names import path_of
from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError, Where
from fetcher.model import Column, Encoding, Operator, TypedCondition

Filter = dict[str, Any]

NOTHING: Filter = {"_id": {"$in": []}}
END = r"(?![\s\S])"
"""`$` would also match before a line break at the end."""
LIKE = re.compile(r"\\(.)|\\$|%+|_|[^\\%_]+", re.DOTALL)


def filters(conditions: Sequence[TypedCondition], *more: Filter) -> Filter:
    """Join conditions, and further terms, with AND."""
    terms = [*filter(None, map(_condition, conditions)), *more]
    return {"$and": terms} if terms else {}


def _condition(condition: TypedCondition) -> Filter:
    """Translate one condition, or say which field's value only this kind of source could refuse."""
    try:
        return _translated(condition)
    except ValueError as error:
        where = Where(field=condition.column.name)
        raise InvalidRequestError(SCHEMA_VALIDATION, code=UNFIT, where=where) from error


def _translated(condition: TypedCondition) -> Filter:
    """Translate; an empty result says nothing and lets everything pass."""
    column, values = condition.column, condition.values
    path = _path(column)
    match condition.operator:
        case "eq" | "in":
            return _either(_equal(path, column, values))
        case "ne" | "nin":
            return {"$nor": [_null(path), *_equal(path, column, values)]} if values else {}
        case "like":
            return {path: {"$regex": _pattern(column, values[0]), "$options": "s"}}
        case "between":
            ends = [_compared(path, column, "gte", values[0]), _compared(path, column, "lte", values[1])]
            return {"$and": ends}
        case operator:
            return _compared(path, column, operator, values[0])


def _path(column: Column) -> str:
    if path_of(column) is None:
        raise ValueError("MongoDB's query cannot name the field")
    return column.name


def _equal(path: str, column: Column, values: Sequence[Any]) -> list[Filter]:
    present = [candidate for value in values if value is not None for candidate in of(column).equal(value)]
    terms: list[Filter] = [{path: {"$in": present}}] if present else []
    return [*terms, _null(path)] if None in values else terms


def _null(path: str) -> Filter:
    """Null or missing. A list that holds a null is neither, though MongoDB finds it by that."""
    return {"$and": [{path: {"$eq": None}}, {path: {"$not": {"$type": "array"}}}]}


def _compared(path: str, column: Column, operator: Operator, value: Any) -> Filter:
    return _either([{path: dict(term)} for term in of(column).compared(operator, value)])


def _either(terms: Sequence[Filter]) -> Filter:
    if len(terms) == 1:
        return terms[0]
    return {"$or": list(terms)} if terms else NOTHING


def _pattern(column: Column, like: str) -> str:
    """Translate LIKE to a regular expression: anchored, every other character escaped."""
    if column.encoding not in {Encoding.TEXT, Encoding.DOCUMENT} or column.type == "objectId":
        raise ValueError("only a text is like a pattern")
    parts = [_part(match) for match in LIKE.finditer(like)]
    if parts and parts[-1] == ".*?":
        return "^" + "".join(parts[:-1])
    return "^" + "".join(parts) + END


def _part(match: re.Match[str]) -> str:
    part = match.group()
    if part == "\\":
        raise InvalidRequestError("a LIKE pattern must not end in its escape character")
    if part.startswith("%"):
        return ".*?"
    return "." if part == "_" else _escaped(match[1] or part)


def _escaped(text: str) -> str:
    return re.escape(text).replace("\0", r"\x00")
