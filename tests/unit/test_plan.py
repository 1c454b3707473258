"""Selections and a discovered catalog become queries."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from fetcher.core.plan import RENDERING, digest, missing, plan
from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError, Where
from fetcher.model import (
    Catalog,
    Column,
    Condition,
    Connection,
    Encoding,
    Limits,
    Query,
    Selection,
    Table,
    TypedCondition,
)

CONNECTION = Connection("pg", "postgresql", "db.example", 5432, "shop", "reader")

ID = Column("id", "bigint", Encoding.INTEGER, nullable=False)
EMAIL = Column("email", "text", Encoding.TEXT)
PAID = Column("paid", "timestamp", Encoding.TIMESTAMP)

ACCOUNTS = Table(("public", "accounts"), (ID, EMAIL, PAID), key=("id",))
WIDE = Table(("sales", "wide"), tuple(Column(f"c{index}", "text", Encoding.TEXT) for index in range(60)))
CATALOG = Catalog({table.path: table for table in (ACCOUNTS, WIDE)})


class Schemas:
    """Names as PostgreSQL resolves them."""

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        return ("public",)

    def resolve(self, name: str, catalog: Catalog, connection: Connection) -> tuple[str, ...] | None:
        schema, _, table = name.rpartition(".")
        path = (schema or "public", table)
        return path if path in catalog.tables or schema == "gone" else None


class UpperCase(Schemas):
    """Field names as Oracle matches them."""

    def column(self, name: str, table: Table) -> Column | None:
        return table.column(name.lower())


def planned(*selections: Selection, catalog: Catalog = CATALOG, naming: Schemas | None = None) -> tuple[Query, ...]:
    return plan("pg", selections, catalog, naming or Schemas(), CONNECTION)


def refused(*selections: Selection, limits: Limits | None = None) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        plan("pg", selections, CATALOG, Schemas(), CONNECTION, limits or Limits())
    return caught.value


def test_fields_keep_their_requested_order() -> None:
    """R-000-13."""
    (query,) = planned(Selection("accounts", ("paid", "id")))
    assert query == Query("accounts", ("public", "accounts"), (PAID, ID), key=(ID,))


def test_the_wildcard_is_every_column_in_the_tables_order() -> None:
    """R-000-14, R-000-38, B-01: 60 columns are fine, the 50 bounds the request's list."""
    everything, wide = planned(Selection("public.accounts", ("*",)), Selection("sales.wide", ("*",)))
    assert everything.columns == (ID, EMAIL, PAID)
    assert len(wide.columns) == 60


def test_the_name_stays_as_requested_and_the_path_is_qualified() -> None:
    """R-000-24, R-000-33."""
    assert [(query.name, query.path) for query in planned(Selection("public.accounts", ("id",)))] == [
        ("public.accounts", ("public", "accounts"))
    ]


def test_the_sort_key_need_not_be_selected() -> None:
    (query,) = planned(Selection("accounts", ("email",)))
    assert (query.columns, query.key) == ((EMAIL,), (ID,))


@pytest.mark.parametrize("key", [(), ("gone",), ("id", "gone")])
def test_a_table_without_a_whole_key_has_none(key: tuple[str, ...]) -> None:
    """R-002-20."""
    catalog = Catalog({ACCOUNTS.path: replace(ACCOUNTS, key=key)})
    assert planned(Selection("accounts", ("*",)), catalog=catalog)[0].key == ()


def test_a_key_keeps_its_own_order() -> None:
    catalog = Catalog({ACCOUNTS.path: replace(ACCOUNTS, key=("paid", "id"))})
    assert planned(Selection("accounts", ("*",)), catalog=catalog)[0].key == (PAID, ID)


def test_a_filter_is_typed_by_its_column_even_when_that_is_not_selected() -> None:
    condition = Condition("paid", "gte", ("2026-01-31",))
    (query,) = planned(Selection("accounts", ("id",), (condition,)))
    assert query.conditions == (TypedCondition(PAID, "gte", (date(2026, 1, 31),)),)


@pytest.mark.parametrize(
    ("selection", "where"),
    [
        (Selection("nothing", ("*",)), Where("pg", "nothing")),
        (Selection("gone.t", ("*",)), Where("pg", "gone.t")),
        (Selection("accounts", ("id", "iban")), Where("pg", "accounts", "iban")),
        (Selection("accounts", ("ID",)), Where("pg", "accounts", "ID")),
        (Selection("accounts", ("id; drop table x", "\0")), Where("pg", "accounts", "id; drop table x")),
        (Selection("accounts", ("*",), (Condition("iban", "eq", ("x",)),)), Where("pg", "accounts", "iban")),
        (Selection("accounts", ("*",), (Condition("id", "eq", ("x",)),)), Where("pg", "accounts", "id")),
    ],
)
def test_a_bad_selection_fails_with_the_safe_text_and_says_where(selection: Selection, where: Where) -> None:
    """R-000-20, R-000-34, R-000-88."""
    error = refused(selection)
    assert (error.message, error.code, error.where) == (SCHEMA_VALIDATION, "FET-2010", where)


