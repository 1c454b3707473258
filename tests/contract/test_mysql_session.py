"""What a session with MySQL may do, and what of a server's own settings it does not follow."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from fetcher.core.manifest import SNAPSHOTS
from fetcher.engines import engine
from fetcher.engines._mysql.opening import thread
from fetcher.errors import InvalidRequestError, RefusedError, TimedOutError, UnavailableError
from fetcher.model import Connection, Secret
from fetcher.ports import Session
from infra.local import mariadb
from infra.local.places import StackError
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, Source
from tests.faultproxy import faulty

PRINTABLE = "".join(map(chr, range(32, 127))) + "äß€🎉"


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Source:
    return sources("mysql")


@pytest.fixture
def session(source: Source) -> Iterator[Session]:
    with engine("mysql").connect(source.to, source.secret, seconds=30, application="session") as opened:
        yield opened


def test_a_table_that_changes_something_when_it_is_read_is_invalid(reader: Reader, source: Source) -> None:
    """R-002-88."""
    source.run("CREATE OR REPLACE SEQUENCE counted; CREATE OR REPLACE VIEW counting AS SELECT NEXTVAL(counted) AS id")
    with pytest.raises(InvalidRequestError, match="changes"):
        reader.ids("counting")
    assert source.run("SELECT NEXTVAL(counted)")[0][0] == 1


def test_the_connected_database_is_the_only_namespace(session: Session) -> None:
    """R-000-30: no schema list is sent; what is asked for makes no difference."""
    assert session.discover(("other", "mysql", "no such schema")) == session.discover(())


@pytest.mark.parametrize(
    ("of", "isolation"),
    [("InnoDB", "repeatable read"), ("MyISAM", "not transactional"), ("Aria", "not transactional")],
)
def test_a_table_without_transactions_has_no_part_in_a_snapshot(
    reader: Reader, source: Source, of: str, isolation: str
) -> None:
    """R-002-87: what is committed to it after the session's first read is read too, and the session says so."""
    source.run(f"CREATE OR REPLACE TABLE engined (id int PRIMARY KEY) ENGINE = {of}")
    query = reader.plan("engined")
    assert reader.ids("events", ("id", "eq", (1,))) == [1]
    assert reader.session.isolation == "repeatable read"
    source.run("INSERT INTO engined VALUES (7)")
    assert sum(page.rows for page in reader.pages(query)) == (0 if of == "InnoDB" else 1)
    assert reader.session.isolation == isolation
    assert (isolation in SNAPSHOTS) == (of == "InnoDB")


def test_a_nul_in_a_value_is_a_character_like_any_other(reader: Reader, source: Source) -> None:
    """MySQL keeps it in text, so a filter finds it; the documented difference to PostgreSQL."""
    source.run("CREATE OR REPLACE TABLE with_nul (id int PRIMARY KEY, note varchar(9) CHARACTER SET utf8mb4)")
    source.run("INSERT INTO with_nul VALUES (1, 'ab'), (2, CONCAT('a', CHAR(0), 'b'))")
    assert reader.ids("with_nul", ("note", "eq", ("a\0b",))) == [2]


def test_a_view_that_cannot_run_is_invalid_and_hides_no_other(reader: Reader, source: Source) -> None:
    source.run("CREATE OR REPLACE TABLE gone (id int); CREATE OR REPLACE VIEW bereft AS SELECT id FROM gone")
    query = reader.plan("bereft")
    source.run("DROP TABLE gone")
    with pytest.raises(InvalidRequestError):
        reader.pages(query)


def test_a_name_that_is_no_utf_8_hides_no_other(reader: Reader, source: Source) -> None:
    """R-000-30: MariaDB takes half of a surrogate pair for a character, in names and words of an enum too."""
    half = b"\xed\xa0\xbc"
    sql = b"CREATE OR REPLACE TABLE half (`%b` int, e enum('%b'))" % (half, half)
    source.run(f"EXECUTE IMMEDIATE CONVERT(X'{sql.hex()}' USING utf8mb3)")
    tables = reader.session.discover(()).tables
    assert [column.name for column in tables["half",].columns] == [r"\xed\xa0\xbc", "e"]
    assert reader.ids("events", ("id", "eq", (1,))) == [1]
    source.run("DROP TABLE half")


def test_a_servers_limit_on_rows_cuts_no_table(source: Source) -> None:
    """`sql_select_limit` of the server would end every read early, without a word."""
    source.run("SET GLOBAL sql_select_limit = 3, GLOBAL time_zone = '-11:00', GLOBAL sql_mode = 'ORACLE'")
    try:
        with engine("mysql").connect(source.to, source.secret, seconds=30, application="limits") as session:
            rows = Reader(session, source).rows("events")
    finally:
        source.run("SET GLOBAL sql_select_limit = DEFAULT, GLOBAL time_zone = 'SYSTEM', GLOBAL sql_mode = DEFAULT")
    assert len(rows) == EVENTS
    assert rows[0]["moment"] == "2026-01-01T00:01:30Z"


