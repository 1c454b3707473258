r"""How SQL Server compares: filters and positions, by the discovered type and in the column's own collation.

| column | a value is compared as | so that |
|--|--|--|
| integer, decimal, money | bigint or decimal of the value's own digits | no digit is cut; over 38 digits is refused |
| float, real | float, real | 0.1 finds 0.1 |
| bit, date, time, uniqueidentifier | the same type | a typo is an error |
| datetime2, datetime, smalldatetime | datetime2(7); datetime where that has the value | the ends of a day are exact |
| datetimeoffset | datetimeoffset(7), an instant | |
| char, varchar | varchar, if the value is ASCII; else nvarchar | no character is replaced by a similar one |
| nchar, nvarchar | nvarchar | |
| xml, sql_variant, classes and other text | the text that is delivered | |
| binary, varbinary, rowversion | varbinary | |

Every value travels as text, and several as one JSON array: a statement takes no more than 2,100 parameters. `=` ignores
trailing spaces, and the collation decides on case; `like` does not ignore them, and `[` means itself.
"""

import json
import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from fetcher.engines._sql import Dialect
from fetcher.engines._sqlserver.types import CHARACTER, LARGE, NARROW, collation, is_class, kind
from fetcher.engines._sqlserver.values import shown
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding, Operator

BIGINT = range(-(2**63), 2**63)
MAX_DIGITS = 38
MAX_FRACTION = 7
FIRST_DATETIME = "1753"

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?")
TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,7})?)?")
THIRDS = re.compile(r".{10}(T\d\d:\d\d:\d\d(\.\d\d[037]?0*|\.\d0*)?)?")
"""What a datetime can hold: every text of one ends in a thousandth of 0, 3 or 7."""

CONVERTED = {
    Encoding.FLOAT: "CONVERT(float, {0})",
    Encoding.BOOLEAN: "CONVERT(bit, {0})",
    Encoding.DATE: "CONVERT(date, {0}, 23)",
    Encoding.TIME: "CONVERT(time(7), {0}, 121)",
    Encoding.TIMESTAMP: "CONVERT(datetime2(7), {0}, 126)",
    Encoding.TIMESTAMP_UTC: "CONVERT(datetimeoffset(7), {0}, 127)",
    Encoding.UUID: "CONVERT(uniqueidentifier, {0})",
    Encoding.BINARY: "CONVERT(varbinary(max), {0}, 2)",
}
DATETIME = "CONVERT(datetime, {0}, 126)"
REAL = "CONVERT(real, {0})"


def key_text(column: Column, name: str) -> str:
    """Spell what `Position` keeps of a key column."""
    if column.encoding is Encoding.TIMESTAMP_UTC:
        return f"CONVERT(nvarchar(40), {name}, 121)"
    text = shown(column, name)
    return text if is_class(column) else f"CONVERT(nvarchar(4000), {text})"


KEYS = {
    "money": "CONVERT(money, {0})",
    "smallmoney": "CONVERT(smallmoney, {0})",
    "datetime": "CONVERT(datetime, {0}, 121)",
    "smalldatetime": "CONVERT(smalldatetime, {0}, 121)",
    "datetime2": "CONVERT(datetime2(7), {0}, 121)",
    "datetimeoffset": "CONVERT(datetimeoffset(7), {0}, 121)",
    "hierarchyid": "CONVERT(hierarchyid, {0})",
}


def _key(mark: str, column: Column) -> str:
    if _is_narrow(column):
        return _narrowed(mark, column)
    if column.encoding is Encoding.INTEGER:
        return f"CONVERT(bigint, {mark})"
    if kind(column) in {"decimal", "numeric"}:
        return f"CONVERT({column.type}, {mark})"
    return KEYS.get(kind(column), CONVERTED.get(column.encoding, "{0}")).format(mark)


def _is_narrow(column: Column) -> bool:
    """A pattern of LIKE is text without a collation, and so without a code page."""
    return kind(column) in NARROW and collation(column) is not None


def _narrowed(mark: str, column: Column) -> str:
    """Bring text to the column's code page: some collations order varchar and nvarchar differently."""
    return f"CONVERT(varchar(8000), {_collated(mark, column)})"


def _collated(mark: str, column: Column) -> str:
    return f"{mark} COLLATE {collation(column)}" if collation(column) else mark