def test_two_names_of_one_table_are_refused_and_both_are_named() -> None:
    """R-000-33."""
    error = refused(Selection("accounts", ("id",)), Selection("public.accounts", ("id",)))
    assert error.code == "FET-0401"
    assert error.message == "accounts and public.accounts are one table; name it once"
    assert error.where == Where("pg", "public.accounts")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(tables=0), "1 tables are too many; 0 are allowed"),
        (Limits(fields=1), "2 fields are too many; 1 are allowed"),
        (Limits(filter_fields=1), "2 filter fields are too many; 1 are allowed"),
    ],
)
def test_limits_are_checked_again_before_any_query(limits: Limits, said: str) -> None:
    """R-000-36, R-000-37."""
    both = (Condition("id", "eq", (1,)), Condition("email", "eq", ("a",)), Condition("email", "ne", ("b",)))
    error = refused(Selection("accounts", ("id", "email"), both), limits=limits)
    assert (error.code, error.message) == ("FET-0401", said)


def test_a_kind_may_match_field_names_in_its_own_way() -> None:
    """R-000-32: the result's key is the discovered name, and one column is read once."""
    condition = Condition("EMAIL", "eq", ("a",))
    (query,) = planned(Selection("accounts", ("ID", "Email", "id"), (condition,)), naming=UpperCase())
    assert query.columns == (ID, EMAIL)
    assert query.conditions == (TypedCondition(EMAIL, "eq", ("a",)),)


def test_everything_that_a_catalog_lacks_is_named_once() -> None:
    """R-000-21, R-000-22."""
    selections = (
        Selection("accounts", ("id", "a", "b"), (Condition("b", "eq", ("x",)), Condition("c", "eq", ("x",)))),
        Selection("nothing", ("id",)),
        Selection("sales.wide", ("*",), (Condition("d", "eq", ("x",)),)),
    )
    assert missing("pg", selections, CATALOG, Schemas(), CONNECTION) == (
        Where("pg", "accounts", "a"),
        Where("pg", "accounts", "b"),
        Where("pg", "accounts", "c"),
        Where("pg", "nothing"),
        Where("pg", "sales.wide", "d"),
    )
    assert missing("pg", [Selection("accounts", ("*",))], CATALOG, Schemas(), CONNECTION) == ()


QUERY = Query("t", ("public", "t"), (ID, EMAIL), (ID,), (TypedCondition(ID, "eq", (1,)),))


def conditioned(column: Column, *values: Any) -> Query:
    return replace(QUERY, conditions=(TypedCondition(column, "eq", values),))


def test_the_plan_digest_does_not_depend_on_the_order_of_datasources_or_on_page_sizes() -> None:
    one = digest({"a": (QUERY,), "b": ()})
    assert digest({"b": (), "a": (replace(QUERY, page_bytes=1),)}) == one
    assert len(one) == 64


def test_the_plan_digest_changes_with_whatever_is_read() -> None:
    """R-002-13."""
    changed = [
        QUERY,
        replace(QUERY, name="public.t"),
        replace(QUERY, path=("sales", "t")),
        replace(QUERY, columns=(EMAIL, ID)),
        replace(QUERY, columns=(replace(ID, type="int"), EMAIL)),
        replace(QUERY, columns=(ID, replace(EMAIL, encoding=Encoding.ARRAY, element=Encoding.TEXT))),
        replace(QUERY, key=()),
        replace(QUERY, conditions=()),
        replace(QUERY, conditions=(TypedCondition(ID, "ne", (1,)),)),
        conditioned(EMAIL, "1"),
        conditioned(ID, Decimal(1)),
        conditioned(ID, 1, 1),
        conditioned(ID, None),
        conditioned(PAID, date(2026, 1, 31)),
        conditioned(PAID, "2026-01-31"),
        conditioned(PAID, b"\x01"),
    ]
    digests = {digest({"a": (query,)}) for query in changed}
    assert len(digests) == len(changed)
    assert digest({"b": (QUERY,)}) not in digests


def test_a_release_that_renders_otherwise_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-002-13: one result never holds two renderings, whichever release goes on with a job."""
    before = digest({"a": (QUERY,)})
    monkeypatch.setattr("fetcher.core.plan.RENDERING", RENDERING + 1)
    assert digest({"a": (QUERY,)}) != before
