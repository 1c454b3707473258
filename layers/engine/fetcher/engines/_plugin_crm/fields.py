"""Which fields are stored encrypted, which of them can be searched by a hash, and what can be asked of each.

A field's values are random to everybody without the key, and equal values are so only as hashes. So of a hashed
field only equality can be asked, and of the others nothing but whether they are there.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fetcher.core.filters import SETS
from fetcher.core.problems import pointer
from fetcher.engines._mongodb.names import REST, path_of
from fetcher.errors import InvalidRequestError, Problem, RefusedError, Where
from fetcher.model import UNSAMPLED, Column, Condition, Encoding, Query, Selection, TypedCondition

Path = tuple[str, ...]

SEARCHED: Mapping[str, str] = {
    "document": "search.document",
    "name": "search.name",
    "banking_details.account": "search.banking_details_account",
    "banking_details.iban": "search.banking_details_iban",
    "contact.primary_email": "search.contact_primary_email",
    "contact.secondary_email": "search.contact_secondary_email",
    "contact.mobile_phone": "search.contact_mobile_phone",
    "contact.other_phone": "search.contact_other_phone",
}
"""Encrypted fields to the fields that hold the hash of the same value."""

ENCRYPTED: tuple[str, ...] = (
    *SEARCHED,
    "legal_person.representative.document",
    "legal_person.representative.email",
    "legal_person.representative.name",
    "natural_person.father_name",
    "natural_person.mother_name",
)

BAD_FILTER = "FET-2002"

_PATHS: tuple[Path, ...] = tuple(tuple(name.split(".")) for name in ENCRYPTED)


def check(datasource: str, selections: Sequence[Selection]) -> None:
    """Raise `InvalidRequestError` for the first filter that encrypted values cannot answer (B-56)."""
    for selection in selections:
        for condition in selection.conditions:
            if problem := _problem(condition):
                place = ("dataRequest", "filters", datasource, selection.table, condition.field, condition.operator)
                raise InvalidRequestError(
                    problem,
                    code=BAD_FILTER,
                    where=Where(datasource, selection.table, condition.field),
                    problems=(Problem(pointer(place), problem),),
                )


def rewritten(conditions: Sequence[TypedCondition], key: str | None) -> tuple[TypedCondition, ...]:
    """Let conditions on encrypted fields ask for the hash. Raises `RefusedError` without the key for it."""
    return tuple(_rewritten(condition, key) for condition in conditions)


def hashed(value: str, key: str) -> str:
    """Hash a value as it was written: HMAC-SHA-256 in hex. An empty text is stored as it is."""
    return hmac.new(key.encode(), value.encode(), hashlib.sha256).hexdigest() if value else value


def spots(query: Query) -> dict[str, tuple[Path, ...]]:
    """Return where a row has encrypted values: its members, and the paths in each.

    A member's own value has the empty path. It does not matter how a field was asked for: by its name, inside
    its parent, or with the whole document.
    """
    if any(column.name == REST for column in query.columns):
        return {first: _below((first,)) for first in dict.fromkeys(path[0] for path in _PATHS)}
    asked = {column.name: _below(_bare(path_of(column) or [])) for column in query.columns}
    return {name: paths for name, paths in asked.items() if paths}


def decrypted(query: Query) -> tuple[str, ...]:
    """Name the encrypted fields that a query reads."""
    if any(column.name == REST for column in query.columns):
        return tuple(sorted(ENCRYPTED))
    bare = [_bare(path_of(column) or []) for column in query.columns]
    return tuple(sorted({".".join((*path, *rest)) for path in bare for rest in _below(path)}))


def _below(path: Path) -> tuple[Path, ...]:
    """Return the rest of each encrypted path that begins like this."""
    return tuple(each[len(path) :] for each in _PATHS if path and each[: len(path)] == path)


def _bare(path: Sequence[str]) -> Path:
    """Leave out the indexes of lists."""
    return tuple(part for part in path if not part.isdigit())


def _problem(condition: Condition) -> str | None:
    """Say why a condition cannot be asked, or None. Null is stored as it is, so it can be asked for."""
    field = condition.field
    if _bare(field.split(".")) not in _PATHS or (condition.operator in SETS and _only_null(condition.values)):
        return None
    if field not in SEARCHED:
        return f"{field} is stored encrypted and without a search hash; filter by another field"
    if condition.operator not in {"eq", "in"}:
        return f"{field} is stored encrypted, so {condition.operator} cannot be answered; use eq or in"
    if not all(isinstance(value, str) for value in condition.values):
        return f"{field} is searched by a hash of its text; give texts, or null alone"
    return None


def _only_null(values: Sequence[object]) -> bool:
    return all(value is None for value in values)


def _rewritten(condition: TypedCondition, key: str | None) -> TypedCondition:
    field = condition.column.name
    if field not in SEARCHED or _only_null(condition.values):
        return condition
    if key is None:
        raise RefusedError("the operator has set no hash key for plugin_crm", where=Where(field=field))
    values = tuple(hashed(str(value), key) for value in condition.values)
    return replace(condition, column=Column(SEARCHED[field], UNSAMPLED, Encoding.TEXT), values=values)
