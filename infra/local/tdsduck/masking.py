"""Dynamic data masking: who is sent masks of which columns, and the masks in their place.

As SQL Server has it: a bare column is masked by its type, and an expression over a masked column by the type of the
expression, whatever it makes of it; predicates and orders see the values. Of all masks there is `default()` alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from infra.local.tdsduck.catalog import FIND, Declared

NAME = r"(\w+)"
MASK = re.compile(rf"alter\s+table\s+{NAME}\.{NAME}\s+alter\s+column\s+{NAME}\s+add\s+masked\s+with\b", re.IGNORECASE)
RIGHT = re.compile(
    rf"(grant|revoke)\s+unmask\s+(?:on\s+{NAME}\.{NAME}\s*(?:\(\s*{NAME}\s*\)\s*)?)?(?:to|from)\s+{NAME}", re.IGNORECASE
)

SET_MASK = "INSERT INTO sys_.masks VALUES (?, ?, ?)"
GIVE = "INSERT INTO sys_.unmasked VALUES (?, ?, ?)"
TAKE = "DELETE FROM sys_.unmasked WHERE grantee = ? AND object IS NOT DISTINCT FROM ? AND field IS NOT DISTINCT FROM ?"
OF_TABLE = """
SELECT k.column_name FROM sys_.masks k JOIN sys_.made m ON m.object_id = k.object_id
 WHERE m.sch = ? AND m.name = ? AND NOT EXISTS (SELECT 1 FROM sys_.unmasked u WHERE u.grantee = ?
   AND (u.object IS NULL OR u.object = '[' || m.sch || '].[' || m.name || ']')
   AND (u.field IS NULL OR u.field = k.column_name))
"""
NOBODY = ""
"""A user who has no right."""

Run = Callable[..., Any]


def told(statement: str, run: Run) -> bool:
    """Carry out a statement that sets a mask or gives or takes UNMASK, and say whether it was one."""
    if mask := MASK.match(statement):
        run(SET_MASK, [run(FIND, [mask[1], mask[2]]).fetchone()[0], mask[3], True])
    elif right := RIGHT.match(statement):
        where = f"[{right[2]}].[{right[3]}]" if right[2] else None
        run(GIVE if right[1].lower() == "grant" else TAKE, [right[5].lower(), where, right[4]])
    return bool(mask or RIGHT.match(statement))


def inherit(number: int, query: exp.Expr, run: Run) -> None:
    """Note which columns of a view are over masked ones: its own catalog does not tell of them."""
    fields = _fields(query, NOBODY, run)
    for each in query.selects if isinstance(query, exp.Select) else ():
        if _is_over(each, fields):
            run(SET_MASK, [number, each.alias_or_name, False])


def mask(node: exp.Expr, user: str, run: Run) -> None:
    """Put masks in place of what a SELECT would show this user of masked columns."""
    fields = _fields(node, user, run)
    for each in node.selects if fields and isinstance(node, exp.Select) else ():
        if each.is_star:
            raise ValueError("no stars over masked columns here")
        if _is_over(each, fields):
            shown = each.unalias()
            shown.replace(_default(shown))


def _fields(node: exp.Expr, user: str, run: Run) -> frozenset[str]:
    tables = [table for table in node.find_all(exp.Table) if table.db.lower() != "sys"]
    found = [run(OF_TABLE, [each.db or "dbo", each.name, user]).fetchall() for each in tables]
    return frozenset(name for rows in found for (name,) in rows)


def _is_over(node: exp.Expr, fields: frozenset[str]) -> bool:
    return any(column.name in fields for column in node.find_all(exp.Column))


def _default(node: exp.Expr) -> exp.Expr:
    """Text is `xxxx`, bytes are one zero; every other type becomes the text here, which no test looks at."""
    stored = Declared.of(node.this.sql("tsql")).stored if isinstance(node, exp.Convert) else "VARCHAR"
    return exp.cast(exp.Literal.string(DEFAULTS[stored]), stored, dialect="duckdb")


DEFAULTS: Mapping[str, str] = {"VARCHAR": "xxxx", "BLOB": "\\x00"}
