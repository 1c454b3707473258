"""How PostgreSQL's types become JSON (`design.md` §7.2), and how text becomes a value of a type again.

The server renders; every expression below is exact for every value of its type. Functions are
qualified, so that nothing in a user's schema can take their place.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fetcher.engines._sql import Dialect
from fetcher.model import Column, Encoding, Operator

TYPES = {
    "int2": Encoding.INTEGER,
    "int4": Encoding.INTEGER,
    "int8": Encoding.INTEGER,
    "oid": Encoding.INTEGER,
    "numeric": Encoding.DECIMAL,
    "money": Encoding.DECIMAL,
    "float4": Encoding.FLOAT,
    "float8": Encoding.FLOAT,
    "bool": Encoding.BOOLEAN,
    "date": Encoding.DATE,
    "time": Encoding.TIME,
    "timetz": Encoding.TIME,
    "timestamp": Encoding.TIMESTAMP,
    "timestamptz": Encoding.TIMESTAMP_UTC,
    "interval": Encoding.INTERVAL,
    "uuid": Encoding.UUID,
    "json": Encoding.JSON,
    "jsonb": Encoding.JSON,
    "bytea": Encoding.BINARY,
}
"""Built-in types by their names in `pg_type`; every other type is its own text."""

NATIVE_TEXT = re.compile(r'text|name|"char"|(character varying|character|bpchar)(\(\d+\))?')
IN_RANGE = "{0} >= '0001-01-01' AND {0} < '10000-01-01'"
"""Years that ISO 8601 writes with four digits; outside, and for infinity, the database's text."""

Choice = Sequence[tuple[str, str]]
"""Constant texts, each with the condition that chooses it: the first that holds. The last one's is empty."""


@dataclass(frozen=True, slots=True)
class Form:
    """A value's JSON text in three pieces, so that constants can join those around them.

    The middle is an argument of `concat`, which shows it by its type's output function and leaves NULL out; it may
    be empty. `{0}` is the column; `{json}` shows a text as JSON.
    """

    before: Choice
    value: str
    after: Choice

    def of(self, name: str, as_json: str) -> "Form":
        """Fill in a column's quoted name and the function that makes JSON of text."""

        def filled(text: str) -> str:
            return text.replace("{json}", as_json).replace("{0}", name)

        before, after = ([(filled(condition), text) for condition, text in each] for each in (self.before, self.after))
        return Form(before, filled(self.value), after)


IS_NULL = "{0} IS NULL"
ALWAYS: Choice = [("", "")]
NULLABLE: Choice = [(IS_NULL, "null"), ("", "")]
OPENED: Choice = [(IS_NULL, "null"), ("", '"')]
CLOSED: Choice = [(IS_NULL, ""), ("", '"')]


def _whole(value: str) -> Form:
    """Take an expression that is all of the JSON text, for NULL too."""
    return Form(ALWAYS, value, ALWAYS)


def _quoted(value: str) -> Form:
    """Take an expression whose text needs quotes, and no escapes."""
    return Form(OPENED, value, CLOSED)


def _stamp(zoneless: str, end: str) -> Form:
    """Bring a timestamp's text to ISO 8601. `to_json` would look up its type again for every value."""
    text = f"CASE WHEN {IN_RANGE} THEN pg_catalog.replace({zoneless}::text, ' ', 'T') ELSE {{0}}::text END"
    return Form(OPENED, text, [(IS_NULL, ""), (IN_RANGE, end), ("", '"')] if end != '"' else CLOSED)


PLAIN = _quoted("{0}")
AS_IS = Form(NULLABLE, "{0}", ALWAYS)
ESCAPED = Form(NULLABLE, "{json}({0})", ALWAYS)
ANY_TEXT = _whole("CASE WHEN {0} IS NOT DISTINCT FROM NULL THEN 'null' ELSE {json}(pg_catalog.concat({0}))::text END")
"""For types of any schema: a cast to text, or to json, may be somebody's own function."""
IS_FINITE = "{0} - {0} = 0"
"""Not so for NaN and the infinities, which JSON has no number for."""

SCALARS = {
    Encoding.INTEGER: AS_IS,
    Encoding.DECIMAL: PLAIN,
    Encoding.FLOAT: Form([(IS_FINITE, ""), *OPENED], "{0}", [(IS_FINITE, ""), *CLOSED]),
    Encoding.BOOLEAN: Form([("{0}", "true"), ("NOT {0}", "false"), ("", "null")], "", ALWAYS),
    Encoding.DATE: PLAIN,
    Encoding.TIME: PLAIN,
    Encoding.TIMESTAMP: _stamp("{0}", '"'),
    Encoding.TIMESTAMP_UTC: _stamp("({0} AT TIME ZONE INTERVAL '0')", 'Z"'),
    Encoding.INTERVAL: PLAIN,
    Encoding.UUID: PLAIN,
    Encoding.JSON: AS_IS,
    Encoding.BINARY: _quoted("pg_catalog.translate(pg_catalog.encode({0}, 'base64'), E'\\n', '')"),
    Encoding.TEXT: ANY_TEXT,
}

DIRECT = "coalesce(pg_catalog.array_to_json({0})::text, 'null')"
TEXTS = "coalesce(pg_catalog.array_to_json({0}::text::text[])::text, 'null')"
"""Every element by its type's output function, whatever casts exist."""

