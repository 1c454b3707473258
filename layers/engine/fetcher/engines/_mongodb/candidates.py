"""What a filter's value may be in BSON: one value of the observed type, or each of those that JSON shows alike.

Each candidate is a value, or a range of them, within one bracket of BSON's types. `design.md` §7.3: a day
given for a date is the whole day.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from math import inf, isfinite
from typing import Any
from uuid import UUID

from bson import Decimal128, ObjectId
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import create_decimal128_context
from bson.int64 import Int64

from fetcher.core.filters import typed
from fetcher.errors import InvalidRequestError, Where
from fetcher.model import Column, Condition, Encoding, Operator

SIGNS: Mapping[Operator, str] = {"gt": "$gt", "gte": "$gte", "lt": "$lt", "lte": "$lte"}
UP, DOWN = frozenset({"gt", "gte"}), frozenset({"lt", "lte"})

INT64 = range(-(2**63), 2**63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
DAY_MS = 86_400_000
LAST_MS = DAY_MS - 1
"""BSON knows nothing between the last millisecond of a day and the next day."""
SUBTYPES = (0, 1, 2, 5, 6, 7, 8, 9, 128)
UUIDS = (4, 3)
LAST_UUID = b"\xff" * 16
HEX = frozenset("0123456789abcdef")
OBJECT_ID_DIGITS = 24

Term = Mapping[str, Any]
"""Operators of MongoDB for one field, such as `{"$gt": 1}`."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The BSON values for one value of a filter."""

    equal: Callable[[Any], Iterator[Any]]
    compared: Callable[[Operator, Any], Iterator[Term]]


def of(column: Column) -> Candidates:
    """Choose by the type that was observed."""
    if column.type == "objectId":
        return OBJECT_IDS
    return BY_ENCODING.get(column.encoding, ANY)


def _plain(value: Any) -> Iterator[Any]:
    yield value


def _ordered(operator: Operator, value: Any) -> Iterator[Term]:
    yield {SIGNS[operator]: value}


def _exact_number(value: int | Decimal) -> Iterator[Any]:
    """A number that BSON cannot hold equals none."""
    if isinstance(value, int) and value in INT64:
        yield Int64(value)
    elif (rounded := _decimal128(value, None)) is not None:
        yield rounded


def _number_compared(operator: Operator, value: int | Decimal) -> Iterator[Term]:
    """Between two numbers that BSON can hold, `>` and `>=` mean the same next one."""
    if (exact := next(_exact_number(value), None)) is not None:
        yield {SIGNS[operator]: exact}
    elif operator in UP:
        yield {"$gte": _decimal128(value, ROUND_CEILING)}
    else:
        yield {"$lte": _decimal128(value, ROUND_FLOOR)}


def _decimal128(value: int | Decimal, rounding: str | None) -> Decimal128 | None:
    context: Context = create_decimal128_context()
    context.rounding = rounding or context.rounding
    context.traps[Inexact] = rounding is None
    try:
        return Decimal128(context.create_decimal(value))
    except ArithmeticError:
        return None


def _float(value: int | Decimal) -> Iterator[Any]:
    """A fraction means the double that it is written for; whole and huge numbers are compared exactly."""
    nearest = float(value) if isinstance(value, Decimal) else inf
    if isfinite(nearest):
        yield nearest
    else:
        yield from _exact_number(value)


def _float_compared(operator: Operator, value: int | Decimal) -> Iterator[Term]:
    if isinstance(value, Decimal) and isfinite(nearest := float(value)):
        yield {SIGNS[operator]: nearest}
    else:
        yield from _number_compared(operator, value)


def _object_id(value: str) -> Iterator[Any]:
    if not _is_object_id(value.lower()):
        raise ValueError("no ObjectId")
    yield ObjectId(value)


def _object_id_compared(operator: Operator, value: str) -> Iterator[Term]:
    yield from _ordered(operator, next(_object_id(value)))


def _is_object_id(value: str) -> bool:
    return len(value) == OBJECT_ID_DIGITS and set(value) <= HEX


