"""What is PostgreSQL's own in a session: what names a table, and that row-level security never narrows a read."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from fetcher.engines.postgresql import PostgreSQLSession, connect
from fetcher.errors import InvalidRequestError, RefusedError, UnavailableError
from fetcher.model import Connection, Page, Query, Secret
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, Source
from tests.rig import until

TABLES = """
CREATE TABLE ledger (id int PRIMARY KEY, tenant text NOT NULL);
INSERT INTO ledger SELECT i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 10) i;
ALTER TABLE ledger ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ledger USING (tenant = 'a');
CREATE ROLE narrowed LOGIN PASSWORD 'x';
CREATE ROLE whole LOGIN PASSWORD 'x' BYPASSRLS;
GRANT SELECT ON ledger TO narrowed, whole;
CREATE VIEW ledger_seen AS SELECT id FROM ledger;
CREATE FUNCTION ledger_own() RETURNS SETOF ledger LANGUAGE sql STABLE SET row_security = on
 AS 'SELECT * FROM public.ledger';
CREATE VIEW ledger_left AS SELECT id FROM ledger_own();
GRANT SELECT ON ledger_seen, ledger_left TO narrowed;
"""


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Iterator[Source]:
    served = sources("postgresql")
    served.run(TABLES)
    yield served
    served.run("DROP FUNCTION ledger_own CASCADE; DROP TABLE ledger CASCADE; DROP ROLE narrowed; DROP ROLE whole")


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


def test_a_view_that_asks_as_its_user_is_refused_like_its_table(source: Source) -> None:
    """R-002-1: a view with `security_invoker`."""
    if int(source.run("SHOW server_version_num")[0][0]) < 150_000:
        pytest.skip("postgresql: there are such views since version 15")
    source.run("CREATE VIEW ledger_asked WITH (security_invoker) AS SELECT id FROM ledger")
    source.run("GRANT SELECT ON ledger_asked TO narrowed")
    to = replace(source.to, user="narrowed")
    with (
        connect(to, Secret("x"), seconds=20, application="rls") as session,
        pytest.raises(RefusedError, match="row-level security"),
    ):
        read(session, "ledger_asked")


def test_a_function_that_sets_row_security_for_itself_is_beyond_ours(source: Source) -> None:
    """What `docs/security.md` names as not protected: its own setting wins, and the view shows what is left."""
    with connect(replace(source.to, user="narrowed"), Secret("x"), seconds=20, application="rls") as session:
        assert read(session, "ledger_left") == 5


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


SETTLED = r"""
CREATE TABLE settled (id int PRIMARY KEY, price money, prices money[], tags text[], boxes box[], numbers oid[],
                      named name, at timestamp, moment timestamptz, days timestamp[], span interval, born date,
                      share float8, bytes bytea, blobs bytea[], bits bit(3), letter "char");
INSERT INTO settled VALUES (1, 12.5, '{1.5,NULL}', '{a,NULL,"NULL"}', '{(1,1),(0,0);(2,2),(1,1)}', '{1,2}', 'abc',
  '0044-03-15 12:00 BC', '10000-01-02 03:04:05.678-05', '{2026-01-02,NULL,infinity}', '1 year -3 days 04:05:06.7',
  '0001-12-31 BC', 0.1::float8 + 0.2, '\xdeadbeef', '{"\\xdead",NULL}', '101', 'x');
CREATE TABLE searched (id int PRIMARY KEY, tags int[]);
INSERT INTO searched SELECT i, '{1}' FROM generate_series(1, 3000) i;
CREATE INDEX ON searched USING gin (tags);
"""
OTHERWISE = {
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "iso_8601",
    "timezone": "'America/St_Johns'",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "gin_fuzzy_search_limit": "5",
    "enable_seqscan": "off",
    "default_transaction_isolation": "serializable",
}
"""What a role or a database may have set, each away from its default; without scans, a search goes by its index."""


def test_no_setting_of_a_role_changes_a_value_or_loses_a_row(source: Source) -> None:
    """`design.md` §7.2: prices came in the locale's text, arrays fell apart, and a GIN index found 5 rows of 3,000."""

    def rows() -> tuple[list[dict[str, Any]], int]:
        with connect(source.to, source.secret, seconds=20, application="settings") as session:
            reader = Reader(session, source)
            return reader.rows("settled"), len(reader.ids("searched", ("tags", "eq", ("{1}",))))

    source.run(SETTLED)
    before = rows()
    assert before[1] == 3000
    for name, value in OTHERWISE.items():
        source.run(f"ALTER ROLE {source.to.user} SET {name} = {value}")
    try:
        assert rows() == before
    finally:
        source.run(f"ALTER ROLE {source.to.user} RESET ALL; DROP TABLE settled, searched")


