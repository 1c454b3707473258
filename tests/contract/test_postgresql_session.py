"""What is PostgreSQL's own in a session."""

from collections.abc import Callable

import pytest

from fetcher.engines import engine
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, Source


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Source:
    return sources("postgresql")


def test_a_search_path_of_the_user_never_chooses_the_table(source: Source) -> None:
    """R-000-24, B-42: what was checked against `public` is read from there, whatever else has its name."""
    source.run(
        "CREATE SCHEMA shadow; CREATE TABLE shadow.events (id int PRIMARY KEY); INSERT INTO shadow.events VALUES (0)"
    )
    source.run(f"ALTER ROLE {source.to.user} SET search_path = shadow")
    try:
        with engine("postgresql").connect(source.to, source.secret, seconds=20, application="path") as session:
            assert len(Reader(session, source).ids("events")) == EVENTS
    finally:
        source.run(f"ALTER ROLE {source.to.user} RESET search_path; DROP SCHEMA shadow CASCADE")
