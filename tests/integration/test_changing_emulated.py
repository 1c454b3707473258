"""Tables that change while they are read, of the kinds that have no server of their own here.

SQL Server goes through the whole service, by Microsoft's driver, with DuckDB behind its protocol: a transaction there
is a snapshot like SQL Server's, and outside of one each statement is of its own moment, like read committed with row
versions. What stays untested is read committed with locks, where rows of one statement may be of several moments.
Oracle's fake lives in this process, so the embedded engine reads it, and a resume is two sessions; a read-only
transaction of Oracle is a transaction of DuckDB.
"""

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from fetcher import extract
from fetcher.core.manifest import SNAPSHOTS
from fetcher.engines import engine
from fetcher.engines._sqlserver.address import connection_string
from fetcher.engines._sqlserver.driver import SETTINGS, driver
from fetcher.model import Page, Position
from tests.changing import (
    BEHIND,
    COUNTED,
    FIELDS,
    LAST,
    LATE,
    ROWS,
    TABLE,
    WIDTH,
    Commit,
    Writer,
    changes,
    datasource,
    is_one_moment,
    owed,
    slowly,
    stopped,
    tables_of,
)
from tests.contract.conftest import Reader
from tests.contract.kinds import Source, oracle, sqlserver
from tests.databases import register_sqlserver
from tests.faultproxy import faulty
from tests.integration.test_crashes import finished
from tests.rig import QUICK, Rig, rig
from tests.stack import Stack

FILLED = (
    f"DROP TABLE IF EXISTS {TABLE}",
    f"CREATE TABLE {TABLE} (id bigint NOT NULL PRIMARY KEY, version int NOT NULL, note varchar(500) NOT NULL)",
)
SERIES = {
    "sqlserver": f"INSERT INTO {TABLE} SELECT value, 0, REPLICATE('x', {WIDTH}) FROM GENERATE_SERIES(1, {ROWS})",
    "oracle": f"INSERT INTO {TABLE} SELECT i, 0, repeat('x', {WIDTH}) FROM range(1, {ROWS + 1}) r(i)",
}
ISOLATIONS = {"ON": "snapshot", "OFF": "read committed"}
"""What the session's isolation is when the database allows snapshots, or does not."""


def fill(source: Source) -> None:
    for statement in (*FILLED, SERIES[source.to.kind]):
        source.run(statement)


# --- SQL Server


@pytest.fixture(scope="module")
def sql_server() -> Iterator[Source]:
    with sqlserver.serving() as source:
        yield source


