"""What is PostgreSQL's own in a session: what names a table, and that row-level security never narrows a read."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fetcher.engines.postgresql import PostgreSQLSession, connect
from fetcher.errors import RefusedError
from fetcher.model import Page, Query, Secret
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, Source

TABLES = """
CREATE TABLE ledger (id int PRIMARY KEY, tenant text NOT NULL);
INSERT INTO ledger SELECT i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 10) i;
ALTER TABLE ledger ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ledger USING (tenant = 'a');
CREATE ROLE narrowed LOGIN PASSWORD 'x';
CREATE ROLE whole LOGIN PASSWORD 'x' BYPASSRLS;
GRANT SELECT ON ledger TO narrowed, whole;
CREATE VIEW ledger_seen AS SELECT id FROM ledger;
GRANT SELECT ON ledger_seen TO narrowed;
"""


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Iterator[Source]:
    served = sources("postgresql")
    served.run(TABLES)
    yield served
    served.run("DROP TABLE ledger CASCADE; DROP ROLE narrowed; DROP ROLE whole")


def read(session: PostgreSQLSession, name: str) -> int:
    table = session.discover(("public",)).tables["public", name]
    session.hold([table.path])
    pages: list[Page] = list(session.read(Query(name, table.path, table.columns), None))
    return sum(page.rows for page in pages)


def test_a_policy_that_would_hide_rows_refuses_the_read(source: Source) -> None:
    """A job that read half of a table as if it were all of it would be complete in name only."""
    to = replace(source.to, user="narrowed")
    with (
        connect(to, Secret("x"), seconds=20, application="rls") as session,
        pytest.raises(RefusedError, match="row-level security") as caught,
    ):
        read(session, "ledger")
    assert "tenant" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_user_whom_no_policy_narrows_reads_the_whole_table(source: Source) -> None:
    """And so does the owner, who is not subject to it."""
    with connect(replace(source.to, user="whole"), Secret("x"), seconds=20, application="rls") as session:
        assert read(session, "ledger") == 10
    with connect(source.to, source.secret, seconds=20, application="rls") as session:
        assert read(session, "ledger") == 10


def test_a_view_is_read_as_its_owner_reads_it(source: Source) -> None:
    """It shows the user what its owner sees, which is not narrowed."""
    with connect(replace(source.to, user="narrowed"), Secret("x"), seconds=20, application="rls") as session:
        assert read(session, "ledger_seen") == 10


def test_another_missing_right_keeps_its_own_words(source: Source) -> None:
    """The code of both is 42501."""
    to = replace(source.to, user="narrowed")
    with connect(to, Secret("x"), seconds=20, application="rls") as session:
        table = session.discover(("public",)).tables["public", "ledger"]
        other = Query("events", ("public", "events"), table.columns[:1])
        with pytest.raises(RefusedError, match="denies access"):
            list(session.read(other, None))


def test_a_search_path_of_the_user_never_chooses_the_table(source: Source) -> None:
    """R-000-24, B-42: what was checked against `public` is read from there, whatever else has its name."""
    source.run(
        "CREATE SCHEMA shadow; CREATE TABLE shadow.events (id int PRIMARY KEY); INSERT INTO shadow.events VALUES (0)"
    )
    source.run(f"ALTER ROLE {source.to.user} SET search_path = shadow")
    try:
        with connect(source.to, source.secret, seconds=20, application="path") as session:
            assert len(Reader(session, source).ids("events")) == EVENTS
    finally:
        source.run(f"ALTER ROLE {source.to.user} RESET search_path; DROP SCHEMA shadow CASCADE")
