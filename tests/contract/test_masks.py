"""SQL Server's dynamic data masking: a mask is never delivered as a value, and never taken for a position.

The stand-in masks as Microsoft documents it: by `default()`, an expression over a masked column as a whole.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from fetcher.engines.sqlserver import connect
from fetcher.errors import RefusedError
from fetcher.model import WILDCARD, Secret
from tests.contract.conftest import Reader
from tests.contract.kinds import Source

TEXT = "COLLATE Latin1_General_100_BIN2"
MADE = f"""
CREATE TABLE masked (id int NOT NULL PRIMARY KEY, at datetime2(0) NOT NULL, phone nvarchar(20) {TEXT});
INSERT INTO masked VALUES (1, '2026-01-01', 'one'), (2, '2026-01-02', 'two'), (3, '2026-01-03', NULL);
CREATE TABLE masked_key (code nvarchar(9) {TEXT} NOT NULL PRIMARY KEY, n int);
INSERT INTO masked_key VALUES ('a', 1), ('b', 2);
ALTER TABLE dbo.masked ALTER COLUMN phone ADD MASKED WITH (FUNCTION = 'default()');
ALTER TABLE dbo.masked_key ALTER COLUMN code ADD MASKED WITH (FUNCTION = 'default()');
CREATE VIEW masked_seen AS SELECT id, phone FROM masked;
CREATE USER masker FOR LOGIN masker;
GRANT SELECT ON dbo.masked TO masker;
GRANT SELECT ON dbo.masked_key TO masker;
GRANT SELECT ON dbo.masked_seen TO masker
"""
PASSWORD = "Sees_only_masks_1"
PHONES = ["one", "two", None]


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Iterator[Source]:
    source = sources("sqlserver")
    source.run(f"CREATE LOGIN masker WITH PASSWORD = '{PASSWORD}'")
    for statement in MADE.split(";\n"):
        source.run(statement)
    yield source
    for statement in ("VIEW masked_seen", "TABLE masked", "TABLE masked_key"):
        source.run(f"DROP {statement}")


@pytest.fixture
def unmasked(source: Source) -> Iterator[Callable[[str], None]]:
    """Give the user UNMASK, by what stands between GRANT UNMASK and TO, until the test is over."""
    given: list[str] = []

    def give(on: str) -> None:
        source.run(f"GRANT UNMASK {on} TO masker")
        given.append(on)

    yield give
    for on in given:
        source.run(f"REVOKE UNMASK {on} FROM masker")


def read(source: Source, table: str, fields: Sequence[str] = WILDCARD, user: str = "masker") -> list[object]:
    """Read a table, page by page of one row, and return the last field of each."""
    own = user == "masker"
    to = replace(source.to, user=user, schema="dbo") if own else source.to
    secret = Secret(PASSWORD) if own else source.secret
    with connect(to, secret, seconds=60, application="masks") as session:
        reader = Reader(session, source)
        return [list(row.values())[-1] for row in reader.rows(table, fields)]


@pytest.mark.parametrize("fields", [WILDCARD, ("phone",), ("id", "phone")])
def test_masks_are_not_delivered(source: Source, fields: Sequence[str]) -> None:
    """R-002-1, R-000-21: of our one expression for a row the server makes one byte; rows of these were no JSON."""
    with pytest.raises(RefusedError, match="UNMASK"):
        read(source, "masked", fields)


def test_a_masked_key_makes_no_position(source: Source) -> None:
    """R-002-19: it would be the same for each row, also where the key is not selected."""
    with pytest.raises(RefusedError, match="UNMASK"):
        read(source, "masked_key", ("n",))


@pytest.mark.parametrize("fields", [WILDCARD, ("phone",)])
def test_masks_behind_a_view_are_not_delivered(source: Source, fields: Sequence[str]) -> None:
    """The catalog tells nothing of a view's columns: what is sent is looked at."""
    with pytest.raises(RefusedError, match="UNMASK"):
        read(source, "masked_seen", fields)


@pytest.mark.parametrize("on", ["", "ON dbo.masked", "ON dbo.masked (phone)"])
def test_who_is_sent_values_reads_them(source: Source, unmasked: Callable[[str], None], on: str) -> None:
    """UNMASK is a right in the database, or, from SQL Server 2022 on, on a table or a column."""
    unmasked(on)
    assert read(source, "masked") == PHONES


def test_the_right_on_another_column_does_not_help(source: Source, unmasked: Callable[[str], None]) -> None:
    unmasked("ON dbo.masked (at)")
    with pytest.raises(RefusedError, match="UNMASK"):
        read(source, "masked")


@pytest.mark.parametrize(("table", "values"), [("masked", PHONES), ("masked_seen", PHONES), ("masked_key", [1, 2])])
def test_masks_hinder_no_owner(source: Source, table: str, values: Sequence[object]) -> None:
    assert read(source, table, user="owner") == values


def test_a_mask_of_a_field_that_is_not_asked_for_hinders_nothing(source: Source) -> None:
    """`at` is a key's kind of value too: text beside the row, as itself."""
    assert read(source, "masked", ("id",)) == [1, 2, 3]
    assert len(read(source, "masked", ("at",))) == 3
    assert read(source, "masked_seen", ("id",)) == [1, 2, 3]
