"""Every table and view of some owners, with columns and usable key, in two queries; in a third, what is narrowed.

A key is usable when `key > position` walks the rows exactly once: a primary key, or else the shortest unique
constraint over NOT NULL columns, enabled and validated, of types whose text makes a position again and of a
binary order. Binary floats are refused (`design.md` §8). Owners that belong to Oracle itself are left out by
what the catalog says of the owner, never by a table's name.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import oracledb

from fetcher.engines._oracle.dialect import KEYS
from fetcher.engines._oracle.types import COLLATED, declared, encoding, kind
from fetcher.model import Catalog, Column, Table

# A view of the user's own must not take the place of Oracle's, so its owner is named.
COLUMNS = """
SELECT c.owner, c.table_name, c.column_name, c.data_type, c.data_type_owner,
       CASE WHEN c.data_type IN ('NCHAR', 'NVARCHAR2') OR c.char_used = 'C' THEN c.char_length ELSE c.data_length END,
       c.data_precision, c.data_scale, c.char_used, c.nullable, c.collation
  FROM sys.all_tab_columns c
  JOIN sys.all_users u ON u.username = c.owner
 WHERE u.oracle_maintained = 'N' AND c.owner IN ({owners})
 ORDER BY c.owner, c.table_name, c.column_id
"""

CONSTRAINTS = """
SELECT k.owner, k.table_name, k.constraint_type, k.constraint_name, p.column_name
  FROM sys.all_constraints k
  JOIN sys.all_cons_columns p
    ON p.owner = k.owner AND p.constraint_name = k.constraint_name AND p.table_name = k.table_name
 WHERE k.constraint_type IN ('P', 'U') AND k.status = 'ENABLED' AND k.validated = 'VALIDATED'
   AND k.owner IN ({owners})
 ORDER BY k.owner, k.table_name, k.constraint_name, p.position
"""

NARROWED = """
SELECT p.object_owner, p.object_name
  FROM sys.all_policies p
 WHERE p.sel = 'YES' AND p.enable = 'YES' AND p.object_owner IN ({owners})
   AND NOT EXISTS (SELECT 1 FROM sys.session_privs s WHERE s.privilege = 'EXEMPT ACCESS POLICY')
"""
"""Source: Oracle Database Reference, ALL_POLICIES: those of every table and view that the user may read."""

DEFAULT_COLLATIONS = frozenset({None, "USING_NLS_COMP"})
BINARY_COLLATION = f"{COLLATED}BINARY"
CATALOG_ROWS = 1000

Path = tuple[str, str]
Keys = Mapping[Path, Mapping[tuple[str, str], Sequence[str]]]


def discovered(connection: oracledb.Connection, owners: Sequence[str]) -> Catalog:
    """Describe what the user may see; which of it may be read is decided by the read."""
    keys = _keys(_rows(connection, CONSTRAINTS, owners))
    groups = groupby(_rows(connection, COLUMNS, owners), key=lambda row: (row[0], row[1]))
    tables = (_table(path, [_column(row[2:]) for row in rows], keys) for path, rows in groups)
    return Catalog({table.path: table for table in tables})


def narrowed(connection: oracledb.Connection, owners: Sequence[str]) -> frozenset[Path]:
    """Name the tables and views of which an enabled policy (VPD) hides rows or values from this user."""
    return frozenset((owner, table) for owner, table in _rows(connection, NARROWED, owners))


def _rows(connection: oracledb.Connection, sql: str, owners: Sequence[str]) -> Iterator[Sequence[Any]]:
    marks = ", ".join(f":{at}" for at in range(1, len(owners) + 1))
    with connection.cursor() as cursor:
        cursor.arraysize = cursor.prefetchrows = CATALOG_ROWS
        cursor.execute(sql.format(owners=marks), list(owners))
        yield from cursor


def _column(row: Sequence[Any]) -> Column:
    """Make a collation of the column's own part of the type: with another one, a position means another row."""
    name, data_type, type_owner, length, precision, scale, char_used, nullable, collation = row
    if type_owner is not None and data_type != "XMLTYPE":
        data_type = f"{type_owner}.{data_type}"
    spelled = declared(data_type, length=length, precision=precision, scale=scale, by_character=char_used == "C")
    full = spelled if collation in DEFAULT_COLLATIONS else f"{spelled}{COLLATED}{collation}"
    return Column(name, full, encoding(full), nullable=nullable != "N")


def _keys(rows: Iterator[Sequence[Any]]) -> Keys:
    keys: dict[Path, dict[tuple[str, str], list[str]]] = {}
    for owner, table, kind_of_key, constraint, column in rows:
        keys.setdefault((owner, table), {}).setdefault((kind_of_key, constraint), []).append(column)
    return keys


def _table(path: Path, columns: Sequence[Column], keys: Keys) -> Table:
    usable = {column.name for column in columns if _is_usable(column)}
    candidates = [(each, key) for each, key in keys.get(path, {}).items() if usable.issuperset(key)]
    # Before the unique constraints, marked U, comes the primary key, marked P.
    best = min(candidates, key=lambda each: (each[0][0], len(each[1]), each[0][1]), default=(None, ()))
    return Table(path, tuple(columns), tuple(best[1]))


def _is_usable(column: Column) -> bool:
    ordered = COLLATED not in column.type or column.type.endswith(BINARY_COLLATION)
    return not column.nullable and ordered and kind(column) in KEYS
