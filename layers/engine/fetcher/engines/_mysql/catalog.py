"""Every table and view of the connected database, with columns and usable key, in four or five queries.

A key is usable when `key > position` in the column's own collation walks the rows exactly once: the primary
key, or else the shortest unique index over whole NOT NULL columns of `KEYED` types. Binary floats are none of them
(`design.md` §8), nor are sets, whose bits are compared as floats, and points, which have no text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fetcher.engines._mysql.opening import Opened
from fetcher.engines._mysql.values import encoding
from fetcher.model import Catalog, Column, Encoding, Table

CONNECTED = (
    "TABLE_SCHEMA = DATABASE() AND"
    " (@@lower_case_table_names > 0 OR CAST(TABLE_SCHEMA AS BINARY) = CAST(DATABASE() AS BINARY))"
)
"""The catalog compares without case, but `shop` and `Shop` can be two databases."""

COLUMNS = f"""
SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, COLLATION_NAME, IS_NULLABLE
  FROM information_schema.COLUMNS WHERE {CONNECTED} ORDER BY ORDINAL_POSITION
"""  # noqa: S608 - constants only

INDEXES = f"""
SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART IS NULL AND INDEX_TYPE = 'BTREE'
  FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND {CONNECTED} ORDER BY SEQ_IN_INDEX
"""  # noqa: S608 - constants only

HAS_CHECKS = """
SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'
   AND TABLE_NAME = 'CHECK_CONSTRAINTS' AND COLUMN_NAME = 'TABLE_NAME'
"""
CHECKS = f"""
SELECT TABLE_NAME, CHECK_CLAUSE
  FROM information_schema.CHECK_CONSTRAINTS WHERE {CONNECTED.replace("TABLE_SCHEMA", "CONSTRAINT_SCHEMA")}
"""  # noqa: S608 - constants only
"""On MariaDB a JSON column is a longtext with a check of its own; MySQL has a type, and no such column here."""

UNVERSIONED = f"""
SELECT TABLE_NAME FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
 WHERE e.TRANSACTIONS <> 'YES' AND {CONNECTED}
"""  # noqa: S608 - constants only

KEYED = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "year", "decimal", "bit"),
        *("date", "time", "datetime", "timestamp", "char", "varchar", "enum", "binary", "varbinary"),
        *("uuid", "inet4", "inet6"),
    }
)
"""Types whose every value has a text from which the server makes that very value again: `dialect` has both ways."""

Row = Sequence[Any]


def discovered(connection: Opened) -> Catalog:
    """Describe what the user may see; which of it may be read is decided by the read."""
    checks = set(_rows(connection, CHECKS)) if _rows(connection, HAS_CHECKS) else set()
    tables: dict[str, list[tuple[Column, str]]] = {}
    for table, name, declared, kind, collation, nullable in _rows(connection, COLUMNS):
        is_json = (table, f"json_valid(`{name.replace('`', '``')}`)") in checks
        column = _column(name, declared, kind, collation, nullable=nullable == "YES", is_json=is_json)
        tables.setdefault(table, []).append((column, kind))
    indexes = _indexes(_rows(connection, INDEXES))
    described = (_table(name, columns, indexes.get(name, {})) for name, columns in tables.items())
    return Catalog({table.path: table for table in described})


def unversioned(connection: Opened) -> frozenset[tuple[str, ...]]:
    """Name the tables whose engine (MyISAM, Aria, MEMORY) has no transactions: to them a snapshot means nothing."""
    return frozenset((str(name),) for (name,) in _rows(connection, UNVERSIONED))


def _rows(connection: Opened, sql: str) -> list[Row]:
    """Fetch names, some of which MariaDB lets be no UTF-8: those can be shown, and hide no other."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [
            tuple(None if value is None else bytes(value).decode(errors="backslashreplace") for value in row)
            for row in cursor
        ]


def _column(name: str, declared: str, kind: str, collation: str | None, *, nullable: bool, is_json: bool) -> Column:
    """Make the collation part of the type: with another one, a saved position would mean another row."""
    full = f"{declared} collate {collation}" if collation else declared
    return Column(name, full, Encoding.JSON if is_json else encoding(kind, declared), nullable)


def _indexes(rows: Iterable[Row]) -> Mapping[str, Mapping[str, Sequence[str | None]]]:
    """Collect the columns of each index, with None for what is not a whole column."""
    indexes: dict[str, dict[str, list[str | None]]] = {}
    for table, index, column, whole in rows:
        indexes.setdefault(table, {}).setdefault(index, []).append(column if whole == "1" else None)
    return indexes


def _table(name: str, columns: Sequence[tuple[Column, str]], indexes: Mapping[str, Sequence[str | None]]) -> Table:
    usable = {column.name for column, kind in columns if not column.nullable and kind in KEYED}
    keys = [(index, key) for index, key in indexes.items() if usable.issuperset(key)]
    best = min(keys, key=lambda each: (each[0] != "PRIMARY", len(each[1]), each[0]), default=("", ()))
    return Table((name,), tuple(column for column, _ in columns), tuple(filter(None, best[1])))
