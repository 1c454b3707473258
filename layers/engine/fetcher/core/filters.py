"""Filter values, checked against the type that was discovered and brought to one form for all engines.

| encoding | accepted | given to the engine |
|--|--|--|
| integer | number, text of a whole number | `int`; a fraction stays a `Decimal` and is compared as it is |
| decimal, float | number, text of a number | `int` or `Decimal` |
| boolean | true, false | `bool` |
| uuid | text with or without hyphens | lower-case text with hyphens |
| date | `2026-01-31` | the same text |
| time | `08:30`, `08:30:00.5`, `-26:00:00`, with a zone | the same text |
| timestamp | date and time without a zone | `2026-01-31T08:30:00.5` |
| timestamp-utc | date and time, a zone or UTC | `2026-01-31T08:30:00.5Z` |
| both timestamps | a date alone | `datetime.date`: the whole day, by `design.md` §7.3 |
| text | text | the same text |
| binary | base64, for `eq ne in nin` | `bytes` |
| document | text, number, true, false | the same; the engine reads a text as each type that it may be |
| all others | null, for `eq ne in nin` | `None` |
"""

import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError, Where
from fetcher.model import Column, Condition, Encoding, Operator, TypedCondition

UNFIT = "FET-2010"
"""The code of what a source does not have or cannot compare: a failed job's, since no request is held against one."""

SETS: frozenset[Operator] = frozenset({"eq", "ne", "in", "nin"})
"""The operators that compare for equality, and so take null and values without an order."""

LIKE = frozenset({Encoding.TEXT, Encoding.DOCUMENT})

LONGEST_NUMBER = 1_000
LARGEST_MAGNITUDE = 2_000
"""In powers of ten, for embedded callers: `Decimal("1e999999")` as an `int` would fill the memory."""

_MISFIT = "a filter value does not fit its column"

_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ZONE = r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
_TIME = re.compile(r"-?[0-9]{2,3}:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?" + _ZONE)
_TIMESTAMP = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<minute>[0-9]{2}:[0-9]{2})"
    r"(:(?P<second>[0-9]{2})(?P<fraction>\.[0-9]{1,9})?)?" + _ZONE
)


def typed(column: Column, condition: Condition, where: Where) -> TypedCondition:
    """Bind a condition to its column.

    Raises `InvalidRequestError` with `SCHEMA_VALIDATION`, and `where`, when a value does not fit the
    column's type or the operator makes no sense for it.
    """
    try:
        values = _values(column.encoding, condition)
    except (ValueError, OverflowError):
        # A cause would quote the value, which may be personal, in the log.
        raise InvalidRequestError(SCHEMA_VALIDATION, code=UNFIT, where=where) from None
    return TypedCondition(column, condition.operator, values)


def _values(encoding: Encoding, condition: Condition) -> tuple[Any, ...]:
    _must(condition.operator != "like" or encoding in LIKE)
    _must(condition.operator in SETS or encoding is not Encoding.BINARY)
    read = _text if condition.operator == "like" else _READERS.get(encoding, _nothing)
    may_be_null = condition.operator in SETS
    return tuple(None if value is None and may_be_null else read(value) for value in condition.values)


def _must(fits: bool) -> None:
    if not fits:
        raise ValueError(_MISFIT)


def _nothing(_: Any) -> Any:
    raise ValueError(_MISFIT)


def _text(value: Any) -> str:
    _must(isinstance(value, str))
    return str(value)


def _matched(pattern: re.Pattern[str], value: Any) -> re.Match[str]:
    if match := pattern.fullmatch(_text(value)):
        return match
    raise ValueError(_MISFIT)


def _integer(value: Any) -> int | Decimal:
    """Never cut a fraction off: `> 1.5` must not become `> 1`."""
    number = _exact(value, _WHOLE)
    return int(number) if number == int(number) else number


def _decimal(value: Any) -> int | Decimal:
    return _exact(value, _NUMBER)


def _exact(value: Any, pattern: re.Pattern[str]) -> int | Decimal:
    match value:
        case bool():
            raise ValueError(_MISFIT)
        case int():
            return value
        case Decimal():
            _must(value.is_finite() and abs(value.adjusted()) <= LARGEST_MAGNITUDE)
            return value
        case _:
            text = _matched(pattern, value).group()
            _must(len(text) <= LONGEST_NUMBER)
            return Decimal(text)


def _scalar(value: Any) -> Any:
    """Text stays text here: `"1"` is no number."""
    return value if isinstance(value, bool | str) else _exact(value, _NUMBER)


def _boolean(value: Any) -> bool:
    _must(isinstance(value, bool))
    return bool(value)


def _uuid(value: Any) -> str:
    return str(UUID(_matched(_UUID, value).group()))


def _date(value: Any) -> str:
    return date.fromisoformat(_matched(_DATE, value).group()).isoformat()


def _time(value: Any) -> str:
    return _matched(_TIME, value).group()


def _timestamp(value: Any) -> str | date:
    """Refuse a zone: which instants the column's own values mean is not known."""
    if _DATE.fullmatch(_text(value)):
        return date.fromisoformat(value)
    match = _matched(_TIMESTAMP, value)
    _must(match["zone"] is None)
    return _instant(match)


def _timestamp_utc(value: Any) -> str | date:
    if _DATE.fullmatch(_text(value)):
        return date.fromisoformat(value)
    return _instant(_matched(_TIMESTAMP, value)) + "Z"


def _instant(match: re.Match[str]) -> str:
    """Shift whole seconds to UTC and keep the fraction's text, which a `datetime` would cut."""
    text = f"{match['day']}T{match['minute']}:{match['second'] or '00'}{match['zone'] or 'Z'}"
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat() + (match["fraction"] or "")


def _binary(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


_READERS: Mapping[Encoding, Callable[[Any], Any]] = {
    Encoding.INTEGER: _integer,
    Encoding.DECIMAL: _decimal,
    Encoding.FLOAT: _decimal,
    Encoding.BOOLEAN: _boolean,
    Encoding.TEXT: _text,
    Encoding.DATE: _date,
    Encoding.TIME: _time,
    Encoding.TIMESTAMP: _timestamp,
    Encoding.TIMESTAMP_UTC: _timestamp_utc,
    Encoding.UUID: _uuid,
    Encoding.BINARY: _binary,
    Encoding.DOCUMENT: _scalar,
}
