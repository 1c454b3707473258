"""What is said of values (`design.md` §7.2) is what the engines do, and each row of it has a test on each kind."""

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from fetcher.engines import kinds
from fetcher.engines._mongodb.fields import KINDS as MONGODB
from fetcher.engines._mysql.values import TYPES as MYSQL
from fetcher.engines._sqlserver.types import TYPES as SQL_SERVER
from fetcher.model import Encoding
from infra.local.places import ROOT
from tests.contract.test_mongodb_values import VALUES as MONGODB_VALUES
from tests.contract.test_mysql_values import VALUES as MYSQL_VALUES

PAGE = (ROOT / "docs" / "values.md").read_text()


def table(section: str) -> list[list[str]]:
    """Return the cells of a section's rows."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    ("section", "types"),
    [("MySQL", {**MYSQL, "bit": Encoding.BOOLEAN}), ("SQL Server", SQL_SERVER), ("MongoDB", MONGODB)],
)
def test_every_type_of_a_kind_is_told_with_its_encoding(section: str, types: Mapping[str, Encoding]) -> None:
    """R-000-101: neither one too few nor one too many; PostgreSQL's and Oracle's tables have tests beside theirs."""
    told = {name: cells[1] for cells in table(section) for name in re.findall(r"`(\w+)`", cells[0])}
    assert told == {name: str(encoding) for name, encoding in types.items()}


@pytest.mark.parametrize(
    ("section", "expected"),
    [("MySQL", {value for _, _, value in MYSQL_VALUES}), ("MongoDB", {value for _, value in MONGODB_VALUES})],
)
def test_every_example_is_one_that_a_test_reads(section: str, expected: set[str]) -> None:
    """R-000-101."""
    names = {"tinyint(1)", "bit(1)", "longtext"}
    examples = {text for cells in table(section) for text in re.findall(r"`([^`]+)`", " | ".join(cells[2:]))}
    assert examples - names <= expected


NOT_THERE = "has no such type: "
PG, MY, MONGO = ("test_postgresql_values.py", "test_mysql_values.py", "test_mongodb_values.py")
ORA, MS, ORA_UNIT, MS_UNIT = ("test_oracle_reading.py", "test_filters.py", "test_oracle.py", "test_sqlserver.py")
MS_ROWS = "test_sqlserver_rows.py"
EXACT, EVERY = "test_a_value_is_exact", "test_every_value_is_exact"
RANDOM, FORMS, FAKE = (
    "test_delivered_rows_are_the_table",
    "test_each_type_is_rendered_by_a_form",
    "test_values_come_through",
)
FRAMED, BY_SQL, MARKED = "test_what_the_driver_returns", "test_each_type_is_rendered_by_an_exact", "test_marked_values"

Cell = tuple[str, str, str] | str
"""A test module, the beginning of a test's name and a text that the module has for it; or why there is no such type."""

