"""The pieces that rows are put together from (`design.md` §7.2): in any state, beside any other, on any version."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fetcher.engines import engine
from fetcher.engines._postgresql.values import JSON_SCALAR_SINCE
from fetcher.model import Connection, Query, Secret
from infra.local import postgresql
from infra.local.places import StackError
from tests.contract.kinds import Source
from tests.contract.test_postgresql_values import TYPES, VALUES

MOMENT, INFINITE = "'2026-01-31 00:00:00.5Z'", "'infinity'"
STATES: Sequence[tuple[str, Sequence[tuple[str, str]]]] = [
    ("bigint", [("NULL", "null"), ("-7", "-7"), ("0", "0")]),
    ("numeric", [("NULL", "null"), ("1.50", '"1.50"'), ("'NaN'", '"NaN"')]),
    ("double precision", [("NULL", "null"), ("0.1", "0.1"), ("'-Infinity'", '"-Infinity"')]),
    ("boolean", [("NULL", "null"), ("true", "true"), ("false", "false")]),
    ("text", [("NULL", "null"), ("'a\"b'", '"a\\"b"'), ("''", '""')]),
    ("timestamptz", [("NULL", "null"), (MOMENT, '"2026-01-31T00:00:00.5Z"'), (INFINITE, '"infinity"')]),
    ("timestamp", [("NULL", "null"), (MOMENT, '"2026-01-31T00:00:00.5"'), (INFINITE, '"infinity"')]),
    ("bytea", [("NULL", "null"), ("'\\x00ff10'", '"AP8Q"'), ("''", '""')]),
    ("jsonb", [("NULL", "null"), ("'null'", "null"), ("'[1.0]'", "[1.0]")]),
    ("integer[]", [("NULL", "null"), ("'{}'", "[]"), ("'{1,NULL}'", "[1,null]")]),
    ("forms.mood", [("NULL", "null"), ("'fine'", '"fine"'), ("'fine'", '"fine"')]),
]


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Source:
    """A schema of its own, with a type."""
    source = sources("postgresql")
    source.run("CREATE SCHEMA forms; CREATE TYPE forms.mood AS ENUM ('fine')")
    return source


@pytest.mark.parametrize("since", [JSON_SCALAR_SINCE, 2**31], ids=["of this version", "of any version"])
def test_every_pair_of_neighbours_in_every_state_is_exact(
    source: Source, monkeypatch: pytest.MonkeyPatch, since: int
) -> None:
    """R-000-101: each type beside each, each of them NULL, everyday or odd; by both forms that a text has."""
    monkeypatch.setattr("fetcher.engines._postgresql.values.JSON_SCALAR_SINCE", since)
    pairs = [kind for first in range(len(STATES)) for second in range(len(STATES)) for kind in (first, second)]
    states = [(even, odd) for even in range(3) for odd in range(3)]
    columns = ", ".join(f"c{at} {STATES[kind][0]}" for at, kind in enumerate(pairs))
    source.run(f"DROP TABLE IF EXISTS forms.beside; CREATE TABLE forms.beside (id int PRIMARY KEY, {columns})")
    expected = []
    for number, state in enumerate(states):
        cells = [STATES[kind][1][state[at % 2]] for at, kind in enumerate(pairs)]
        source.run(f"INSERT INTO forms.beside VALUES ({number}, {', '.join(literal for literal, _ in cells)})")
        members = [f'"id":{number}', *(f'"c{at}":{text}' for at, (_, text) in enumerate(cells))]
        expected.append("{" + ",".join(members) + "}")
    with engine("postgresql").connect(source.to, source.secret, seconds=60, application="values") as session:
        found = session.discover(["forms"]).tables["forms", "beside"]
        for key in ((), found.columns[:1]):
            (page,) = session.read(Query("beside", found.path, found.columns, key, page_bytes=2**30), None)
            assert page.body.decode() == ",".join(expected)


def test_a_server_before_json_scalar_renders_the_same(programs_of_the_system: Path) -> None:
    """R-000-101: every value above, by a real server of another version."""
    with postgresql.running(programs=programs_of_the_system) as server, server.connection() as connection:
        connection.execute(TYPES.encode())
        given = [f"({literal})::{declared} AS v{at}" for at, (declared, literal, _) in enumerate(VALUES)]
        connection.execute(f"CREATE TABLE odd.types AS SELECT {', '.join(given)}".encode())
        to = Connection("older", "postgresql", server.host, server.port, server.database, server.user)
        with engine("postgresql").connect(to, Secret(server.password), seconds=60, application="values") as session:
            found = session.discover(["odd"]).tables["odd", "types"]
            (page,) = session.read(Query("types", found.path, found.columns), None)
    members = (f'"v{at}":{text}' for at, (_, _, text) in enumerate(VALUES))
    assert page.body.decode() == "{" + ",".join(members) + "}"


@pytest.fixture
def programs_of_the_system() -> Path:
    try:
        return postgresql.system_programs()
    except StackError as missing:
        pytest.skip(str(missing))


def test_a_view_works_out_a_column_once_a_row(source: Source) -> None:
    """The planner would put a view's expression in the place of each mention of its column."""
    source.run(
        "CREATE FUNCTION forms.worked(i int) RETURNS numeric STABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END';"
        " CREATE VIEW forms.working AS SELECT i AS id, forms.worked(i) AS n FROM generate_series(1, 50) i"
    )
    to = source.to
    source.run(f"ALTER DATABASE \"{to.database}\" SET track_functions = 'all'")
    try:
        with engine("postgresql").connect(to, source.secret, seconds=60, application="values") as session:
            found = session.discover(["forms"]).tables["forms", "working"]
            (page,) = session.read(Query("working", found.path, found.columns), None)
    finally:
        source.run(f'ALTER DATABASE "{to.database}" RESET track_functions')
    assert page.rows == 50
    counted = "SELECT pg_stat_clear_snapshot(), pg_stat_get_function_calls('forms.worked'::regproc)"
    until = time.monotonic() + 30
    while not (calls := source.run(counted)[0][1]) and time.monotonic() < until:
        time.sleep(0.02)
    assert calls == 50
