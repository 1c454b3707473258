"""A policy that hides rows refuses the read, on Oracle and SQL Server; PostgreSQL's is in test_postgresql_session.py.

Neither stand-in hides a row. Oracle's fake has the views that tell of policies and privileges; SQL Server's takes the
statements of a policy and shows it to those who may see definitions.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fetcher.engines import engine
from fetcher.errors import RefusedError
from fetcher.model import Secret
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, Source
from tests.contract.kinds.oracle import DSN
from tests.contract.kinds.sqlserver import REAL

OWNER = None
POLICY = "CREATE SECURITY POLICY own ADD {} PREDICATE dbo.even(id) ON dbo.events WITH (STATE = {})"
FUNCTION = (
    "CREATE FUNCTION dbo.even(@id bigint) RETURNS TABLE WITH SCHEMABINDING AS RETURN SELECT 1 AS ok WHERE @id % 2 = 0"
)

Add = Callable[[str, str], object]
"""Make a policy of `events`: for what, and whether it is enabled."""


@pytest.fixture(scope="module")
def oracle(sources: Callable[[str], Source]) -> Source:
    if DSN:
        pytest.skip("oracle: writes the fake's own table of policies")
    return sources("oracle")


@pytest.fixture
def in_oracle(oracle: Source) -> Iterator[Add]:
    yield lambda sel, enable: oracle.run(
        f"INSERT INTO dictionary.policies VALUES ('{oracle.default_schema}', 'events', '{sel}', '{enable}')"
    )
    oracle.run("DELETE FROM dictionary.policies")


@pytest.fixture(scope="module")
def sqlserver(sources: Callable[[str], Source]) -> Iterator[Source]:
    source = sources("sqlserver")
    if REAL in os.environ:
        source.run(FUNCTION)
    yield source
    if REAL in os.environ:
        source.run("DROP FUNCTION dbo.even")


@pytest.fixture
def in_sqlserver(sqlserver: Source) -> Iterator[Add]:
    sqlserver.run("GRANT VIEW DEFINITION TO reader")
    yield lambda kind, state: sqlserver.run(POLICY.format(kind, state))
    sqlserver.run("DROP SECURITY POLICY own")
    sqlserver.run("REVOKE VIEW DEFINITION FROM reader")


def read(source: Source, table: str, user: str | None) -> int:
    """Read a table as its owner or as another user."""
    to = source.to if user is OWNER else replace(source.to, user=user, schema=source.default_schema)
    secret = source.secret if user is OWNER else Secret(source.reader_password)
    with engine(to.kind).connect(to, secret, seconds=60, application="policies") as session:
        return len(Reader(session, replace(source, to=to)).rows(table))


@pytest.mark.parametrize("user", [OWNER, "reader"])
def test_a_policy_of_oracle_that_would_hide_rows_refuses_the_read(
    oracle: Source, in_oracle: Add, user: str | None
) -> None:
    """R-002-1: a part of a table is never delivered as the table; its owner is not exempt either."""
    in_oracle("YES", "YES")
    with pytest.raises(RefusedError, match="EXEMPT ACCESS POLICY"):
        read(oracle, "events", user)


@pytest.mark.parametrize(
    ("sel", "enable", "user"), [("NO", "YES", "reader"), ("YES", "NO", "reader"), ("YES", "YES", "exempt")]
)
def test_a_policy_of_oracle_that_hides_nothing_hinders_nothing(
    oracle: Source, in_oracle: Add, sel: str, enable: str, user: str
) -> None:
    """One for writing alone, one that is switched off, and any for who is exempt."""
    in_oracle(sel, enable)
    assert read(oracle, "events", user) == EVENTS


@pytest.mark.parametrize("user", [OWNER, "reader"])
def test_a_policy_of_sql_server_that_is_seen_refuses_the_read(
    sqlserver: Source, in_sqlserver: Add, user: str | None
) -> None:
    """R-002-1: nobody is exempt from a filter, not even the owner; its function alone knows whom it shows what."""
    in_sqlserver("FILTER", "ON")
    with pytest.raises(RefusedError, match="row-level security policy"):
        read(sqlserver, "events", user)


@pytest.mark.parametrize(("kind", "state"), [("BLOCK", "ON"), ("FILTER", "OFF")])
def test_a_policy_of_sql_server_that_hides_nothing_hinders_nothing(
    sqlserver: Source, in_sqlserver: Add, kind: str, state: str
) -> None:
    """One that blocks writing, and one that is switched off."""
    in_sqlserver(kind, state)
    assert read(sqlserver, "events", "reader") == EVENTS


def test_a_policy_of_sql_server_that_is_not_seen_is_not_known(sqlserver: Source, in_sqlserver: Add) -> None:
    """What `docs/reliability.md` does not promise: a user without VIEW DEFINITION reads what the policy leaves."""
    in_sqlserver("FILTER", "ON")
    sqlserver.run("REVOKE VIEW DEFINITION FROM reader")
    assert 0 < read(sqlserver, "events", "reader") <= EVENTS


@pytest.mark.parametrize("table", ["pairs", "events_seen"])
def test_a_policy_of_another_table_hinders_nothing(
    oracle: Source, sqlserver: Source, in_oracle: Add, in_sqlserver: Add, table: str
) -> None:
    """What is named in the request counts; a view is what it shows (`docs/security.md`)."""
    in_oracle("YES", "YES")
    in_sqlserver("FILTER", "ON")
    assert read(oracle, table, OWNER) > 0
    assert read(sqlserver, table, OWNER) > 0