def test_a_moment_of_the_server_hides_no_row_of_today(source: Source) -> None:
    """MariaDB's `system_versioning_asof` shows tables with a history as they were then, without a word."""
    source.run("CREATE TABLE kept (id int PRIMARY KEY) WITH SYSTEM VERSIONING; INSERT INTO kept VALUES (1), (2)")
    source.run("SET GLOBAL system_versioning_asof = '2000-01-01 00:00:00'")
    try:
        with engine("mysql").connect(source.to, source.secret, seconds=30, application="asof") as session:
            assert Reader(session, source).ids("kept") == [1, 2]
    finally:
        source.run("SET GLOBAL system_versioning_asof = DEFAULT; DROP TABLE kept")


def test_user_password_and_database_may_hold_any_printable_character(source: Source) -> None:
    """B-35: parts are never put into a URL, and text is sent as UTF-8."""
    name, database = "us'er%\"@ä", "da`ta'%base ä"
    quoted, secret = name.replace("'", "''"), PRINTABLE.replace("'", "''")
    source.run("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
    source.run(f"CREATE DATABASE `{database.replace('`', '``')}`; CREATE USER '{quoted}'@'%' IDENTIFIED BY '{secret}'")
    source.run(f"GRANT SELECT ON *.* TO '{quoted}'@'%'")
    to = replace(source.to, user=name, database=database)
    with engine("mysql").connect(to, Secret(PRINTABLE), seconds=30, application="printable 🎉") as session:
        assert session.discover(()).tables == {}


def test_databases_that_differ_in_case_are_two(source: Source) -> None:
    """The catalog compares without case."""
    source.run("CREATE DATABASE shop; CREATE TABLE shop.a (id int); CREATE DATABASE Shop; CREATE TABLE Shop.A (id int)")
    for database, table in (("shop", "a"), ("Shop", "A")):
        to = replace(source.to, database=database)
        with engine("mysql").connect(to, source.secret, seconds=30, application="case") as session:
            assert set(session.discover(()).tables) == {(table,)}


def test_tables_that_differ_in_case_are_two(reader: Reader, source: Source) -> None:
    source.run("CREATE TABLE twin (id int PRIMARY KEY, a int); CREATE TABLE Twin (b int, id int PRIMARY KEY)")
    tables = reader.session.discover(()).tables
    assert [column.name for column in tables["twin",].columns] == ["id", "a"]
    assert [column.name for column in tables["Twin",].columns] == ["b", "id"]


def test_discovery_is_a_constant_number_of_queries(source: Source, session: Session) -> None:
    """B-20: however many tables there are."""

    def asked() -> int:
        sql = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_SELECT'"
        return int(source.run(sql)[0][0])

    before = asked()
    assert len(session.discover(()).tables) > 20
    assert asked() - before - 1 == 5


def opened(source: Source, user: str) -> AbstractContextManager[Session]:
    to = replace(source.to, user=user)
    return engine("mysql").connect(to, Secret("x"), seconds=10, application="logins")


def test_a_locked_account_is_refused(source: Source) -> None:
    source.run("CREATE OR REPLACE USER locked IDENTIFIED BY 'x' ACCOUNT LOCK; GRANT SELECT ON *.* TO locked")
    with pytest.raises(RefusedError), opened(source, "locked"):
        pass


def test_one_connection_too_many_may_be_tried_again(source: Source) -> None:
    source.run("CREATE OR REPLACE USER limited IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1")
    source.run("GRANT SELECT ON *.* TO limited")
    with opened(source, "limited"), pytest.raises(UnavailableError), opened(source, "limited"):
        pass


def test_a_locked_table_is_waited_for_until_the_time_is_over(source: Source, reader: Reader) -> None:
    """Discovery does not need the lock, and the read is ended at the server as well."""
    source.run("CREATE OR REPLACE TABLE held (id int PRIMARY KEY)")
    query = reader.plan("held")
    source.run("LOCK TABLES held WRITE")
    try:
        with (
            engine("mysql").connect(source.to, source.secret, seconds=2, application="held") as session,
            pytest.raises(TimedOutError),
        ):
            list(session.read(query, None))
    finally:
        source.run("UNLOCK TABLES")
    until = time.monotonic() + 2
    while source.active("held"):
        assert time.monotonic() < until, "still active at the server"


def test_a_cancel_ends_nobody_elses_thread() -> None:
    """Numbers count from a server's start: behind the same address, after it, ours was somebody else's, and killed."""
    try:
        with mariadb.running() as server, faulty(server.host, server.port) as proxy:
            _numbered(server, 50).close()
            to = Connection("source", "mysql", proxy.target[0], proxy.port, server.database, server.user)
            with engine("mysql").connect(to, Secret(server.password), seconds=60, application="moved") as session:
                with closing(server.connection()) as next_one:
                    ours = thread(next_one) - 1
                mariadb.stop(server.folder)
                again = mariadb.start(server.folder)
                proxy.target = (again.host, again.port)
                with closing(_numbered(again, ours)) as victim:
                    session.cancel()
                    victim.ping(reconnect=False)
    except StackError as missing:
        pytest.skip(f"mysql: {missing}")


def _numbered(server: mariadb.Server, number: int) -> "pymysql.Connection[Any]":
    """Open connections until one has this number."""
    while True:
        connection = server.connection()
        if thread(connection) == number:
            return connection
        assert thread(connection) < number, "the server has counted further already"
        connection.close()