def _uuid(value: str) -> Iterator[Any]:
    for subtype in UUIDS:
        yield Binary(UUID(value).bytes, subtype)


def _uuid_compared(operator: Operator, value: str) -> Iterator[Term]:
    """Stay among the UUIDs of a subtype: other binaries of 16 bytes or more sort behind them."""
    for subtype, given in zip(UUIDS, _uuid(value), strict=True):
        ends = {"$lte": Binary(LAST_UUID, subtype)} if operator in UP else {"$gte": Binary(bytes(16), subtype)}
        yield {SIGNS[operator]: given, **ends}


def _binary(value: bytes) -> Iterator[Any]:
    """JSON shows the bytes alone, so any subtype may be meant."""
    for subtype in SUBTYPES:
        yield Binary(value, subtype)


def _moment(value: str | date) -> tuple[int, bool]:
    """Return whole milliseconds, and whether something smaller was cut off."""
    if isinstance(value, date):
        return (date.toordinal(value) - EPOCH.toordinal()) * DAY_MS, False
    seconds, _, fraction = value.removesuffix("Z").partition(".")
    whole = (datetime.fromisoformat(seconds).replace(tzinfo=UTC) - EPOCH) // MILLISECOND
    digits = fraction.ljust(9, "0")
    return whole + int(digits[:3]), digits[3:].strip("0") != ""


def _date(value: str | date) -> Iterator[Any]:
    milliseconds, cut = _moment(value)
    if not cut:
        yield DatetimeMS(milliseconds)


def _date_compared(operator: Operator, value: str | date) -> Iterator[Term]:
    milliseconds, cut = _moment(value)
    if isinstance(value, date) and operator in {"gt", "lte"}:
        yield {SIGNS[operator]: DatetimeMS(milliseconds + LAST_MS)}
    elif cut:
        yield {"$gt" if operator in UP else "$lte": DatetimeMS(milliseconds)}
    else:
        yield {SIGNS[operator]: DatetimeMS(milliseconds)}


def _any(value: Any) -> Iterator[Any]:
    """All that JSON shows as this value, where a field has no one type."""
    if isinstance(value, bool):
        yield value
    elif isinstance(value, int):
        yield from _exact_number(value)
    elif isinstance(value, Decimal):
        yield from _float(value)
        yield from _exact_number(value)
    else:
        yield value
        for candidates, read in _readings(value):
            yield from candidates.equal(read)


def _any_compared(operator: Operator, value: Any) -> Iterator[Term]:
    if isinstance(value, Decimal):
        yield {"$type": "double", **next(_float_compared(operator, value))}
        yield {"$type": ["int", "long", "decimal"], **next(_number_compared(operator, value))}
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _number_compared(operator, value)
    else:
        yield {SIGNS[operator]: value}
        for candidates, read in _readings(value) if isinstance(value, str) else ():
            yield from candidates.compared(operator, read)


def _readings(value: str) -> Iterator[tuple[Candidates, Any]]:
    """Read a text as every type that JSON writes as text."""
    if _is_object_id(value):
        yield OBJECT_IDS, value
    for encoding in (Encoding.TIMESTAMP_UTC, Encoding.UUID):
        column = Column("", "", encoding)
        try:
            (read,) = typed(column, Condition("", "eq", (value,)), Where()).values
        except InvalidRequestError:
            continue
        yield BY_ENCODING[encoding], read


NUMBERS = Candidates(_exact_number, _number_compared)
OBJECT_IDS = Candidates(_object_id, _object_id_compared)
ANY = Candidates(_any, _any_compared)
BY_ENCODING: Mapping[Encoding, Candidates] = {
    Encoding.INTEGER: NUMBERS,
    Encoding.DECIMAL: NUMBERS,
    Encoding.FLOAT: Candidates(_float, _float_compared),
    Encoding.BOOLEAN: Candidates(_plain, _ordered),
    Encoding.TEXT: Candidates(_plain, _ordered),
    Encoding.UUID: Candidates(_uuid, _uuid_compared),
    Encoding.TIMESTAMP_UTC: Candidates(_date, _date_compared),
    Encoding.BINARY: Candidates(_binary, _ordered),
}
