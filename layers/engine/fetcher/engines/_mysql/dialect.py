r"""How MySQL and MariaDB compare: filters and positions, by the discovered type and in the column's own collation.

| column | a value is compared as | so that |
|--|--|--|
| integer, decimal | SIGNED, UNSIGNED or DECIMAL(65, its scale) | no digit is cut; over 65 digits is refused |
| year | the same, with the year as a number | 26 is not 2026 |
| float, double | DOUBLE; for FLOAT the nearest one that FLOAT holds | 0.1 finds 0.1 |
| date, datetime, timestamp, time | DATE, DATETIME(6), TIME(6), checked here | a typo is an error and not NULL |
| char, varchar, text, enum, set | text in the column's collation | its rules on case and trailing spaces hold |
| bit(n) | its text of n digits | `1` does not find `001` |
| binary, blob | bytes | |

A text column only ever meets text, and a number a number: `'abc' = 0` cannot happen. In a collation that
ignores case or pads with spaces, `eq`, `in` and the ranges do so too; `like` never pads.
"""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

from fetcher.engines._floats import nearest_single
from fetcher.engines._sql import Dialect
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding, Operator

SIGNED, UNSIGNED = range(-(2**63), 2**63), range(2**64)
MAX_DIGITS, MAX_SCALE = 65, 30

DATE = re.compile(r"\d{4}-\d\d-\d\d")
DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6}0*)?)?Z?)?")
TIME = re.compile(r"-?(\d{2,3}):[0-5]\d(?::[0-5]\d(?:\.\d{1,6}0*)?)?")
MAX_HOURS = 838

WIDTH = re.compile(r"\w+\((\d+)(?:,(\d+))?\)")

UNICODE = re.compile(r" collate utf8(mb[34])?_")
"""Character sets of which every text is one of UTF-8 in exactly one way."""
BYTES = "bytes:"

TEMPORAL = {
    Encoding.DATE: "CAST({0} AS DATE)",
    Encoding.TIME: "CAST({0} AS TIME(6))",
    Encoding.TIMESTAMP: "CAST({0} AS DATETIME(6))",
    Encoding.TIMESTAMP_UTC: "CAST({0} AS DATETIME(6))",
}
AS_NUMBER = "CAST({0} AS UNSIGNED)"

CASTS = {
    **dict.fromkeys(("enum", "bit", "year"), "UNSIGNED"),
    **{name: name.upper() for name in ("date", "uuid", "inet4", "inet6")},
    "time": "TIME({0})",
    **dict.fromkeys(("datetime", "timestamp"), "DATETIME({0})"),
    "decimal": "DECIMAL({0}, {1})",
}
"""What a position is cast to, by the name of its column's type and the numbers in that; integers go by their sign."""


def kind(column: Column) -> str:
    """Return the bare name of the column's type."""
    return re.split(r"\W", column.type, maxsplit=1)[0]


def widths(column: Column) -> tuple[int, int]:
    """Return the two numbers in the brackets of the type, as far as there are any."""
    found = WIDTH.match(column.type)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def is_character(column: Column) -> bool:
    """Say whether the column has a character set, and so a collation."""
    return " collate " in column.type


def bits(column: Column, name: str) -> str:
    """Spell a BIT column as its digits."""
    return f"LPAD(BIN({AS_NUMBER.format(name)}), {widths(column)[0]}, '0')"


def plain(column: Column, name: str) -> str:
    """Take away the zeros that YEAR and ZEROFILL write in front."""
    if kind(column) == "decimal":
        return f"{name} + 0" if "zerofill" in column.type else name
    return AS_NUMBER.format(name) if kind(column) == "year" or "zerofill" in column.type else name


def key_text(column: Column, name: str) -> str:
    """Spell what `Position` keeps of a key column: one text for each value, and `_key` makes that value of it again.

    Enums are ordered by their numbers, not by their words. Of a text that is not Unicode the bytes are kept: two
    characters of cp932 and its like are one of Unicode, or none.
    """
    match kind(column):
        case "enum":
            return f"{name} + 0"
        case "binary" | "varbinary":
            return f"HEX({name})"
        case "bit":
            return AS_NUMBER.format(name)
    if not is_character(column):
        return plain(column, name)
    return f"CONVERT({name} USING utf8mb4)" if UNICODE.search(column.type) else f"CONCAT('{BYTES}', HEX({name}))"


