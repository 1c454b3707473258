r"""How SQL Server's types become JSON (`design.md` §7.2), by expressions that the server computes, each of them exact.

Two encodings are finished here, between marks that no other value can hold (STRING_ESCAPE leaves no control character):
the server writes 17 digits of a float, which are the value but not the shortest, and has no base64 before its version
of 2025, so bytes come as hexadecimal digits. Text keeps the escape `\/` of STRING_ESCAPE, which JSON allows.
"""

from binascii import b2a_base64, unhexlify
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import orjson

from fetcher.engines._floats import shortest_single
from fetcher.engines._sqlserver.types import is_class, kind
from fetcher.model import Column, Encoding

FLOAT_MARK, REAL_MARK, BYTES_MARK = "\x01", "\x02", "\x03"
PLAIN = "Latin1_General_100_BIN2"
"""Texts of several collations meet in one row; comparing nothing, it takes the cheapest."""

NULLS = "ISNULL({0}, 'null')"
QUOTED = """ISNULL('"' + {0} + '"', 'null')"""
MARKED = "ISNULL('{1}' + {0} + '{1}', 'null')"

SHOWN = {
    Encoding.INTEGER: "CONVERT(varchar(20), {0})",
    Encoding.DECIMAL: "CONVERT(varchar(48), {0})",
    Encoding.FLOAT: "CONVERT(varchar(40), {0}, 3)",
    Encoding.BOOLEAN: "CONVERT(varchar(10), {0})",
    Encoding.DATE: "CONVERT(varchar(10), {0}, 23)",
    Encoding.TIME: "CONVERT(varchar(20), {0}, 121)",
    Encoding.TIMESTAMP: "CONVERT(varchar(34), {0}, 121)",
    Encoding.TIMESTAMP_UTC: "CONVERT(varchar(40), SWITCHOFFSET({0}, '+00:00'), 121)",
    Encoding.UUID: "LOWER(CONVERT(char(36), {0}))",
    Encoding.BINARY: "CONVERT(varchar(max), CONVERT(varbinary(max), {0}), 2)",
    Encoding.JSON: "CONVERT(nvarchar(max), {0})",
}
"""The text of a value, exact to the last digit: the styles are those that no setting of a session changes."""

MONEY = "CONVERT(varchar(40), {0}, 2)"
"""Any other style of money has two digits after the point."""

VARIANT = """CASE
 WHEN SQL_VARIANT_PROPERTY({0}, 'BaseType') IN ('binary', 'varbinary')
 THEN CONVERT(nvarchar(max), CONVERT(varbinary(8000), {0}), 1)
 WHEN SQL_VARIANT_PROPERTY({0}, 'BaseType') IN ('float', 'real') THEN CONVERT(nvarchar(max), CONVERT(float, {0}), 3)
 WHEN SQL_VARIANT_PROPERTY({0}, 'BaseType') IN ('money', 'smallmoney')
 THEN CONVERT(nvarchar(max), CONVERT(money, {0}), 2)
 WHEN SQL_VARIANT_PROPERTY({0}, 'BaseType') IN ('date', 'datetime', 'smalldatetime', 'datetime2')
 THEN CONVERT(nvarchar(max), CONVERT(datetime2(7), {0}), 121)
 WHEN SQL_VARIANT_PROPERTY({0}, 'BaseType') = 'datetimeoffset'
 THEN CONVERT(nvarchar(max), CONVERT(datetimeoffset(7), {0}), 121)
 ELSE CONVERT(nvarchar(max), {0}) END"""
"""Each value has a type of its own, and some of them lose digits when they are converted without saying how."""

RENDERED = {
    Encoding.INTEGER: NULLS,
    Encoding.JSON: NULLS,
    Encoding.FLOAT: MARKED.replace("{1}", FLOAT_MARK),
    Encoding.BINARY: MARKED.replace("{1}", BYTES_MARK),
    Encoding.BOOLEAN: "CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END",
    Encoding.TIMESTAMP: QUOTED.replace("{0}", "STUFF({0}, 11, 1, 'T')"),
    Encoding.TIMESTAMP_UTC: QUOTED.replace("{0}", "REPLACE(STUFF({0}, 11, 1, 'T'), ' +00:00', 'Z')"),
    Encoding.TEXT: QUOTED.replace("{0}", f"STRING_ESCAPE({{0}} COLLATE {PLAIN}, 'json')"),
}


def shown(column: Column, name: str) -> str:
    """Return the expression of a value's text; `name` is the column's quoted name."""
    if is_class(column):
        return f"{name}.ToString()"
    if kind(column) in {"money", "smallmoney"}:
        return MONEY.replace("{0}", name)
    if kind(column) == "sql_variant":
        return VARIANT.replace("{0}", name)
    return SHOWN.get(column.encoding, "CONVERT(nvarchar(max), {0})").replace("{0}", name)


def rendered(column: Column, name: str) -> str:
    """Return the expression of the column's JSON text, which is never NULL."""
    template = RENDERED.get(column.encoding, QUOTED)
    if kind(column) == "real":
        template = MARKED.replace("{1}", REAL_MARK)
    return template.replace("{0}", name if column.encoding is Encoding.BOOLEAN else shown(column, name))


def finishing(columns: Sequence[Column]) -> Callable[[bytes], bytes]:
    """Return what a page of these columns still needs before it is JSON; for most tables that is nothing."""
    marks = {_mark(column) for column in columns}
    finishes = [(mark, finish) for mark, finish in FINISHES.items() if mark in marks]
    if not finishes:
        return bytes
    return lambda body: reduce(_finished, finishes, body)


def _mark(column: Column) -> bytes | None:
    match column.encoding:
        case Encoding.FLOAT:
            return (REAL_MARK if kind(column) == "real" else FLOAT_MARK).encode()
        case Encoding.BINARY:
            return BYTES_MARK.encode()
        case _:
            return None


def _finished(body: bytes, finish: tuple[bytes, Callable[[list[bytes]], list[bytes]]]) -> bytes:
    """Every second piece between marks is a value."""
    mark, write = finish
    pieces = body.split(mark)
    pieces[1::2] = write(pieces[1::2])
    return b"".join(pieces)


def _doubles(texts: list[bytes]) -> list[bytes]:
    """Read and write all of a page at once: orjson's texts are the shortest, too."""
    written = orjson.dumps(orjson.loads(b"[%b]" % b",".join(texts)))
    return written[1:-1].replace(b".0,", b",").removesuffix(b".0").split(b",") if texts else texts


def _singles(texts: list[bytes]) -> list[bytes]:
    return [shortest_single(float(text)) for text in texts]


def _binaries(texts: list[bytes]) -> list[bytes]:
    return [b'"%b"' % b2a_base64(unhexlify(text), newline=False) for text in texts]


FINISHES: Mapping[bytes, Callable[[list[bytes]], list[bytes]]] = {
    FLOAT_MARK.encode(): _doubles,
    REAL_MARK.encode(): _singles,
    BYTES_MARK.encode(): _binaries,
}