def test_a_scan_begins_at_the_beginning_whoever_else_scans(source: Source) -> None:
    """R-000-101: without a key the server's order is all there is, and it should not depend on who else reads."""
    [(blocks,)] = source.run("SELECT setting::int / 4 FROM pg_settings WHERE name = 'shared_buffers'")
    source.run("CREATE UNLOGGED TABLE scanned (n int, filler text); ALTER TABLE scanned ALTER filler SET STORAGE PLAIN")
    source.run(f"INSERT INTO scanned SELECT n, repeat('x', 8000) FROM generate_series(1, {blocks + 1000}) n")
    try:
        with _other(source) as other, connect(source.to, source.secret, seconds=60, application="scan") as session:
            other.execute("BEGIN; DECLARE halfway CURSOR FOR SELECT n FROM scanned")
            other.execute(f"MOVE {blocks // 2} FROM halfway".encode())
            table = session.discover(("public",)).tables["public", "scanned"]
            first = next(session.read(Query("scanned", table.path, table.columns[:1], page_bytes=1), None))
            assert first.body == b'{"n":1}'
    finally:
        source.run("DROP TABLE scanned")


def test_an_array_that_is_not_parted_by_commas_is_its_text(source: Source) -> None:
    """`design.md` §7.2: of PostGIS' geometry, parted by colons, all elements became one text in a list."""
    source.run("""
CREATE TYPE spot; CREATE DOMAIN area AS box;
CREATE FUNCTION spot_in(cstring) RETURNS spot IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION spot_out(spot) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
CREATE TYPE spot (INPUT = spot_in, OUTPUT = spot_out, INTERNALLENGTH = 4, PASSEDBYVALUE, ALIGNMENT = int4,
                  DELIMITER = ':');
CREATE TABLE parted (id int PRIMARY KEY, spots spot[], areas area[], boxes box[]);
INSERT INTO parted VALUES (1, '{1:2:NULL}', '{(1,1),(0,0);(2,2),(1,1)}', '{(1,1),(0,0);NULL}'), (2, NULL, NULL, NULL)
""")
    try:
        with connect(source.to, source.secret, seconds=20, application="parted") as session:
            first, second = Reader(session, source).rows("parted")
    finally:
        source.run("DROP TABLE parted; DROP DOMAIN area; DROP TYPE spot CASCADE")
    assert (first["spots"], first["areas"]) == ("{1:2:NULL}", "{(1,1),(0,0);(2,2),(1,1)}")
    assert first["boxes"] == ["(1,1),(0,0)", None]
    assert set(second.values()) == {2, None}


GRANTED = """
CREATE TABLE granted (id int PRIMARY KEY, amount int, secret text);
INSERT INTO granted SELECT i, i, 'x' FROM generate_series(1, 10) i;
CREATE MATERIALIZED VIEW summed AS SELECT 1 AS id, 2 AS amount;
CREATE TABLE parted (id int, amount int, secret text) PARTITION BY LIST (id);
CREATE TABLE parted_one PARTITION OF parted FOR VALUES IN (1); INSERT INTO parted VALUES (1, 1, 'x');
CREATE TABLE behind AS SELECT * FROM parted; CREATE VIEW seen AS SELECT * FROM behind;
CREATE ROLE partly LOGIN PASSWORD 'x';
GRANT SELECT (id, amount) ON granted, parted, seen TO partly; GRANT SELECT ON summed TO partly;
"""


