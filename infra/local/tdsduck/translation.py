"""T-SQL into DuckDB's SQL, by sqlglot's syntax tree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

from infra.local.tdsduck.catalog import Declared

Requests = Sequence[tuple[int, str, str]]
"""Of each running request: the session's number, its program, and what it waits for."""

STYLE_HEX = "2"


def statements(sql: str) -> Iterator[str]:
    """Cut a batch at its semicolons."""
    start = 0
    for token in sqlglot.tokenize(sql, read="tsql"):
        if token.token_type.name == "SEMICOLON":
            yield sql[start : token.start].strip()
            start = token.end + 1
    yield sql[start:].strip()


def parsed(statement: str) -> exp.Expr:
    """Read one statement of T-SQL."""
    return sqlglot.parse_one(statement, read="tsql")


def shown(node: exp.Expr, known: Mapping[str, int]) -> list[int | None]:
    """Return the length of each column of a SELECT as `results.columns` wants it; nothing where there is a `*`.

    The bytes of a text are its UTF-16, which DuckDB does not have: that conversion is left to the wire.
    """
    columns = node.selects if isinstance(node, exp.Select) else []
    return [] if any(each.is_star for each in columns) else [_length(each.unalias(), known) for each in columns]


def _length(node: exp.Expr, known: Mapping[str, int]) -> int | None:
    if isinstance(node, exp.Column):
        return known.get(node.name.lower(), 0)
    if isinstance(node, exp.Add):
        return _length(node.expression, known)
    to = Declared.of(node.this.sql("tsql")) if isinstance(node, exp.Convert) else None
    if to is not None and to.name == "varbinary" and isinstance(node.expression, exp.Concat):
        node.replace(node.expression)
        return None
    return int(to.first or 0) if to is not None and to.name == "nvarchar" and to.first != "max" else 0


def translated(node: exp.Expr, number: int, requests: Requests) -> tuple[str, Sequence[str]]:
    """Write the statement for DuckDB, and name the parameters that are left in it, in lower case."""
    for each in reversed(list(node.walk())):
        replacement = _replacement(each, number, requests)
        if replacement is not None:
            if each is node:
                node = replacement
            else:
                each.replace(replacement)
    names = {each.name.lower() for each in node.find_all(exp.Placeholder)}
    return node.sql("duckdb"), sorted(names)


def _replacement(node: exp.Expr, number: int, requests: Requests) -> exp.Expr | None:
    if isinstance(node, exp.Table):
        return _system(node, requests) if node.db.lower() == "sys" else None
    if isinstance(node, exp.Parameter):
        return _parameter(node, number)
    if isinstance(node, exp.Ordered):
        node.set("nulls_first", None)
        return None
    rewrite = REWRITES.get(type(node))
    return rewrite(node) if rewrite else None


def _parameter(node: exp.Parameter, number: int) -> exp.Expr | None:
    """The only global variable that is asked for is @@SPID; it is parsed as a parameter of a parameter."""
    if isinstance(node.this, exp.Parameter):
        return exp.Literal.number(number)
    return None if isinstance(node.parent, exp.Parameter) else exp.Placeholder(this=node.name.lower())


def _added(node: exp.Expr) -> exp.Expr | None:
    texts = any(map(_is_text, (node.this, node.expression)))
    return exp.DPipe(this=node.this, expression=node.expression) if texts else None


def _named(node: exp.Expr) -> exp.Expr | None:
    return exp.Anonymous(this="CHARACTER_OF", expressions=node.expressions) if node.name.upper() == "NCHAR" else None


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.DPipe) or (isinstance(node, exp.Literal) and node.is_string)


def _converted(node: exp.Convert) -> exp.Expr:
    """Convert as DuckDB does; of the styles only the hexadecimal one makes a difference here."""
    to, value = Declared.of(node.this.sql("tsql")), node.expression
    style = node.args.get("style")
    if style is not None and style.name == STYLE_HEX and to.stored == "VARCHAR" and _is_binary(value):
        return exp.func("hex", value)
    if style is not None and style.name == STYLE_HEX and to.stored == "BLOB":
        return exp.func("unhex", value)
    return exp.Cast(this=value, to=exp.DataType.build(to.stored, dialect="duckdb"))


def _is_binary(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.sql("duckdb") == "BLOB"


def _system(node: exp.Table, requests: Requests) -> exp.Expr | None:
    if node.name.lower() not in {"dm_exec_requests", "dm_exec_sessions"}:
        node.set("db", exp.to_identifier("sys_"))
        return None
    rows = ", ".join(f"({number}, '{program}', '{wait}')" for number, program, wait in requests) or "(0, '', '')"
    sql = f"(SELECT * FROM (VALUES {rows}) v(session_id, program_name, wait_type)) AS {node.alias_or_name}"  # noqa: S608 - our own numbers
    found: exp.Expr = sqlglot.parse_one(f"SELECT * FROM {sql}", read="duckdb").args["from_"].this  # noqa: S608 - as above
    return found


def created(
    node: exp.Create, statement: str
) -> tuple[Mapping[str, tuple[Declared, bool]], list[tuple[bool, list[str]]]]:
    """Return the columns of a CREATE TABLE, each with its type and whether it may be NULL, and the keys."""
    columns: dict[str, tuple[Declared, bool]] = {}
    keys: list[tuple[bool, list[str]]] = []
    for part in node.this.expressions:
        if isinstance(part, exp.ColumnDef):
            kinds = [constraint.kind for constraint in part.constraints]
            primary = any(isinstance(kind, exp.PrimaryKeyColumnConstraint) for kind in kinds)
            filled = any(
                isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null") for kind in kinds
            )
            columns[part.name] = (Declared.of(part.args["kind"].sql("tsql")), not (primary or filled))
            keys += [(True, [part.name])] if primary else []
        else:
            primary = part.find(exp.PrimaryKey) is not None
            names = [each.name for each in part.find_all(exp.Identifier)]
            keys.append((primary, list(dict.fromkeys(names))))
    for primary, names in keys:
        for name in names if primary else ():
            columns[name] = (columns[name][0], False)
    return columns, keys


REWRITES: Mapping[type[exp.Expr], Callable[[Any], exp.Expr | None]] = {
    exp.National: lambda node: exp.Literal.string(node.name),
    exp.Collate: lambda node: node.this,
    exp.Convert: _converted,
    exp.Add: _added,
    exp.Anonymous: _named,
    exp.GenerateSeries: lambda node: exp.Anonymous(this="SERIES", expressions=[node.args["start"], node.args["end"]]),
}
