"""Runs the engine's Oracle SQL on DuckDB: what each function means is written here, and nothing is executed unread.

A statement that sqlglot cannot read as Oracle, a table or a column that is not spelled exactly as it was created,
and a right that is missing are Oracle's own errors.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import sqlglot
from sqlglot import exp

Columns = Mapping[tuple[str, str], Sequence[str]]
"""The catalog: owner and table to the names of the columns."""

OUTSIDE_QUOTES = re.compile(r"""('[^']*'|"[^"]*")|:(\d+)""")
SERIALIZED = re.compile(r"""(?:JSON_SERIALIZE|XMLSERIALIZE|FROM_VECTOR)\((?:CONTENT )?("(?:[^"]|"")*")[^)]*\)""")
FIXED = re.compile(r"FM(9*)0\.(0+)")
FRACTION = re.compile(r"FF(\d)")
OF_TIMES = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}

TM9 = """CASE WHEN contains(CAST({0} AS VARCHAR), '.')
 THEN regexp_replace(rtrim(rtrim(CAST({0} AS VARCHAR), '0'), '.'), '^(-?)0\\.', '\\1.') ELSE CAST({0} AS VARCHAR) END"""
TEMPLATES = {
    "SYS_EXTRACT_UTC": "timezone('UTC', {0})",
    "FROM_TZ": "timezone('UTC', CAST({0} AS TIMESTAMP))",
    "TO_BINARY_DOUBLE": "CAST({0} AS DOUBLE)",
    "TO_BINARY_FLOAT": "CAST({0} AS FLOAT)",
    "HEXTORAW": "unhex({0})",
    "RAWTOHEX": "hex({0})",
}


class OracleError(Exception):
    """An error with Oracle's number."""


def translated(sql: str, catalog: Columns, rights: Callable[[tuple[str, str]], bool], dictionary: str) -> str:
    """Spell a statement for DuckDB; `dictionary` is the schema that holds what this user sees of the catalog."""
    readable = OUTSIDE_QUOTES.sub(lambda found: found[1] or f":p{found[2]}", SERIALIZED.sub(r"TO_CHAR(\1)", sql))
    try:
        tree = sqlglot.parse_one(readable, read="oracle")
    except sqlglot.errors.ParseError as error:
        raise OracleError("ORA-00900: invalid SQL statement") from error
    _check(tree, catalog, rights)
    for table in tree.find_all(exp.Table):
        if table.db.upper() == "SYS":
            table.set("db", exp.to_identifier(dictionary, quoted=True))
    return tree.transform(_spelled).sql(dialect="duckdb")


def table_of(sql: str) -> str:
    """Return the last table that a statement names."""
    names = [
        table.name for table in sqlglot.parse_one(OUTSIDE_QUOTES.sub(r"\1", sql), read="oracle").find_all(exp.Table)
    ]
    return names[-1] if names else ""


def _check(tree: exp.Expr, catalog: Columns, rights: Callable[[tuple[str, str]], bool]) -> None:
    paths = [(table.db, table.name) for table in tree.find_all(exp.Table) if table.db.upper() != "SYS"]
    for path in paths:
        if path not in catalog:
            raise OracleError("ORA-00942: table or view does not exist")
        if not rights(path):
            raise OracleError("ORA-01031: insufficient privileges")
    known = {name for path in paths for name in catalog[path]}
    for column in tree.find_all(exp.Column):
        if paths and column.name not in known:
            raise OracleError(f'ORA-00904: "{column.name}": invalid identifier')


def _spelled(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.ToChar():
            model = node.args.get("format")
            return _parsed(_to_char(model.name if model else ""), node.this)
        case exp.StrToTime() | exp.StrToDate():
            return _parsed("CAST(trim({0}) AS TIMESTAMP)", node.this)
        case exp.ToNumber():
            return _parsed("CAST({0} AS DECIMAL(38, 6))", node.this)
        case exp.Anonymous() if node.name.upper() in TEMPLATES:
            return _parsed(TEMPLATES[node.name.upper()], node.expressions[0])
        case _:
            return node


def _parsed(template: str, argument: exp.Expr) -> exp.Expr:
    inner = argument.transform(_spelled).sql(dialect="duckdb")
    return sqlglot.parse_one(template.replace("{0}", inner), read="duckdb")


def _to_char(model: str) -> str:
    if model in {"TM9", "TME"}:
        return TM9
    if fixed := FIXED.fullmatch(model):
        return f"CAST(CAST({{0}} AS DECIMAL(38, {len(fixed[2])})) AS VARCHAR)"
    if not model:
        return "CAST({0} AS VARCHAR)"
    text = model.removeprefix("S").replace('"T"', "T")
    found = FRACTION.search(text)
    digits = int(found[1]) if found else 0
    for oracle, other in OF_TIMES.items():
        text = text.replace(oracle, other, 1)
    micro, nano = (FRACTION.sub(kept, text) for kept in ("%f000", "%n"))
    whole = (
        f"(CASE WHEN typeof({{0}}) = 'TIMESTAMP_NS' THEN strftime(TRY_CAST({{0}} AS TIMESTAMP_NS), '{nano}')"
        f" ELSE strftime(CAST({{0}} AS TIMESTAMP), '{micro}') END)"
    )
    return f"(' ' || left({whole}, length({whole}) - {9 - digits if digits else 0}))"