STAMP = r'"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)'
BYTES = r"""(SELECT pg_catalog.string_agg(
 CASE WHEN m[1] LIKE '"%' THEN pg_catalog.concat('"', pg_catalog.translate(pg_catalog.encode(
  pg_catalog.decode(pg_catalog.btrim(m[1], '"\x'), 'hex'), 'base64'), E'\n', ''), '"') ELSE m[1] END, '' ORDER BY n)
 FROM pg_catalog.regexp_matches({0}, '"[^"]*"|[^"]+', 'g') WITH ORDINALITY AS _(m, n))"""

ARRAYS = {
    Encoding.INTEGER: DIRECT,
    Encoding.FLOAT: DIRECT,  # NaN and Infinity come out quoted
    Encoding.BOOLEAN: DIRECT,
    Encoding.JSON: DIRECT,
    Encoding.TIMESTAMP: f"pg_catalog.regexp_replace({TEXTS}, '{STAMP}\"', '\"\\1T\\2\"', 'g')",
    Encoding.TIMESTAMP_UTC: f"pg_catalog.regexp_replace({TEXTS}, '{STAMP}\\+00\"', '\"\\1T\\2Z\"', 'g')",
    Encoding.BINARY: BYTES.replace("{0}", TEXTS),
}

BY_TYPE = {
    "money": _quoted("{0}::numeric"),  # its own text is in the locale of the server
    "money[]": _whole(TEXTS.replace("{0}", "{0}::numeric[]")),
    "oid[]": _whole(DIRECT.replace("{0}", "{0}::bigint[]")),
    "box[]": _whole(DIRECT),  # the only type whose arrays are not separated by commas
}


JSON_SCALAR_SINCE = 170_000
"""JSON_SCALAR finds a type's output function once a query, `to_json` once a value."""


def rendered(column: Column, name: str, server: int) -> Form:
    """Return the pieces of the column's JSON text; `name` is its quoted name, `server` as in `server_version_num`."""
    return _form(column).of(name, "JSON_SCALAR" if server >= JSON_SCALAR_SINCE else "pg_catalog.to_json")


def _form(column: Column) -> Form:
    if column.type in BY_TYPE:
        return BY_TYPE[column.type]
    if column.encoding is Encoding.ARRAY:
        return _whole(ARRAYS.get(column.element or Encoding.TEXT, TEXTS))
    return ESCAPED if NATIVE_TEXT.fullmatch(column.type) else SCALARS[column.encoding]


def encoding(builtin: str | None, element: str | None, *, is_array: bool) -> tuple[Encoding, Encoding | None]:
    """Name the encoding of a type, and of its elements, given the names in `pg_type` if they are built in."""
    if is_array:
        return Encoding.ARRAY, TYPES.get(element or "", Encoding.TEXT)
    return TYPES.get(builtin or "", Encoding.TEXT), None


MODIFIER = re.compile(r'\(\d+(?:,-?\d+)?\)(?=[^"]*(?:"[^"]*"[^"]*)*$)')
ODD_CASTS = {"character": "bpchar", "bit": '"bit"', '"char"': '"char"'}
"""Without a length these names mean a length of one."""

CUT_BY_CAST = frozenset({"name", '"char"'})


def unbounded(declared: str) -> str:
    """Drop length, precision and scale: a cast that cuts or rounds a value would widen a filter."""
    if declared.startswith("interval"):
        return "interval[]" if declared.endswith("[]") else "interval"
    plain, array = (declared[:-2], "[]") if declared.endswith("[]") else (declared, "")
    plain = MODIFIER.sub("", plain)
    return ODD_CASTS.get(plain, plain) + array


def compared_as(column: Column, values: Sequence[Any]) -> str:
    """Name the type in which a filter's values meet the column."""
    match column.encoding:
        case Encoding.INTEGER:
            fits = all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values)
            return "bigint" if fits else "numeric"
        case Encoding.DECIMAL:
            return "numeric"
        case _:
            return "text" if column.type in CUT_BY_CAST else unbounded(column.type)


def _field(name: str, column: Column, operator: Operator) -> str:
    if operator == "like":
        return name if NATIVE_TEXT.fullmatch(column.type) or column.type.endswith("citext") else f"{name}::text"
    return f"{name}::numeric" if column.type == "money" else name


def _bind(_column: Column, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case date():
            return value.isoformat()
        case bytes():
            return "\\x" + value.hex()
        case _:
            return str(value)


def _array(values: Sequence[str]) -> str:
    quoted = ('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return "{" + ",".join(quoted) + "}"


def _once(type_of: Callable[[Column, Sequence[Any]], str]) -> Callable[[str, Column, Sequence[Any]], str]:
    """Cast a bound value in a subquery of its own, which runs once; bare, it would be parsed again for every row."""
    return lambda mark, column, values: f"(SELECT CAST({mark} AS {type_of(column, values)}))"


def _list_once(mark: str, column: Column, values: Sequence[Any]) -> str:
    """The same for a list; the outer cast keeps `ANY` from taking it for a query of rows."""
    declared = f"{compared_as(column, values)}[]"
    return f"(SELECT CAST({mark} AS {declared}))::{declared}"


def parameter(number: int) -> str:
    """Name the setting that carries a bound value: COPY takes no parameters."""
    return f"fetcher.p{number}"


DIALECT = Dialect(
    mark=lambda number: f"pg_catalog.current_setting('{parameter(number)}')",
    value=_once(compared_as),
    key=lambda mark, column: f"(SELECT CAST({mark} AS {unbounded(column.type)}))",
    field=_field,
    bind=_bind,
    array=_array,
    array_value=_list_once,
    day_after_last="10000-01-01",
)
