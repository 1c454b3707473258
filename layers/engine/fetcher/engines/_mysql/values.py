"""How the types of MySQL and MariaDB become JSON (`design.md` §7.2), by expressions that the server computes.

Each is exact for every value of its type and never NULL, except where the server says by NULL that a result
is longer than its `max_allowed_packet`. Two encodings are finished here: the server writes at most six digits of
a FLOAT, and MariaDB's idea of valid JSON is wider than the standard's. Both come between marks, control
characters that no other value can hold.
"""

import json
import re
from collections.abc import Callable, Sequence
from struct import Struct

import orjson

from fetcher.engines._mysql.dialect import bits, is_character, kind, widths
from fetcher.model import Column, Encoding

TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), Encoding.INTEGER),
    **dict.fromkeys(("float", "double"), Encoding.FLOAT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), Encoding.BINARY),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "geomcollection", "vector"), Encoding.BINARY),
    **dict.fromkeys(("multipoint", "multilinestring", "multipolygon", "geometrycollection"), Encoding.BINARY),
    "decimal": Encoding.DECIMAL,
    "date": Encoding.DATE,
    "time": Encoding.TIME,
    "datetime": Encoding.TIMESTAMP,
    "timestamp": Encoding.TIMESTAMP_UTC,
    "json": Encoding.JSON,
    "uuid": Encoding.UUID,
}

FLOAT_MARK, JSON_MARK = "\x01", "\x02"

NULLS = "IFNULL({0}, 'null')"
QUOTED = """IFNULL(CONCAT('"', {0}, '"'), 'null')"""
ESCAPED = "IF({0} IS NULL, 'null', JSON_QUOTE({1}))"
STAMP = "IF(YEAR({0}) AND MONTH({0}) AND DAYOFMONTH({0}), REPLACE({0}, ' ', 'T'), {0})"
STAMP_UTC = "IF(YEAR({0}), CONCAT(REPLACE({0}, ' ', 'T'), 'Z'), {0})"
"""Zero and partial dates have no form in ISO 8601: they stay the database's text."""
BASE64 = """IF({0} IS NULL, 'null', CONCAT('"', REPLACE(TO_BASE64({0}), '\n', ''), '"'))"""
NATIVE_JSON = "IF({0} IS NULL, 'null', CONVERT({0} USING utf8mb4))"
CHECKED_JSON = (
    "IF({0} IS NULL, 'null', IF(JSON_VALID({0}), CONCAT('\x02', CONVERT({0} USING utf8mb4), '\x02'), JSON_QUOTE({0})))"
)

BY_ENCODING = {
    Encoding.INTEGER: NULLS,
    Encoding.DECIMAL: QUOTED,
    Encoding.DATE: QUOTED,
    Encoding.TIME: QUOTED,
    Encoding.UUID: QUOTED,
    Encoding.BOOLEAN: "IF({0} IS NULL, 'null', IF({0}, 'true', 'false'))",
    Encoding.TIMESTAMP: QUOTED.replace("{0}", STAMP),
    Encoding.TIMESTAMP_UTC: QUOTED.replace("{0}", STAMP_UTC),
    Encoding.BINARY: BASE64,
}


def encoding(data_type: str, declared: str) -> Encoding:
    """Name the encoding of a type, given its bare name and its full one."""
    if data_type == "bit":
        return Encoding.BOOLEAN if declared == "bit(1)" else Encoding.TEXT
    return TYPES.get(data_type, Encoding.TEXT)


def rendered(column: Column, name: str) -> str:
    """Return the expression of the column's JSON text; `name` is its quoted name."""
    match column.encoding:
        case Encoding.TEXT:
            return _text(column, name)
        case Encoding.FLOAT:
            return _float(column, name)
        case Encoding.JSON:
            return (NATIVE_JSON if kind(column) == "json" else CHECKED_JSON).replace("{0}", name)
        case encoding:
            return BY_ENCODING[encoding].replace("{0}", _plain(column, name))


def _plain(column: Column, name: str) -> str:
    """Take away the zeros that YEAR and ZEROFILL write in front."""
    if kind(column) == "decimal":
        return f"{name} + 0" if "zerofill" in column.type else name
    return f"CAST({name} AS UNSIGNED)" if kind(column) == "year" or "zerofill" in column.type else name


def _text(column: Column, name: str) -> str:
    if kind(column) == "bit":
        return QUOTED.replace("{0}", bits(column, name))
    if not is_character(column):
        text = f"CAST({name} AS CHAR)"
    elif kind(column) in {"enum", "set"} or " collate utf8mb4_" not in column.type:
        text = f"CONVERT({name} USING utf8mb4)"
    else:
        text = name
    return ESCAPED.replace("{0}", name).replace("{1}", text)


def _float(column: Column, name: str) -> str:
    """By a product with a number of free scale, `float(m,d)` and ZEROFILL lose their padding, and -0 stays."""
    if kind(column) == "float":
        return f"IFNULL(CONCAT('{FLOAT_MARK}', {name} * 1e0, '{FLOAT_MARK}'), 'null')"
    return NULLS.replace("{0}", f"{name} * 1e0" if widths(column)[0] or "zerofill" in column.type else name)


SINGLE = Struct("<f")
SMALLEST_NORMAL = 2.0**-126
FLOATS = re.compile(rb"\x01([^\x01]*)\x01")
JSONS = re.compile(rb"\x02([^\x02]*)\x02")


def finishing(columns: Sequence[Column]) -> Callable[[bytes], bytes]:
    """Return what a page of these columns still needs before it is JSON; for most tables that is nothing."""
    floats = any(kind(column) == "float" for column in columns)
    jsons = any(column.encoding is Encoding.JSON and kind(column) != "json" for column in columns)

    def finished(body: bytes) -> bytes:
        body = FLOATS.sub(_shortest, body) if floats else body
        return JSONS.sub(_checked, body) if jsons else body

    return finished


def _shortest(match: re.Match[bytes]) -> bytes:
    """Find the shortest digits that mean this FLOAT, from the exact double that the server wrote."""
    number = float(match[1])
    for digits in range(6 if abs(number) >= SMALLEST_NORMAL else 1, 9):
        text = b"%.*g" % (digits, number)
        if SINGLE.unpack(SINGLE.pack(float(text)))[0] == number:
            return text
    return b"%.9g" % number


def _checked(match: re.Match[bytes]) -> bytes:
    """Leave JSON as it is, to the byte; what only MariaDB takes for JSON becomes a string."""
    text = match[1]
    return text if _is_json(text) else orjson.dumps(text.decode())


def _is_json(text: bytes) -> bool:
    """Ask the fast parser first; it also refuses numbers that are only too large for it."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        except ValueError:
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
