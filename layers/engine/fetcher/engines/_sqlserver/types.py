"""The types of SQL Server: how the catalog's facts become a declared name, and a declared name an encoding."""

import re
from collections.abc import Mapping

from fetcher.model import Column, Encoding

TYPES: Mapping[str, Encoding] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Encoding.INTEGER),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), Encoding.DECIMAL),
    **dict.fromkeys(("float", "real"), Encoding.FLOAT),
    **dict.fromkeys(("datetime2", "datetime", "smalldatetime"), Encoding.TIMESTAMP),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp"), Encoding.BINARY),
    "bit": Encoding.BOOLEAN,
    "date": Encoding.DATE,
    "time": Encoding.TIME,
    "datetimeoffset": Encoding.TIMESTAMP_UTC,
    "uniqueidentifier": Encoding.UUID,
    "json": Encoding.JSON,
}
"""By their names in `sys.types`, where rowversion is `timestamp`; every other type is its own text."""

CHARACTER = frozenset({"char", "varchar", "text", "nchar", "nvarchar", "ntext"})
NARROW = frozenset({"char", "varchar", "text"})
"""Those that are stored in the code page of their collation."""
LARGE = frozenset({"text", "ntext", "image", "xml", "sql_variant", "json", "vector"})
"""Those that cannot be compared as they are, or not exactly."""
UNORDERED = frozenset({"float", "real", "geometry", "geography"}) | LARGE
"""Those that are no sort key (`design.md` §8 refuses binary floats)."""

COLLATION = re.compile(r" collate (\w+)$")
METHODS = " (clr)"
"""Ends the name of a type that is a class in the server: it shows itself by its method ToString."""


def declared(kind: str, length: int, precision: int, scale: int, collation: str | None, *, is_class: bool) -> str:
    """Write a type as in CREATE TABLE. The collation is part of it: with another one, a position means another row."""
    match kind:
        case "nchar" | "nvarchar" | "char" | "varchar" | "binary" | "varbinary":
            size = length // 2 if kind.startswith("n") else length
            kind = f"{kind}({'max' if length < 0 else size})"
        case "decimal" | "numeric":
            kind = f"{kind}({precision},{scale})"
        case "time" | "datetime2" | "datetimeoffset":
            kind = f"{kind}({scale})"
    return kind + (METHODS if is_class else "") + (f" collate {collation}" if collation else "")


def kind(column: Column) -> str:
    """Return the bare name of the column's type."""
    return re.split(r"[( ]", column.type, maxsplit=1)[0]


def collation(column: Column) -> str | None:
    """Return the collation in which the column is compared."""
    found = COLLATION.search(column.type)
    return found[1] if found else None


def is_class(column: Column) -> bool:
    """Say whether the type is a class in the server, such as hierarchyid."""
    return column.type.endswith(METHODS)
