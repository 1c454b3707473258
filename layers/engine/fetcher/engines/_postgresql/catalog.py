"""Every table of some schemas, with columns and usable key, in one query.

A key is usable when `(key) > (position)` with the column's own operators walks the rows exactly once:
a primary key, or else a unique index of plain NOT NULL columns, checked at once, under the column's
own collation and default order. Binary floats are refused (`design.md` §8), and so is money, whose
text depends on the server's locale. A parent of inherited tables has no key: its index does not cover
the children's rows.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import psycopg

from fetcher.engines._postgresql.values import encoding
from fetcher.model import Catalog, Column, Table

TABLES = """
WITH RECURSIVE unwrapped(domain, type, modifier) AS (
  SELECT oid, typbasetype, typtypmod FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION ALL
  SELECT u.domain, t.typbasetype, t.typtypmod
    FROM unwrapped u JOIN pg_catalog.pg_type t ON t.oid = u.type WHERE t.typtype = 'd'
), base(domain, type, modifier) AS (
  SELECT u.domain, u.type, u.modifier
    FROM unwrapped u JOIN pg_catalog.pg_type t ON t.oid = u.type WHERE t.typtype <> 'd'
), columns AS (
  SELECT a.attrelid, a.attnum, a.attname, a.attcollation, t.oid AS type, t.typelem, t.typname, t.typnamespace,
         pg_catalog.format_type(t.oid, coalesce(b.modifier, a.atttypmod)) AS declared,
         t.typcategory = 'A' AND t.typlen = -1 AND t.typelem <> 0
           AND (t.typdelim = ',' OR t.oid = 'pg_catalog.box[]'::pg_catalog.regtype) AS is_array,
         a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint u
           WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated AND a.attnum = ANY (u.conkey)
         ) AS filled
    FROM pg_catalog.pg_attribute a
    LEFT JOIN base b ON b.domain = a.atttypid
    JOIN pg_catalog.pg_type t ON t.oid = coalesce(b.type, a.atttypid)
   WHERE a.attnum > 0 AND NOT a.attisdropped
)
SELECT n.nspname, c.relname, k.names, a.attname, a.declared, a.filled, a.is_array,
       CASE WHEN a.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN a.typname END,
       CASE WHEN e.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN e.typname END
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN LATERAL (
    SELECT pg_catalog.array_agg(f.attname::text ORDER BY p.position) AS names
      FROM pg_catalog.pg_index i
      CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[])
        WITH ORDINALITY AS p(attnum, opclass, collation_id, position)
      JOIN pg_catalog.pg_opclass o ON o.oid = p.opclass
      LEFT JOIN columns f ON f.attrelid = i.indrelid AND f.attnum = p.attnum AND f.filled
        AND o.opcdefault AND p.collation_id = f.attcollation
        AND f.type <> ALL ('{float4,float8,money}'::pg_catalog.regtype[])
        AND f.typelem <> ALL ('{float4,float8,money}'::pg_catalog.regtype[])
     WHERE i.indrelid = c.oid AND p.position <= i.indnkeyatts AND i.indisunique AND i.indimmediate
       AND i.indisvalid AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
       AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid))
     GROUP BY i.indexrelid, i.indisprimary, i.indnkeyatts
    HAVING count(f.attnum) = i.indnkeyatts
     ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid
     LIMIT 1
  ) k ON true
  LEFT JOIN columns a ON a.attrelid = c.oid
  LEFT JOIN base d ON d.domain = a.typelem AND a.is_array
  LEFT JOIN pg_catalog.pg_type e ON e.oid = coalesce(d.type, a.typelem) AND a.is_array
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = ANY (%s::text[])
   AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%'
 ORDER BY n.nspname, c.relname, a.attnum
"""
"""Names that begin with `pg_` are reserved for the system's own schemas. An array whose elements are not parted by
commas, as those of PostGIS' geometry, cannot become one of texts by its own text: it is that text."""


def discovered(connection: psycopg.Connection[Any], schemas: Sequence[str]) -> Catalog:
    """Describe tables, partitioned, foreign and inherited ones, views and materialized views."""
    rows = connection.execute(TABLES, (list(schemas),)).fetchall()
    tables = (_table(path, list(group)) for path, group in groupby(rows, key=lambda row: (row[0], row[1])))
    return Catalog({table.path: table for table in tables})


def _table(path: tuple[str, str], rows: Sequence[Sequence[Any]]) -> Table:
    return Table(path, tuple(_columns(rows)), tuple(rows[0][2] or ()))


def _columns(rows: Iterable[Sequence[Any]]) -> Iterable[Column]:
    for _, _, _, name, declared, filled, is_array, builtin, element in rows:
        if name is not None:
            kind, members = encoding(builtin, element, is_array=is_array)
            yield Column(name, declared, kind, nullable=not filled, element=members)
