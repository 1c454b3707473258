"""The rules for conditions, run on SQLite and read as text for spellings that SQLite does not have."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.engines._sql import Dialect, Where
from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding, Operator, Position, TypedCondition

PLAIN = Dialect(mark=lambda number: f"?{number}")
EXPANDED = Dialect(mark=lambda number: f"?{number}", row_comparison=False)
ARRAYS = Dialect(
    mark=lambda number: f"${number}",
    quotes=("[", "]"),
    percent="%%",
    value=lambda mark, column, values: f"CAST({mark} AS {column.type})",
    key=lambda mark, column: f"KEY({mark})",
    field=lambda name, column, operator: f"lower({name})" if operator == "like" else name,
    bind=lambda column, value: f"<{value}>",
    array=list,
    array_value=lambda mark, column, values: f"CAST({mark} AS {column.type}[])",
)

NUMBER = Column("n", "integer", Encoding.INTEGER)
TEXT = Column("t", "text", Encoding.TEXT)
STAMP = Column("s", "timestamp", Encoding.TIMESTAMP)
ROWS: Sequence[tuple[int | None, str | None, str]] = [
    (1, "a", "2026-01-01 00:00:00"),
    (2, "b%", "2026-01-01 23:59:59.9995"),
    (3, None, "2026-01-02 00:00:00"),
    (None, "a_c", "2026-01-03 00:00:00"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (row integer, n integer, t text, s text)")
    connection.execute("PRAGMA case_sensitive_like = on")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(at, *row) for at, row in enumerate(ROWS)])
    yield connection
    connection.close()


def selected(database: sqlite3.Connection, where: Where) -> list[int]:
    rows = database.execute(f"SELECT row FROM t{where.sql} ORDER BY row", where.values)
    return [row for (row,) in rows]


def spelled(dialect: Dialect, column: Column, operator: Operator, *values: Any) -> tuple[str, list[Any]]:
    where = Where(dialect, [TypedCondition(column, operator, values)])
    return where.sql.removeprefix(" WHERE "), where.values


@pytest.mark.parametrize(
    ("column", "operator", "values", "rows"),
    [
        (NUMBER, "eq", (1,), [0]),
        (NUMBER, "eq", (1, 2), [0, 1]),
        (NUMBER, "in", (2, 1), [0, 1]),
        (NUMBER, "in", (), []),
        (NUMBER, "eq", (), []),
        (NUMBER, "nin", (), [0, 1, 2, 3]),
        (NUMBER, "ne", (), [0, 1, 2, 3]),
        (NUMBER, "ne", (1,), [1, 2]),
        (NUMBER, "nin", (1, 2), [2]),
        (NUMBER, "eq", (None,), [3]),
        (NUMBER, "in", (1, None), [0, 3]),
        (NUMBER, "ne", (None,), [0, 1, 2]),
        (NUMBER, "nin", (None, 1), [1, 2]),
        (NUMBER, "gt", (1,), [1, 2]),
        (NUMBER, "gte", (2,), [1, 2]),
        (NUMBER, "lt", (2,), [0]),
        (NUMBER, "lte", (2,), [0, 1]),
        (NUMBER, "between", (2, 3), [1, 2]),
        (TEXT, "like", ("a%",), [0, 3]),
        (TEXT, "like", ("_\\%",), [1]),
        (TEXT, "like", ("a\\_c",), [3]),
        (TEXT, "eq", ("' OR 1=1 --",), []),
        (STAMP, "between", (date(2026, 1, 1), date(2026, 1, 1)), [0, 1]),
        (STAMP, "lte", (date(2026, 1, 1),), [0, 1]),
        (STAMP, "gt", (date(2026, 1, 1),), [2, 3]),
        (STAMP, "gte", (date(2026, 1, 2),), [2, 3]),
        (STAMP, "lt", (date(2026, 1, 2),), [0, 1]),
        (STAMP, "gt", (date.max,), []),
        (STAMP, "lte", (date.max,), [0, 1, 2, 3]),
    ],
)
def test_an_operator_selects_what_the_design_says(
    database: sqlite3.Connection, column: Column, operator: Operator, values: tuple[Any, ...], rows: list[int]
) -> None:
    """R-000-84..86, R-000-91, R-000-93: empty lists, NULLs and whole days never widen a filter."""
    assert selected(database, Where(PLAIN, [TypedCondition(column, operator, values)])) == rows


def test_conditions_are_joined_with_and(database: sqlite3.Connection) -> None:
    """R-000-86."""
    conditions = [TypedCondition(NUMBER, "gte", (1,)), TypedCondition(TEXT, "in", (None, "a"))]
    assert selected(database, Where(PLAIN, conditions)) == [0, 2]
    assert selected(database, Where(PLAIN)) == [0, 1, 2, 3]


def test_a_value_is_always_bound() -> None:
    """R-000-94."""
    for operator in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "like"):
        sql, values = spelled(PLAIN, TEXT, operator, "'; DROP TABLE t; --")
        assert "DROP" not in sql
        assert values == ["'; DROP TABLE t; --"]


def test_a_dialect_spells_names_marks_types_and_lists() -> None:
    column = Column("win%]", "int", Encoding.INTEGER)
    assert spelled(ARRAYS, column, "eq", 1) == ("([win%%]]] = CAST($1 AS int))", ["<1>"])
    assert spelled(ARRAYS, column, "nin", 1, 2) == ("([win%%]]] <> ALL (CAST($1 AS int[])))", [["<1>", "<2>"]])
    assert spelled(ARRAYS, TEXT, "like", "a%") == ("lower([t]) LIKE CAST($1 AS text) ESCAPE '\\'", ["<a%>"])


def test_arrays_are_compared_one_by_one() -> None:
    """A list of arrays would be flattened by ANY."""
    column = Column("a", "int[]", Encoding.ARRAY, element=Encoding.INTEGER)
    sql, values = spelled(ARRAYS, column, "in", "{1}", "{2}")
    assert sql == "([a] IN (CAST($1 AS int[]), CAST($2 AS int[])))"
    assert values == ["<{1}>", "<{2}>"]


def test_a_long_list_is_split(database: sqlite3.Connection) -> None:
    """Design §7.3: some databases take 1,000 values in a list; the parts still mean one list."""
    short = Dialect(mark=lambda number: f"?{number}", longest_list=2)
    many = tuple(range(2, 9))
    assert selected(database, Where(short, [TypedCondition(NUMBER, "in", many)])) == [1, 2]
    assert selected(database, Where(short, [TypedCondition(NUMBER, "nin", many)])) == [0]
    assert spelled(short, NUMBER, "in", *many)[0].count(" OR ") == 3


def test_the_last_day_has_a_next_one_only_where_the_database_knows_it() -> None:
    later = Dialect(mark=lambda number: f"?{number}", day_after_last="10000-01-01")
    assert spelled(later, STAMP, "lte", date.max) == ('"s" < ?1', ["10000-01-01"])
    assert spelled(PLAIN, STAMP, "lte", date.max) == ('"s" IS NOT NULL', [])


@pytest.mark.parametrize("name", ["nul\0", ""])
def test_a_name_that_no_database_takes_is_refused(name: str) -> None:
    """R-000-34."""
    with pytest.raises(InvalidRequestError):
        PLAIN.name("public", name)


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        (("public", "win%"), '"public"."win%"'),
        (('a"b', "a.b"), '"a""b"."a.b"'),
    ],
)
def test_a_name_is_quoted_and_qualified(path: tuple[str, ...], quoted: str) -> None:
    assert PLAIN.name(*path) == quoted


def test_a_position_of_other_types_is_refused() -> None:
    where = Where(PLAIN)
    for values in ((("text", "1"),), (), (("integer", "1"), ("integer", "2"))):
        with pytest.raises(InvalidRequestError, match="position"):
            where.after([NUMBER], Position(values))


def test_a_position_of_one_column_needs_no_row() -> None:
    where = Where(ARRAYS)
    where.after([NUMBER], Position((("integer", "7"),)))
    assert (where.sql, where.values) == (" WHERE [n] > KEY($1)", ["7"])


KEYS = st.lists(st.tuples(*[st.integers(0, 2).map(str)] * 3), min_size=1, max_size=12)


@given(rows=KEYS, data=st.data(), width=st.integers(1, 3))
def test_the_expanded_comparison_is_the_row_comparison(
    rows: list[tuple[str, ...]], data: st.DataObject, width: int
) -> None:
    """R-002-19: ties on every column but the last are told apart in either spelling."""
    key = [Column(f"k{at}", "text", Encoding.TEXT) for at in range(width)]
    last = data.draw(st.sampled_from(rows))[:width]
    expected = sorted(row[:width] for row in rows if row[:width] > last)
    for dialect in (PLAIN, EXPANDED):
        where = Where(dialect)
        where.after(key, Position(tuple(("text", text) for text in last)))
        names = ", ".join(column.name for column in key)
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE t (k0 text, k1 text, k2 text)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        found = connection.execute(f"SELECT {names} FROM t{where.sql} ORDER BY {names}", where.values).fetchall()
        connection.close()
        assert found == expected
