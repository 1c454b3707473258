"""Oracle's types, by the name that a discovered column carries, such as `TIMESTAMP(6) WITH TIME ZONE`."""

import re

from fetcher.model import Column, Encoding

TYPES = {
    "NUMBER": Encoding.DECIMAL,
    "FLOAT": Encoding.DECIMAL,
    "BINARY_FLOAT": Encoding.FLOAT,
    "BINARY_DOUBLE": Encoding.FLOAT,
    "BOOLEAN": Encoding.BOOLEAN,
    "DATE": Encoding.TIMESTAMP,
    "TIMESTAMP": Encoding.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Encoding.TIMESTAMP_UTC,
    "TIMESTAMP WITH LOCAL TIME ZONE": Encoding.TIMESTAMP_UTC,
    "INTERVAL YEAR TO MONTH": Encoding.INTERVAL,
    "INTERVAL DAY TO SECOND": Encoding.INTERVAL,
    "RAW": Encoding.BINARY,
    "LONG RAW": Encoding.BINARY,
    "BLOB": Encoding.BINARY,
    "JSON": Encoding.JSON,
}
"""A DATE has a time of day. A NUMBER of scale 0 is an integer; every type that is not here is text."""

CHARACTER = frozenset({"CHAR", "VARCHAR2", "NCHAR", "NVARCHAR2"})
LARGE = frozenset({"CLOB", "NCLOB", "BLOB", "LONG", "LONG RAW", "JSON", "XMLTYPE", "VECTOR"})
READABLE = frozenset({*TYPES, *CHARACTER, *LARGE, "ROWID", "UROWID"})
"""Objects, collections, BFILE and the like have no text of their own."""

BRACKETS = re.compile(r"\([^)]*\)")
NUMERIC = re.compile(r"NUMBER\((\d+|\*)(?:,(-?\d+))?\)")
FRACTION = re.compile(r"TIMESTAMP\((\d)\)")
LENGTH = re.compile(r"\((\d+)( CHAR| BYTE)?\)")
COLLATED = " COLLATE "


def kind(column: Column) -> str:
    """Return the type without its numbers and its collation."""
    return BRACKETS.sub("", column.type.partition(COLLATED)[0])


def encoding(declared: str) -> Encoding:
    """Name the encoding of a declared type."""
    bare = BRACKETS.sub("", declared.partition(COLLATED)[0])
    scale = digits(declared)[1]
    return Encoding.INTEGER if bare == "NUMBER" and scale is not None and scale <= 0 else TYPES.get(bare, Encoding.TEXT)


def digits(declared: str) -> tuple[int, int | None]:
    """Return precision and scale of a NUMBER; 38 and None where none are declared."""
    found = NUMERIC.fullmatch(declared)
    if found is None:
        return 38, None
    return 38 if found[1] == "*" else int(found[1]), int(found[2] or 0)


def fraction(column: Column) -> int:
    """Return the digits that a TIMESTAMP keeps of a second."""
    found = FRACTION.match(column.type)
    return int(found[1]) if found else 0


def width(column: Column) -> int:
    """Return how many bytes of a value the driver makes room for, at most."""
    found = LENGTH.search(column.type)
    if found is None or column.encoding not in {Encoding.TEXT, Encoding.BINARY}:
        return 64
    return int(found[1]) * (4 if found[2] == " CHAR" or kind(column).startswith("N") else 1)


def declared(name: str, *, length: int, precision: int | None, scale: int | None, by_character: bool) -> str:
    """Spell a type from what the catalog says of a column; names of TIMESTAMPs and INTERVALs are complete."""
    match name:
        case "NUMBER" if precision is None and scale is None:
            return name
        case "NUMBER":
            return f"NUMBER({'*' if precision is None else precision},{scale or 0})"
        case "FLOAT" | "RAW":
            return f"{name}({precision if name == 'FLOAT' else length})"
        case "CHAR" | "VARCHAR2":
            return f"{name}({length} {'CHAR' if by_character else 'BYTE'})"
        case "NCHAR" | "NVARCHAR2":
            return f"{name}({length})"
        case _:
            return name
