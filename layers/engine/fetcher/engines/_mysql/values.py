"""How the types of MySQL and MariaDB become JSON (`design.md` §7.2), by expressions that the server computes.

Each is exact for every value of its type and never NULL, except where the server says by NULL that a result
is longer than its `max_allowed_packet`. Two kinds are finished by `finishing`: floats, and MariaDB's JSON.
"""

from fetcher.engines._mysql.dialect import bits, is_character, kind, plain
from fetcher.engines._mysql.finishing import NULL_BITS
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

NULLS = "IFNULL({0}, 'null')"
QUOTED = """IFNULL(CONCAT('"', {0}, '"'), 'null')"""
ESCAPED = "IF({0} IS NULL, 'null', JSON_QUOTE({1}))"
AS_IT_IS = "IF({0} IS NULL, 'null', {1})"
STAMP = "IF(YEAR({0}) AND MONTH({0}) AND DAYOFMONTH({0}), INSERT({0}, 11, 1, 'T'), {0})"
STAMP_UTC = "IF(YEAR({0}), CONCAT(INSERT({0}, 11, 1, 'T'), 'Z'), {0})"
"""Zero and partial dates have no form in ISO 8601: they stay the database's text."""
BASE64 = """IF({0} IS NULL, 'null', CONCAT('"', REPLACE(TO_BASE64({0}), '\n', ''), '"'))"""
BITS = f"IFNULL(SUBSTR(HEX(POINT({{0}}, 0)), 19, 16), '{NULL_BITS}')"
"""A point holds its coordinates as they are in memory, behind nine bytes of header; digits cost ten times as much."""

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
            return BITS.replace("{0}", name)
        case Encoding.JSON:
            return AS_IT_IS.replace("{0}", name).replace("{1}", _characters(column, name))
        case encoding:
            return BY_ENCODING[encoding].replace("{0}", plain(column, name))


def _text(column: Column, name: str) -> str:
    if kind(column) == "bit":
        return QUOTED.replace("{0}", bits(column, name))
    return ESCAPED.replace("{0}", name).replace("{1}", _characters(column, name))


def _characters(column: Column, name: str) -> str:
    """Take the text of any type in UTF-8."""
    if column.encoding is not Encoding.JSON and not is_character(column):
        return f"CAST({name} AS CHAR)"
    if kind(column) in {"enum", "set"} or " collate utf8mb4_" not in column.type:
        return f"CONVERT({name} USING utf8mb4)"
    return name
