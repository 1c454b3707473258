"""Every table and view of some schemas, with columns and usable key, in two queries; in two more, what is hidden.

A key is usable when `key > position` in the column's own order walks the rows exactly once: the primary key, or else
the shortest unique index without a filter, over columns that are never NULL. Types without an exact or total order are
refused. Names are compared by the database's collation, and so once more, exactly, here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fetcher.engines._sqlserver.types import TYPES, UNORDERED, declared, is_class, kind
from fetcher.model import Catalog, Column, Encoding, Table

SCOPE = "s.name IN ({marks}) AND s.name NOT IN ('sys', 'INFORMATION_SCHEMA')"

COLUMNS = f"""
SELECT s.name, o.name, c.name, t.name, c.max_length, c.precision, c.scale, c.collation_name, c.is_nullable,
       t.is_assembly_type
  FROM sys.objects o
  JOIN sys.schemas s ON s.schema_id = o.schema_id
  JOIN sys.columns c ON c.object_id = o.object_id
  JOIN sys.types t ON t.user_type_id = CASE c.system_type_id WHEN 240 THEN c.user_type_id ELSE c.system_type_id END
 WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND {SCOPE}
 ORDER BY o.object_id, c.column_id
"""  # noqa: S608 - constants only
"""An alias type is shown as its base; 240 is every class, whose own type is the second one."""

KEYS = f"""
SELECT s.name, o.name, i.index_id, i.is_primary_key, c.name
  FROM sys.indexes i
  JOIN sys.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id
  JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id
  JOIN sys.objects o ON o.object_id = i.object_id
  JOIN sys.schemas s ON s.schema_id = o.schema_id
 WHERE i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND i.is_hypothetical = 0 AND i.type IN (1, 2)
   AND k.key_ordinal > 0 AND o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND {SCOPE}
 ORDER BY o.object_id, i.index_id, k.key_ordinal
"""  # noqa: S608 - constants only

FILTERED = f"""
SELECT s.name, o.name
  FROM sys.security_predicates p
  JOIN sys.security_policies y ON y.object_id = p.object_id
  JOIN sys.objects o ON o.object_id = p.target_object_id
  JOIN sys.schemas s ON s.schema_id = o.schema_id
 WHERE p.predicate_type = 0 AND y.is_enabled = 1 AND {SCOPE}
"""  # noqa: S608 - constants only
"""Tables whose rows a policy filters, if the user may see the policy: by VIEW DEFINITION, or ALTER ANY SECURITY POLICY.

Source: SQL Server's documentation of `sys.security_predicates` and `sys.security_policies`.
"""

MASKED = f"""
SELECT s.name, o.name, c.name
  FROM sys.columns c
  JOIN sys.objects o ON o.object_id = c.object_id
  JOIN sys.schemas s ON s.schema_id = o.schema_id
 WHERE c.is_masked = 1 AND o.is_ms_shipped = 0 AND {SCOPE}
   AND COALESCE(HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'UNMASK', c.name, 'COLUMN'),
                HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UNMASK'), 0) = 0
"""  # noqa: S608 - constants only
"""Columns that are masked for this user. Before its version of 2022 UNMASK is a right in the whole database alone, and
the question about a column is answered by NULL.

Source: SQL Server's documentation, "Dynamic data masking" and HAS_PERMS_BY_NAME.
"""

Path = tuple[str, str]
Row = Sequence[Any]


def discovered(connection: Any, schemas: Sequence[str]) -> Catalog:
    """Describe what the user may see; which of it may be read is decided by the read."""
    columns: dict[Path, list[Column]] = {}
    for schema, table, *facts in _rows(connection, COLUMNS, schemas):
        columns.setdefault((schema, table), []).append(_column(*facts))
    keys: dict[Path, dict[tuple[bool, int], list[str]]] = {}
    for schema, table, index, primary, name in _rows(connection, KEYS, schemas):
        keys.setdefault((schema, table), {}).setdefault((not primary, index), []).append(name)
    return Catalog(
        {path: Table(path, tuple(found), _key(found, keys.get(path, {}))) for path, found in columns.items()}
    )


def filtered(connection: Any, schemas: Sequence[str]) -> frozenset[Path]:
    """Name the tables of which a policy hides rows, from whom its function says: no right exempts from it."""
    return frozenset((schema, table) for schema, table in _rows(connection, FILTERED, schemas))


def masked(connection: Any, schemas: Sequence[str]) -> Mapping[tuple[str, ...], frozenset[str]]:
    """Name the columns, by table, of which this user is sent masks. Nothing tells of those of views."""
    found: dict[tuple[str, ...], frozenset[str]] = {}
    for schema, table, column in _rows(connection, MASKED, schemas):
        found[schema, table] = found.get((schema, table), frozenset()) | {column}
    return found


def _rows(connection: Any, sql: str, schemas: Sequence[str]) -> Iterator[Row]:
    cursor = connection.cursor()
    cursor.execute(sql.replace("{marks}", ", ".join("?" * len(schemas))), *schemas)
    for row in cursor.fetchall():
        values = [value.decode("utf-16-le") if isinstance(value, bytes) else value for value in row]
        if values[0] in schemas:
            yield values


def _column(*facts: Any) -> Column:
    name, kind_name, length, precision, scale, collation, nullable, is_assembly = facts
    full = declared(kind_name, length, precision, scale, collation, is_class=bool(is_assembly))
    return Column(name, full, TYPES.get(kind_name, Encoding.TEXT), bool(nullable))


def _key(columns: Sequence[Column], indexes: Mapping[tuple[bool, int], Sequence[str]]) -> tuple[str, ...]:
    usable = {column.name for column in columns if not column.nullable and _is_ordered(column)}
    keys = [(order[0], len(key), order[1], key) for order, key in indexes.items() if usable.issuperset(key)]
    return tuple(min(keys)[3]) if keys else ()


def _is_ordered(column: Column) -> bool:
    return kind(column) not in UNORDERED and (kind(column) == "hierarchyid" or not is_class(column))