@pytest.fixture(scope="module")
def service(stack: Stack, sql_server: Source, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(stack, tmp_path_factory.mktemp("changing"), **QUICK, **{SETTINGS: os.environ[SETTINGS]}) as made:
        register_sqlserver(made, "my_sqlserver", sql_server)
        yield made


def commits(source: Source) -> Callable[[], AbstractContextManager[Commit]]:
    """Open a connection of a writer's own."""

    @contextmanager
    def opened() -> Iterator[Commit]:
        with session(source) as run:
            yield lambda statements: run("BEGIN TRANSACTION", *statements, "COMMIT")

    return opened


@contextmanager
def late(source: Source) -> Iterator[Callable[[], None]]:
    """Rows that were written before the read, and are committed by the caller."""
    with session(source) as run:
        run("BEGIN TRANSACTION", *LATE)
        yield lambda: run("COMMIT")


@contextmanager
def session(source: Source) -> Iterator[Callable[..., None]]:
    """A connection beside the source's own, that runs statements to the end."""
    text = connection_string(source.to, source.secret, "writer")
    with closing(driver().connect(text, autocommit=True, timeout=10)) as connection:

        def run(*statements: str) -> None:
            cursor = connection.execute("; ".join(statements))
            while cursor.nextset():
                pass

        yield run


@pytest.mark.stack
@pytest.mark.parametrize("allowed", ISOLATIONS)
def test_tables_of_sql_server_are_of_one_moment_where_the_database_has_snapshots(
    service: Rig, sql_server: Source, allowed: str
) -> None:
    """R-002-1, R-002-87: after exactly so many commits of a writer that never pauses, over both tables; without
    snapshots the second one is of a later moment, and the manifest claims no more. Nothing of a transaction that was
    open when the read began and committed during it.
    """
    sql_server.run(f"ALTER DATABASE {sql_server.to.database} SET ALLOW_SNAPSHOT_ISOLATION {allowed}")
    fill(sql_server)
    for statement in COUNTED:
        sql_server.run(statement)
    name = f"changing_{allowed.lower()}"
    with (
        faulty(sql_server.to.host, sql_server.to.port) as proxy,
        Writer(commits(sql_server)) as writer,
        late(sql_server) as commit,
    ):
        register_sqlserver(service, name, sql_server, proxy.port)
        job_id = service.posted({name: {TABLE: FIELDS, LAST: ["version"]}}, f"snapshot {name}")
        with slowly(service, job_id, proxy):
            commit()
            writer.goes_on()
    assert sql_server.run(f"SELECT count(*) FROM {TABLE} WHERE note = 'late'")[0][0] == len(LATE)
    rows, last = tables_of(service.result(service.job(job_id)))
    if allowed == "OFF":
        (commit_of_first,) = (row["version"] for row in rows if row["id"] == 0)
        assert last[0]["version"] > commit_of_first
        last = [{"version": commit_of_first}]
    is_one_moment(writer, rows, last)
    assert datasource(service, job_id)["isolation"] == ISOLATIONS[allowed]
    claims = service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()
    where = "proven" if allowed == "ON" else "notProven"
    assert "one_snapshot" in [claim["code"] for claim in claims[where]]
    sql_server.run(f"ALTER DATABASE {sql_server.to.database} SET ALLOW_SNAPSHOT_ISOLATION ON")


@pytest.mark.stack
def test_a_resumed_read_of_sql_server_has_each_row_behind_its_position_once(service: Rig, sql_server: Source) -> None:
    """R-002-2, R-002-3, R-002-19: rows before the position as the first snapshot saw them, the others as the second,
    those of a transaction that was open meanwhile too.
    """
    fill(sql_server)
    with late(sql_server) as commit:
        job_id = service.posted({"my_sqlserver": {TABLE: FIELDS}}, "resumed my_sqlserver")
        key, _ = stopped(service, job_id)
        commit()
    assert 10 < int(key) < ROWS - 10
    for statement in changes(int(key)):
        sql_server.run(statement)
    (rows,) = tables_of(finished(service, job_id))
    assert [(row["id"], row["version"]) for row in rows] == [*owed(int(key)), (BEHIND, 1)]
    assert datasource(service, job_id)["snapshots"] == 2


# --- Oracle


@pytest.fixture(scope="module")
def fake() -> Iterator[Source]:
    if oracle.DSN:
        pytest.skip("oracle: makes its tables in the fake")
    with oracle.serving() as source:
        yield source


class Sink(io.BytesIO):
    """Takes a result, and holds it up in the middle until the writer has gone on."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def write(self, data: object) -> int:
        """Take a chunk of 8 MiB, and the last one."""
        self._writer.goes_on(3)
        return super().write(data)  # type: ignore[arg-type] # as the base has it


def test_tables_of_oracle_are_of_one_moment(fake: Source) -> None:
    """R-002-1, R-002-87: after exactly so many commits of a writer that never pauses, over both tables."""

    @contextmanager
    def opened() -> Iterator[Commit]:
        def commit(statements: Sequence[str]) -> None:
            fake.run("; ".join(["BEGIN TRANSACTION", *statements, "COMMIT"]))

        yield commit

    fill(fake)
    for statement in COUNTED:
        fake.run(statement)
    request = {
        "dataRequest": {"mappedFields": {"db": {TABLE: FIELDS, LAST: ["version"]}}},
        "metadata": {"source": "payments"},
    }
    with Writer(opened) as writer:
        sink = Sink(writer)
        done = extract(request, {"db": (fake.to, fake.secret)}, sink)
        writer.goes_on()
    is_one_moment(writer, *tables_of(sink.getvalue()))
    assert done.datasources[0].isolation in SNAPSHOTS


def test_a_resumed_read_of_oracle_has_each_row_behind_its_position_once(fake: Source) -> None:
    """R-002-2, R-002-3, R-002-19: two sessions; the first is left half-way, the second goes on from its position."""
    fill(fake)
    pages: list[Page] = []

    def read(after: Position | None, rows: int) -> Position | None:
        with engine("oracle").connect(fake.to, fake.secret, seconds=60, application="resumed") as session:
            for page in session.read(Reader(session, fake).plan(TABLE, FIELDS), after):
                pages.append(page)
                if sum(page.rows for page in pages) >= rows:
                    break
        return pages[-1].position

    position = read(None, ROWS // 2)
    assert position is not None
    at = int(position.values[0][1])
    assert at == sum(page.rows for page in pages)
    for statement in changes(at):
        fake.run(statement)
    read(position, 2 * ROWS)
    rows = json.loads(b"[%b]" % b",".join(page.body for page in pages))
    assert [(int(row["id"]), int(row["version"])) for row in rows] == owed(at)
