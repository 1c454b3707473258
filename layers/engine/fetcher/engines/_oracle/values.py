"""How Oracle's types become JSON (`design.md` §7.2): by the server where its text is exact, else from the driver.

The server renders numbers, times, intervals and booleans; several of them travel as one text, with the names
of the members between them. Text and binary values come as they are and are escaped here, because a VARCHAR2
that the server escapes may become longer than a VARCHAR2 can be. Binary floats come as IEEE numbers, because
the server's text of one is not its shortest.
"""

import math
import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from fetcher.engines._floats import shortest_single
from fetcher.engines._oracle.types import READABLE, digits, fraction, kind
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding

SECONDS = "SYYYY-MM-DD HH24:MI:SS"
ISO = 'SYYYY-MM-DD"T"HH24:MI:SS'
"""With `S` a year before Christ has its sign, and others a blank that is taken away."""

LONGEST_FORMAT = 60
"""Characters of a number format; Oracle takes 63."""

GIVEN = "CASE WHEN {0} IS NULL THEN 'null' ELSE {1} END"
QUOTED = """CASE WHEN {0} IS NULL THEN 'null' ELSE '"' || {1} || '"' END"""
PLAIN = "TO_CHAR({0}, 'TM9')"
DECIMAL = (
    "CASE WHEN {0} IS NULL THEN 'null' WHEN {0} = 0 THEN '\"0\"'"
    " WHEN ABS({0}) >= 1E60 OR ABS({0}) < 1E-20 THEN '\"' || CHR(1) || TO_CHAR({0}, 'TME') || CHR(1) || '\"'"
    " WHEN ABS({0}) < 1 THEN '\"' || REPLACE(TO_CHAR({0}, 'TM9'), '.', '0.') || '\"'"
    " ELSE '\"' || TO_CHAR({0}, 'TM9') || '\"' END"
)
"""A text of over 64 characters has an exponent even in TM9: it comes between marks, and is written out here."""
LARGE_INTEGER = DECIMAL.replace('"', "")

TRUTH = "CASE WHEN {0} IS NULL THEN 'null' WHEN {0} THEN 'true' ELSE 'false' END"

AS_TEXT = {
    "JSON": "JSON_SERIALIZE({0} RETURNING CLOB)",
    "XMLTYPE": "XMLSERIALIZE(CONTENT {0} AS CLOB)",
    "VECTOR": "FROM_VECTOR({0} RETURNING CLOB)",
}

MARKED = re.compile("\x01([^\x01]*)\x01")

Finish = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Rendered:
    """An expression of the server, and what makes JSON of its value; without it the value is JSON already.

    `width` bounds the bytes of such a value.
    """

    sql: str
    finish: Finish | None = None
    width: int = 0


def rendered(column: Column, name: str) -> Rendered:
    """Say how a column is read; `name` is its quoted name."""
    if kind(column) not in READABLE:
        raise InvalidRequestError("Oracle has no text for a column of an object type: leave it out")
    return BY_ENCODING.get(column.encoding, _written)(column, name)


def _written(column: Column, name: str) -> Rendered:
    return Rendered(AS_TEXT.get(kind(column), "{0}").replace("{0}", name), FINISHES.get(column.encoding, _text))


def _float(column: Column, name: str) -> Rendered:
    return Rendered(name, _single if kind(column) == "BINARY_FLOAT" else _double)


def _boolean(_column: Column, name: str) -> Rendered:
    return Rendered(TRUTH.replace("{0}", name), width=5)


def _interval(_column: Column, name: str) -> Rendered:
    return _quoted(name, f"TO_CHAR({name})")


def _number(column: Column, name: str) -> Rendered:
    """Keep the declared scale; a NUMBER without one has no zeros to keep."""
    precision, scale = digits(column.type)
    if scale is None or scale > LONGEST_FORMAT - 2 or precision > LONGEST_FORMAT:
        return Rendered(DECIMAL.replace("{0}", name), width=70)
    if scale <= 0:
        template = LARGE_INTEGER if precision - scale > LONGEST_FORMAT else GIVEN.replace("{1}", PLAIN)
        return Rendered(template.replace("{0}", name), width=70)
    model = f"FM{'9' * (precision - scale - 1)}0.{'0' * scale}"
    return _quoted(name, f"TO_CHAR({name}, '{model}')")


def _moment(column: Column, name: str) -> Rendered:
    """Show a point in time in UTC; the session's zone is UTC, so a local one needs no conversion."""
    model = ISO + (f".FF{places}" if (places := fraction(column)) else "")
    moment = f"SYS_EXTRACT_UTC({name})" if kind(column) == "TIMESTAMP WITH TIME ZONE" else name
    zone = " || 'Z'" if column.encoding is Encoding.TIMESTAMP_UTC else ""
    return _quoted(name, f"LTRIM(TO_CHAR({moment}, '{model}')){zone}")


def _quoted(name: str, expression: str) -> Rendered:
    return Rendered(QUOTED.replace("{1}", expression).replace("{0}", name), width=80)


def plain(text: str) -> str:
    """Write out the numbers that the server could only write with an exponent."""
    return MARKED.sub(lambda match: f"{Decimal(match[1]):f}", text) if "\x01" in text else text


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring(value)


def _binary(value: bytes | None) -> str:
    return "null" if value is None else f'"{b2a_base64(value, newline=False).decode()}"'


def _json(value: str | None) -> str:
    return "null" if value is None else value


def _double(value: float | None) -> str:
    if value is None:
        return "null"
    return repr(float(value)) if math.isfinite(value) else _unreal(value)


def _single(value: float | None) -> str:
    """Show a BINARY_FLOAT, which the driver gives as a double, by its own shortest digits."""
    if value is None or not math.isfinite(value):
        return _double(value)
    return repr(float(shortest_single(value)))


def _unreal(value: float) -> str:
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


FINISHES: Mapping[Encoding, Finish] = {Encoding.BINARY: _binary, Encoding.JSON: _json}

BY_ENCODING: Mapping[Encoding, Callable[[Column, str], Rendered]] = {
    Encoding.INTEGER: _number,
    Encoding.DECIMAL: _number,
    Encoding.FLOAT: _float,
    Encoding.BOOLEAN: _boolean,
    Encoding.TIMESTAMP: _moment,
    Encoding.TIMESTAMP_UTC: _moment,
    Encoding.INTERVAL: _interval,
}
