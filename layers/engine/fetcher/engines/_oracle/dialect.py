"""How Oracle compares: filters and positions by the discovered type, every value bound.

| column | a value is compared as | so that |
|--|--|--|
| NUMBER, FLOAT | a NUMBER of at most 38 digits | no digit is cut; more digits are refused |
| BINARY_FLOAT, BINARY_DOUBLE | the nearest one that the type holds | 0.1 finds 0.1 |
| DATE | DATE; with a fraction, TIMESTAMP | an index on the column is used, and no fraction is lost |
| TIMESTAMP | TIMESTAMP(9) | |
| TIMESTAMP WITH (LOCAL) TIME ZONE | the same in UTC | |
| CHAR, VARCHAR2, NCHAR, NVARCHAR2 | text, binary | case and trailing blanks count |
| RAW | bytes | |
| CLOB, NCLOB | by `like` alone | the server has no `=` for them |
| BLOB, LONG, JSON, XMLTYPE, VECTOR | not at all, but for NULL | |

An empty text is NULL to Oracle. As a filter's value it is taken for the smallest text of all, which no column
holds: `eq [""]` finds nothing, and `nin [""]` every text.
"""

import math
import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from fetcher.engines._oracle.types import LARGE, kind
from fetcher.engines._oracle.values import SECONDS
from fetcher.engines._sql import Dialect
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding, Operator

MOST_DIGITS = 38
LARGEST_MAGNITUDE = 125
LONGEST_TEXT = 4000
"""Bytes of a bound text that every server compares with a VARCHAR2."""

DAY = r"(?P<day>\d{4}-\d\d-\d\d)"
CLOCK = r"(?P<minute>(?:[01]\d|2[0-3]):[0-5]\d)(?::(?P<second>[0-5]\d)(?P<fraction>\.\d{1,9})?)?"
MOMENT = re.compile(f"{DAY}(?:[T ]{CLOCK}Z?)?")
STAMPS = f"{SECONDS}.FF9"
TO_DATE = f"TO_DATE({{0}}, '{SECONDS}')"
TO_TIMESTAMP = f"TO_TIMESTAMP({{0}}, '{STAMPS}')"
TO_UTC = f"FROM_TZ({TO_TIMESTAMP}, '+00:00')"

BY_LIKE = frozenset({"CLOB", "NCLOB"})
PATTERN = "text"
"""The type of the made-up column that a LIKE pattern belongs to; Oracle's own are written in capitals."""
NEEDLESS_ESCAPE = re.compile(r"(\\[\\%_])|\\", re.DOTALL)


def key_text(column: Column, name: str) -> str:
    """Spell what `Position` keeps of a key column."""
    match kind(column):
        case "NUMBER" | "FLOAT":
            return f"TO_CHAR({name}, 'TM9')"
        case "DATE":
            return f"TO_CHAR({name}, '{SECONDS}')"
        case "TIMESTAMP" | "TIMESTAMP WITH LOCAL TIME ZONE":
            return f"TO_CHAR({name}, '{STAMPS}')"
        case "RAW":
            return f"RAWTOHEX({name})"
        case _:
            return name


KEYS = {
    "NUMBER": "TO_NUMBER({0})",
    "FLOAT": "TO_NUMBER({0})",
    "DATE": TO_DATE,
    "TIMESTAMP": TO_TIMESTAMP,
    "TIMESTAMP WITH LOCAL TIME ZONE": TO_UTC,
    "RAW": "HEXTORAW({0})",
    "CHAR": "{0}",
    "VARCHAR2": "{0}",
}
"""The types whose values make a position. National text does not: a bound text is of the other character set."""


def _key(mark: str, column: Column) -> str:
    return KEYS[kind(column)].replace("{0}", mark)


def _field(name: str, column: Column, operator: Operator) -> str:
    if kind(column) in LARGE and not (operator == "like" and kind(column) in BY_LIKE):
        raise InvalidRequestError(f"Oracle does not compare a {kind(column)}; a CLOB can be filtered by `like`")
    return name


def _value(mark: str, column: Column, values: Sequence[Any]) -> str:
    match column.encoding:
        case Encoding.FLOAT:
            return f"TO_{kind(column)}({mark})"
        case Encoding.TIMESTAMP if kind(column) == "DATE" and "." not in str(values[0]):
            return TO_DATE.replace("{0}", mark)
        case Encoding.TIMESTAMP:
            return TO_TIMESTAMP.replace("{0}", mark)
        case Encoding.TIMESTAMP_UTC:
            return TO_UTC.replace("{0}", mark)
        case Encoding.TEXT if values[0] == "" and column.type != PATTERN:
            return f"NVL({mark}, CHR(0))"
        case _:
            return mark


def _bind(column: Column, value: Any) -> Any:
    try:
        match column.encoding:
            case Encoding.INTEGER | Encoding.DECIMAL:
                return _number(value)
            case Encoding.FLOAT:
                return _float(value)
            case Encoding.TIMESTAMP | Encoding.TIMESTAMP_UTC:
                return _moment(value)
            case Encoding.BOOLEAN:
                return bool(value)
            case _:
                return value if isinstance(value, bytes) else _text(column, str(value))
    except (ArithmeticError, ValueError) as error:
        raise InvalidRequestError("a filter value does not fit its column in Oracle") from error


def _number(value: Any) -> int | Decimal:
    """Refuse what a NUMBER would round."""
    number = Decimal(value)
    significant = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    if len(significant) > MOST_DIGITS or abs(number.adjusted()) > LARGEST_MAGNITUDE:
        raise ValueError(value)
    return value if isinstance(value, int) else number


def _float(value: Any) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return repr(number)


def _moment(value: Any) -> str:
    """Write a day as its first moment, in one form for every value."""
    text = value.isoformat() if isinstance(value, date) else str(value)
    found = MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day = date.fromisoformat(found["day"])
    return f" {day} {found['minute'] or '00:00'}:{found['second'] or '00'}{found['fraction'] or ''}"


def _text(column: Column, value: str) -> str:
    if "\0" in value or len(value.encode()) > LONGEST_TEXT:
        raise ValueError("a text with NUL, or over the longest VARCHAR2")
    return NEEDLESS_ESCAPE.sub(r"\1", value) if column.type == PATTERN else value


DIALECT = Dialect(
    mark=lambda number: f":{number}",
    row_comparison=False,  # Oracle has none
    value=_value,
    key=_key,
    field=_field,
    bind=_bind,
    longest_list=1000,
)