@pytest.fixture
def partly(source: Source) -> Iterator[Connection]:
    """A user who may read some columns of tables and of a view, and a view with contents of its own."""
    source.run(GRANTED)
    yield replace(source.to, user="partly")
    source.run("DROP MATERIALIZED VIEW summed; DROP TABLE granted, parted, behind CASCADE; DROP ROLE partly")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("granted", "TRUNCATE granted"),
        ("granted", "ALTER TABLE granted ALTER amount TYPE text"),
        ("summed", "REFRESH MATERIALIZED VIEW summed"),
    ],
)
def test_what_cannot_be_locked_by_name_waits_for_the_read_all_the_same(
    source: Source, partly: Connection, name: str, change: str
) -> None:
    """R-002-1: a table that is emptied or rewritten behind a snapshot is found empty, and no error tells of it."""
    with ThreadPoolExecutor(1) as threads:
        with connect(partly, Secret("x"), seconds=60, application="partly") as session:
            table = session.discover(("public",)).tables["public", name]
            session.hold([table.path])
            columns = session.discover(("public",)).tables["public", name].columns[:2]
            changing = threads.submit(_changed, source, change)
            until(lambda: source.run(f"{WAITING} AND query LIKE '{change}%'")[0][0] or changing.done(), "the change")
            pages = list(session.read(Query(name, table.path, columns), None))
            assert not changing.done()
        changing.result(60)
    assert sum(page.rows for page in pages) == (10 if name == "granted" else 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("granted", "TRUNCATE granted"),
        ("parted", "TRUNCATE parted_one"),
        ("seen", "TRUNCATE behind"),
        ("granted", "DROP TABLE granted; CREATE TABLE granted (id int); GRANT SELECT (id) ON granted TO partly"),
    ],
    ids=["a table", "a partition", "what a view reads", "another of its name"],
)
def test_what_was_emptied_between_snapshot_and_lock_is_tried_again(
    source: Source, partly: Connection, name: str, change: str
) -> None:
    """R-002-1: the moment in which nothing holds the table, or what is behind it, is looked at afterwards."""
    with connect(partly, Secret("x"), seconds=60, application="partly") as session:
        session.discover(("public",))  # fixes a snapshot, as the first of two tables would
        source.run(change)
        with pytest.raises(UnavailableError, match="emptied or replaced"):
            session._hold_by_query(("public", name))
        if "DROP" not in change:
            session.hold([("public", name)])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("granted", "TRUNCATE granted"),
        ("parted", "TRUNCATE parted_one"),
        ("seen", "TRUNCATE behind"),
        ("summed", "REFRESH MATERIALIZED VIEW summed"),
    ],
)
def test_a_lock_that_is_not_had_in_time_is_no_lock(source: Source, partly: Connection, name: str, change: str) -> None:
    """R-002-1: the snapshot is from before the wait, and a table that is emptied meanwhile is found empty in it."""
    source.run("ALTER ROLE partly SET lock_timeout = '300ms'")
    with connect(partly, Secret("x"), seconds=60, application="partly") as session:
        path = session.discover(("public",)).tables["public", name].path
        with _changing(source, change), pytest.raises(UnavailableError, match="55P03"):
            session.hold([path])


@contextmanager
def _changing(source: Source, change: str) -> Iterator[None]:
    """Be in the middle of a transaction that changes something, and commit it at the end."""
    with _other(source) as connection:
        connection.execute(f"BEGIN; {change}".encode())
        yield
        connection.execute("COMMIT")


def test_what_was_not_there_to_be_held_is_not_read(source: Source, partly: Connection) -> None:
    """R-002-1: made between hold and read, its rows are behind the snapshot: it would be found empty."""
    with connect(partly, Secret("x"), seconds=60, application="partly") as session:
        table = session.discover(("public",)).tables["public", "granted"]
        with _other(source) as connection:
            connection.execute("DROP TABLE granted")
        session.hold([table.path, ("public", "summed")])
        query = Query("granted", table.path, table.columns[:2])
        with pytest.raises(InvalidRequestError, match="42P01"):
            list(session.read(query, None))
    with connect(partly, Secret("x"), seconds=60, application="partly") as session:
        session.hold([table.path, ("public", "summed")])
        with _other(source) as connection:
            connection.execute(GRANTED.partition("CREATE MATERIALIZED")[0].encode())
            connection.execute("GRANT SELECT (id, amount) ON granted TO partly")
        with pytest.raises(UnavailableError, match="emptied or replaced"):
            list(session.read(query, None))


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def _changed(source: Source, change: str) -> None:
    """Change a table over a connection of this thread's own."""
    with _other(source) as connection:
        connection.execute(change.encode())


@contextmanager
def _other(source: Source) -> Iterator[psycopg.Connection]:
    at, password = source.to, source.secret.password
    with psycopg.connect(
        host=at.host, port=at.port, user=at.user, password=password, dbname=at.database, autocommit=True
    ) as connection:
        yield connection