MATRIX: Mapping[str, Mapping[str, Cell]] = {
    "integers of any size": {
        "postgresql": (PG, EXACT, "9223372036854775807"),
        "mysql": (MY, EXACT, "18446744073709551615"),
        "mongodb": (MONGO, EVERY, "Int64(2**63 - 1)"),
        "sqlserver": ("kinds/sqlserver.py", RANDOM, '"bigint": strategies.INTEGERS'),
        "oracle": (ORA, FAKE, "-9223372036854775808"),
    },
    "decimal, numeric, money": {
        "postgresql": (PG, EXACT, '"money"'),
        "mysql": (MY, EXACT, '"decimal(65,30)"'),
        "mongodb": (MONGO, EVERY, 'Decimal128("-0.000")'),
        "sqlserver": (MS_UNIT, BY_SQL, '"money"'),
        "oracle": (ORA, FAKE, "1234567890123456789012345678.0123456789"),
    },
    "float, double": {
        "postgresql": (PG, EXACT, "5e-324"),
        "mysql": (MY, EXACT, "5e-324"),
        "mongodb": (MONGO, EVERY, 'float("-inf")'),
        "sqlserver": (MS_ROWS, MARKED, "1.7976931348623157e+308"),
        "oracle": (ORA, FRAMED, "-math.inf"),
    },
    "boolean, BIT(1)": {
        "postgresql": (PG, EXACT, '"boolean"'),
        "mysql": (MY, EXACT, '"bit(1)"'),
        "mongodb": (MONGO, EVERY, '(True, "true")'),
        "sqlserver": ("kinds/sqlserver.py", RANDOM, '"bit": strategies.BOOLEANS'),
        "oracle": (ORA, FORMS, '"BOOLEAN"'),
    },
    "text, and the database's own text": {
        "postgresql": (PG, EXACT, '"tsvector"'),
        "mysql": (MY, EXACT, "\"set('a','b','c')\""),
        "mongodb": (MONGO, EVERY, "Größe"),
        "sqlserver": (MS_UNIT, "test_what_has_no_encoding_of_its_own", '"sql_variant"'),
        "oracle": (ORA, FORMS, '"XMLTYPE"'),
    },
    "date": {
        "postgresql": (PG, EXACT, "0044-03-15 BC"),
        "mysql": (MY, EXACT, '("date", '),
        "mongodb": NOT_THERE + "a BSON date is a point in time",
        "sqlserver": ("kinds/sqlserver.py", RANDOM, '"date": strategies.DATES'),
        "oracle": NOT_THERE + "its DATE has a time of day and is a timestamp",
    },
    "time": {
        "postgresql": (PG, EXACT, "24:00:00"),
        "mysql": (MY, EXACT, "-838:59:58.999999"),
        "mongodb": NOT_THERE + "a BSON date is a point in time",
        "sqlserver": (MS_UNIT, BY_SQL, '"time(7)"'),
        "oracle": NOT_THERE + "a time of day is part of a DATE or an interval",
    },
    "timestamp": {
        "postgresql": (PG, EXACT, "0001-01-01T00:00:00"),
        "mysql": (MY, EXACT, "0000-00-00 00:00:00"),
        "mongodb": NOT_THERE + "a BSON date is a point in time, in UTC",
        "sqlserver": (MS_UNIT, BY_SQL, '"datetime2(7)"'),
        "oracle": (ORA, FAKE, "2026-01-31T23:59:59.123456789"),
    },
    "timestamp with zone": {
        "postgresql": (PG, EXACT, "2026-01-31T19:30:00.000001Z"),
        "mysql": (MY, EXACT, "2038-01-19T03:14:07.999999Z"),
        "mongodb": (MONGO, EVERY, "0001-01-01T00:00:00.000Z"),
        "sqlserver": (MS_UNIT, BY_SQL, '"datetimeoffset(7)"'),
        "oracle": (ORA, FORMS, '"TIMESTAMP(6) WITH TIME ZONE"'),
    },
    "interval": {
        "postgresql": (PG, EXACT, '"interval"'),
        "mysql": NOT_THERE + "INTERVAL is a word of its expressions alone",
        "mongodb": NOT_THERE + "BSON has none",
        "sqlserver": NOT_THERE + "Transact-SQL has none",
        "oracle": (ORA, FORMS, '"INTERVAL YEAR(2) TO MONTH"'),
    },
    "uuid": {
        "postgresql": (PG, EXACT, '"uuid"'),
        "mysql": (MY, EXACT, '("uuid", '),
        "mongodb": (MONGO, EVERY, "Binary(UUID.bytes, 4)"),
        "sqlserver": ("kinds/sqlserver.py", RANDOM, '"uniqueidentifier": strategies.UUIDS'),
        "oracle": NOT_THERE + "one is stored as RAW(16) or as text",
    },
    "json": {
        "postgresql": (PG, EXACT, "12345678901234567890.1230"),
        "mysql": (MY, EXACT, "12345678901234567890.1230"),
        "mongodb": NOT_THERE + "documents are its own form of it",
        "sqlserver": (MS_UNIT, BY_SQL, '"json"'),
        "oracle": (ORA, FRAMED, "1.10"),
    },
    "arrays": {
        "postgresql": (PG, EXACT, '"integer[][]"'),
        "mysql": NOT_THERE + "only JSON has arrays",
        "mongodb": (MONGO, EVERY, '([[1, "a"], [], {"k": True}]'),
        "sqlserver": NOT_THERE + "only JSON has arrays",
        "oracle": NOT_THERE + "collections have no text of their own and are refused",
    },
    "binary": {
        "postgresql": (PG, EXACT, '"bytea"'),
        "mysql": (MY, EXACT, '"longblob"'),
        "mongodb": (MONGO, EVERY, "Binary(UUID.bytes, 0)"),
        "sqlserver": (MS_ROWS, MARKED, "00FF10"),
        "oracle": (ORA, FRAMED, '"BLOB"'),
    },
    "ObjectId, documents, other BSON": {
        "mongodb": (MONGO, EVERY, "MinKey()"),
        **dict.fromkeys(("postgresql", "mysql", "sqlserver", "oracle"), NOT_THERE + "BSON is MongoDB's"),
    },
    "NULL, missing field": {
        "postgresql": (PG, "test_null_of_any_type_is_null", "null"),
        "mysql": (MY, "test_null_of_any_type_is_null", "null"),
        "mongodb": ("kinds/mongodb.py", RANDOM, "missing and value is None"),
        "sqlserver": ("strategies.py", RANDOM, "| st.none()"),
        "oracle": (ORA, FRAMED, "(None, None, math.nan"),
    },
}
"""The rows of the table of encodings, times split into their four forms, by kind."""


@cache
def functions_and_text(module: str) -> tuple[Sequence[str], str]:
    """Return the tests that stand for a module, and its text; what is no test serves the property of every kind."""
    folder = ROOT / "tests" / ("unit" if module in {MS_UNIT, MS_ROWS, ORA_UNIT} else "contract")
    tests = folder / (module if module.startswith("test_") else "test_property.py")
    names = [node.name for node in ast.walk(ast.parse(tests.read_text())) if isinstance(node, ast.FunctionDef)]
    return names, (folder / module).read_text()


@pytest.mark.parametrize("row", MATRIX)
def test_each_row_has_a_test_on_each_kind_or_the_kind_no_such_type(row: str) -> None:
    """R-000-101, B-48, B-59: every row of design §7.2 on every kind, and every test that is named is there."""
    assert MATRIX[row].keys() == set(kinds())
    for cell in MATRIX[row].values():
        if isinstance(cell, str):
            assert len(cell.removeprefix(NOT_THERE)) > 10
            continue
        module, test, text = cell
        names, source = functions_and_text(module)
        assert any(name.startswith(test) for name in names), cell
        assert text in source, cell


def test_every_encoding_has_a_row() -> None:
    """A new encoding is a new row."""
    words = {Encoding.DECIMAL: "decimal", Encoding.TIMESTAMP_UTC: "timestamp with zone", Encoding.DOCUMENT: "documents"}
    for encoding in Encoding:
        assert any(words.get(encoding, str(encoding)) in row for row in MATRIX), encoding