def _field(name: str, column: Column, operator: Operator) -> str:
    if kind(column) == "image":
        return f"CONVERT(varbinary(max), {name})"
    if kind(column) in LARGE or is_class(column) or (operator == "like" and kind(column) not in CHARACTER):
        return shown(column, name)
    return name


def _value(mark: str, column: Column, values: Sequence[Any]) -> str:
    match column.encoding:
        case Encoding.INTEGER | Encoding.DECIMAL:
            return f"CONVERT({_number_type(list(map(_number, values)))}, {mark})"
        case Encoding.FLOAT if kind(column) == "real":
            return REAL.format(mark)
        case Encoding.TIMESTAMP if kind(column) == "datetime" and all(map(_is_datetime, map(str, values))):
            return DATETIME.format(mark)
        case Encoding.TEXT if _is_narrow(column) and all(str(value).isascii() for value in values):
            return _narrowed(mark, column)
        case Encoding.TEXT:
            return _collated(mark, column)
        case encoding:
            return CONVERTED.get(encoding, "{0}").format(mark)


def _is_datetime(text: str) -> bool:
    return text >= FIRST_DATETIME and bool(THIRDS.fullmatch(text))


def _number_type(texts: Sequence[str]) -> str:
    parts = [text.lstrip("-").partition(".") for text in texts]
    scale = max(len(fraction) for _, _, fraction in parts)
    if not scale and all(int(text) in BIGINT for text in texts):
        return "bigint"
    digits = max(len(whole.lstrip("0")) for whole, _, _ in parts) + scale
    if digits > MAX_DIGITS:
        raise InvalidRequestError(f"a number of more than {MAX_DIGITS} digits does not fit a column in SQL Server")
    return f"decimal({max(1, digits)},{scale})"


def _number(value: Any) -> str:
    """Write every digit, without zeros at the end of a fraction."""
    try:
        text = f"{Decimal(value):f}"
    except (ArithmeticError, ValueError) as error:
        raise _misfit() from error
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bind(column: Column, value: Any) -> str:
    match column.encoding:
        case Encoding.INTEGER | Encoding.DECIMAL:
            return _number(value)
        case Encoding.BOOLEAN:
            return "1" if value else "0"
        case Encoding.BINARY:
            return bytes(value).hex()
        case Encoding.TIME:
            return _checked(str(value), TIME)
        case Encoding.TIMESTAMP | Encoding.TIMESTAMP_UTC:
            return _moment(column, value.isoformat() if isinstance(value, date) else str(value))
        case _:
            return _without_nul(str(value))


def _moment(column: Column, text: str) -> str:
    """Write date and time in full; an instant says that it is in UTC."""
    utc = column.encoding is Encoding.TIMESTAMP_UTC
    text = text.removesuffix("Z") if utc else text
    return _checked(text if "T" in text else f"{text}T00:00:00", TIMESTAMP) + ("Z" if utc else "")


def _checked(text: str, pattern: re.Pattern[str]) -> str:
    """Drop zeros beyond the seven digits that the types have, and refuse what would be cut."""
    text = text.rstrip("0") if len(text.partition(".")[2]) > MAX_FRACTION else text
    if not pattern.fullmatch(text):
        raise _misfit() from ValueError("not of the form that the type has")
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise _misfit()
    return text


def _misfit() -> InvalidRequestError:
    return InvalidRequestError("a filter value does not fit its column in SQL Server")


def _array(values: Sequence[str]) -> str:
    return json.dumps(list(values))


def _members(mark: str, column: Column, values: Sequence[Any]) -> str:
    if column.encoding is Encoding.TEXT and collation(column) is None:
        member = "[value] COLLATE DATABASE_DEFAULT"
    else:
        member = _value("[value]", column, values)
    return f"SELECT {member} FROM OPENJSON({mark})"  # noqa: S608 - quoted names only


def _pattern(text: str) -> str:
    """Take its second meaning from `[`, which only SQL Server gives it."""
    return re.sub(r"\\.|\[", lambda found: found[0] if len(found[0]) > 1 else "\\[", text, flags=re.DOTALL)


DIALECT = Dialect(
    mark=lambda _: "?",
    quotes=("[", "]"),
    row_comparison=False,
    value=_value,
    key=_key,
    field=_field,
    bind=_bind,
    pattern=_pattern,
    array=_array,
    array_value=_members,
)
