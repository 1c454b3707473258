"""Which table a name means, and which schemas must be looked at to know."""

import pytest

from fetcher.engines._names import Schemas
from fetcher.model import Catalog, Connection, Table

NAMING = Schemas("public")
HERE = Connection("c", "postgresql", "h", 1, "d", "u")
SALES = Connection("c", "postgresql", "h", 1, "d", "u", schema="sales")


def catalog(*paths: tuple[str, str]) -> Catalog:
    return Catalog({path: Table(path, ()) for path in paths})


@pytest.mark.parametrize(
    ("names", "schemas"),
    [
        (["a.t", "b.t", "a.u"], ("a", "b")),
        (["a.t", "u"], ("a", "public")),
        (["a.t"], ("a",)),
        (["u"], ("public",)),
        (["a.b.c"], ("a", "a.b")),
        ([".t", "t."], ("public",)),
        ([], ()),
    ],
)
def test_exactly_the_schemas_that_the_names_may_mean_are_in_scope(names: list[str], schemas: tuple[str, ...]) -> None:
    """R-000-27..29: each once, the default one only for a name without a schema."""
    assert NAMING.scope(names, HERE) == schemas


def test_the_connection_may_have_a_default_schema_of_its_own() -> None:
    """R-000-24, B-63."""
    assert NAMING.scope(["t"], SALES) == ("sales",)
    assert NAMING.resolve("t", catalog(("sales", "t"), ("public", "t")), SALES) == ("sales", "t")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("t", ("public", "t")),
        ("a.t", ("a", "t")),
        ("a.b.t", ("a", "b.t")),
        ("x.y.t", ("x.y", "t")),
        ("dotted.name", ("public", "dotted.name")),
        ("T", None),
        ("a.no", None),
        ("a.", None),
        ("", None),
    ],
)
def test_a_name_means_what_was_discovered(name: str, path: tuple[str, str] | None) -> None:
    """R-000-24, R-000-26, R-000-32: exactly, the schema first."""
    known = catalog(
        ("public", "t"), ("a", "t"), ("a", "b.t"), ("x.y", "t"), ("public", "dotted.name"), ("public", "a.t")
    )
    assert NAMING.resolve(name, known, HERE) == path