def _key(mark: str, column: Column) -> str:
    name = kind(column)
    if name in {"binary", "varbinary"}:
        return f"UNHEX({mark})"
    if is_character(column) and name != "enum":
        return mark if UNICODE.search(column.type) else _in_its_characters(mark, column)
    number = "UNSIGNED" if "unsigned" in column.type else "SIGNED"
    return f"CAST({mark} AS {CASTS.get(name, number).format(*widths(column))})"


def _in_its_characters(mark: str, column: Column) -> str:
    """Take bytes for what they are in the column; without its collation, there might be none for the comparison."""
    collation = column.type.rpartition(" collate ")[2]
    return f"CONVERT(UNHEX(SUBSTR({mark}, {len(BYTES) + 1})) USING {collation.partition('_')[0]}) COLLATE {collation}"


def _field(name: str, column: Column, operator: Operator) -> str:
    match kind(column):
        case "year":
            return AS_NUMBER.format(name)
        case "bit" if column.encoding is Encoding.TEXT:
            return bits(column, name)
        case _:
            return f"CAST({name} AS CHAR)" if operator == "like" and not is_character(column) else name


def _null(name: str, column: Column) -> str:
    """`IS NULL` also finds zero dates in columns that are never NULL, for the sake of ODBC."""
    return f"{name} <=> NULL" if column.encoding in TEMPORAL else f"{name} IS NULL"


def _value(mark: str, column: Column, values: Sequence[Any]) -> str:
    match column.encoding:
        case Encoding.INTEGER | Encoding.DECIMAL | Encoding.BOOLEAN:
            return f"CAST({mark} AS {_number_type(_number(values[0]))})"
        case Encoding.FLOAT:
            return f"({mark} + 0e0)"
        case encoding:
            return TEMPORAL.get(encoding, "{0}").format(mark)


def _number_type(text: str) -> str:
    whole, _, fraction = text.partition(".")
    if fraction or int(whole) not in range(SIGNED.start, UNSIGNED.stop):
        return f"DECIMAL({MAX_DIGITS}, {len(fraction)})"
    return "SIGNED" if int(whole) in SIGNED else "UNSIGNED"


def _bind(column: Column, value: Any) -> str | bytes:
    try:
        match column.encoding:
            case Encoding.INTEGER | Encoding.DECIMAL | Encoding.BOOLEAN:
                return _number(value)
            case Encoding.FLOAT:
                return _float(kind(column), value)
            case encoding if encoding in TEMPORAL:
                return _temporal(encoding, value)
            case _:
                return value if isinstance(value, bytes) else str(value)
    except (ArithmeticError, ValueError) as error:
        raise InvalidRequestError("a filter value does not fit its column in MySQL") from error


def _number(value: Any) -> str:
    """Write every digit, and refuse what a DECIMAL would cut."""
    text = f"{Decimal(value):f}"
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > MAX_SCALE or len(whole.lstrip("-0")) > MAX_DIGITS - len(fraction):
        raise ValueError(value)
    return f"{whole}.{fraction}" if fraction else whole


def _float(name: str, value: Any) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    if name == "float":
        with suppress(OverflowError):  # beyond every FLOAT, and so no need to meet one
            number = nearest_single(number)
    return repr(number)


def _temporal(encoding: Encoding, value: Any) -> str:
    text = value.isoformat() if isinstance(value, date) else str(value)
    if encoding is Encoding.TIME:
        found = TIME.fullmatch(text)
        if found is None or int(found[1]) > MAX_HOURS:
            raise ValueError(text)
        return text
    found = (DATE if encoding is Encoding.DATE else DATETIME).fullmatch(text)
    if found is None:
        raise ValueError(text)
    date.fromisoformat(text[:10])
    return text.replace("T", " ").removesuffix("Z")


DIALECT = Dialect(
    mark=lambda _number: "?",
    quotes=("`", "`"),
    row_comparison=False,  # neither server finds a range of an index for it
    value=_value,
    key=_key,
    field=_field,
    bind=_bind,
    null=_null,
    longest_list=10_000,
)
