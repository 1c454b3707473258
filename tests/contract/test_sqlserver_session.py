"""What is SQL Server's own in a session: TLS by its modes, isolation, schemas, large rows, and Microsoft's driver."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal

import pytest

from fetcher.engines._sqlserver.opening import Way
from fetcher.engines.sqlserver import NAMING, connect
from fetcher.errors import CanceledError, RefusedError, UnavailableError
from tests.contract.conftest import Reader
from tests.contract.kinds import Source
from tests.rig import until


@pytest.fixture(scope="module")
def source(sources: Callable[[str], Source]) -> Source:
    return sources("sqlserver")


@pytest.fixture
def reader(source: Source) -> Iterator[Reader]:
    with connect(source.to, source.secret, seconds=60, application="session") as session:
        yield Reader(session, source)


def test_the_isolation_is_the_one_that_the_database_allows(reader: Reader) -> None:
    """R-002-87: `snapshot` is only said when one moment is seen."""
    assert reader.session.isolation == "snapshot"


def test_default_and_other_schemas_mix_in_one_request(reader: Reader, source: Source) -> None:
    """R-000-25..29; B-18, B-41: same-named tables of two schemas keep their own columns."""
    scope = NAMING.scope(["events", "other.events"], source.to)
    assert scope == ("dbo", "other")
    tables = reader.session.discover(scope).tables
    assert len(tables["dbo", "events"].columns) == 7
    assert [column.name for column in tables["other", "events"].columns] == ["id", "region"]


def test_the_connections_schema_is_the_default_one(source: Source) -> None:
    """B-63."""
    to = replace(source.to, schema="other")
    with connect(to, source.secret, seconds=20, application="schema") as session:
        assert set(session.discover(()).tables) == {("other", "events")}
        assert NAMING.resolve("events", session.discover(()), to) == ("other", "events")


@pytest.mark.parametrize("database", ["no such database", "x' user=postgres", "%s"])
def test_an_unknown_database_may_be_tried_again(source: Source, database: str) -> None:
    """Microsoft lists 4060 first among the errors that pass; of a name that is wrong the server says the same."""
    to = replace(source.to, database=database)
    with (
        pytest.raises(UnavailableError, match=r"no such database.*\(4060\)"),
        connect(to, source.secret, seconds=20, application="unknown"),
    ):
        pass


def test_what_asks_beside_a_read_is_canceled_with_it(source: Source) -> None:
    """R-000-70: a second connection is made while rows come, and it must not outlive the first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        ThreadPoolExecutor(1) as threads,
        connect(source.to, source.secret, seconds=60, application="beside") as session,
    ):
        reader = Reader(session, source)
        pages = session.read(reader.plan("million"), None)
        next(pages)
        assert ("other", "events") in session.discover(("other",)).tables
        session._way = Way.to(replace(source.to, port=silent.getsockname()[1]), source.secret, "beside")
        asking = threads.submit(session.discover, ())
        until(lambda: session._beside is not None and session._beside._socket is not None, "a socket to end")
        session.cancel()
        with pytest.raises(CanceledError):
            asking.result(60)
        with pytest.raises(CanceledError):
            list(pages)


def test_a_certificate_that_nobody_vouches_for_is_refused(source: Source) -> None:
    """R-000-100; B-33: `true` verifies."""
    with (
        pytest.raises(RefusedError),
        connect(replace(source.to, tls_mode="true"), source.secret, seconds=20, application="tls"),
    ):
        pass


def test_several_sessions_open_at_once_each_with_its_own_socket(source: Source) -> None:
    """The driver hides its sockets: one session's cancel must not end another's."""
    ready, failures = threading.Barrier(4), []

    def open_and_cancel(cancels: bool) -> None:
        with connect(source.to, source.secret, seconds=30, application="several") as session:
            ready.wait(20)
            if cancels:
                session.cancel()
            ready.wait(20)
            if not cancels and not session.discover(()).tables:
                failures.append("nothing")

    threads = [threading.Thread(target=open_and_cancel, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("text", ["ä🎉\u2028", '"\\/\b\f\n\r\t\x01\x1f', "a" * 5000, "{}[]%_;--"])
def test_text_comes_out_as_it_is(reader: Reader, source: Source, text: str) -> None:
    """nvarchar(max), with every character, also beyond 4,000 of them."""
    source.run("DROP TABLE IF EXISTS texts")
    source.run("CREATE TABLE texts (id int NOT NULL PRIMARY KEY, body nvarchar(max))")
    source.run("INSERT INTO texts VALUES (1, ?)", text)  # type: ignore[call-arg]
    assert reader.rows("texts") == [{"id": 1, "body": text}]
    assert reader.ids("texts", ("body", "eq", (text,))) == [1]


def test_values_that_the_stand_in_has_keep_every_digit(reader: Reader, source: Source) -> None:
    """Design §7.2; what DuckDB cannot hold is asserted on the SQL in tests/unit/test_sqlserver.py."""
    source.run("DROP TABLE IF EXISTS vals")
    source.run(
        "CREATE TABLE vals (id int NOT NULL PRIMARY KEY, d decimal(38,10), m money, f float, r real, b bit,"
        " u uniqueidentifier, dt datetime2(7), dz datetimeoffset(7), t time(7), da date, v varbinary(max))"
    )
    source.run(
        "INSERT INTO vals VALUES (1, '1234567890123456789012345678.0123456789', '-0.0001', 0.1, 0.1, 1,"
        " '6F9619FF-8B86-D011-B42D-00C04FC964FF', '2026-01-31T23:59:59.123456', '2026-01-31T01:00:00+02:00',"
        " '08:30:00.5', '2026-01-31', CONVERT(varbinary(max), '00FF10', 2)),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    full, empty = reader.rows("vals")
    assert full == {
        "id": 1,
        "d": "1234567890123456789012345678.0123456789",
        "m": "-0.0001",
        "f": 0.1,
        "r": 0.1,
        "b": True,
        "u": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "dt": "2026-01-31T23:59:59.123456",
        "dz": "2026-01-30T23:00:00Z",
        "t": "08:30:00.5",
        "da": "2026-01-31",
        "v": "AP8Q",
    }
    assert {value for name, value in empty.items() if name != "id"} == {None}


def test_the_server_sends_a_value_in_its_type(source: Source) -> None:
    """What the stand-in says to the driver is what SQL Server says: the benchmark's reference reads it so."""
    source.run("DROP TABLE IF EXISTS typed")
    source.run(
        "CREATE TABLE typed (id int NOT NULL PRIMARY KEY, d decimal(38,10), n decimal(5,2), f float, r real, b bit,"
        " u uniqueidentifier, dt datetime2(7), t time(7), da date, v varbinary(max), s nvarchar(5))"
    )
    source.run(
        "INSERT INTO typed VALUES (1, '-1234567890123456789012345678.0123456789', 1.5, 0.1, 0.5, 1,"
        " '6F9619FF-8B86-D011-B42D-00C04FC964FF', '2026-01-31T23:59:59.123456', '08:30:00.5', '0001-01-01',"
        " CONVERT(varbinary(max), '00FF10', 2), N'ä🎉'),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    full, empty = source.run("SELECT * FROM typed ORDER BY id")
    assert full == (
        1,
        Decimal("-1234567890123456789012345678.0123456789"),
        Decimal("1.50"),
        0.1,
        0.5,
        True,
        "6F9619FF-8B86-D011-B42D-00C04FC964FF",
        datetime.fromisoformat("2026-01-31T23:59:59.123456"),
        time(8, 30, 0, 500000),
        date(1, 1, 1),
        b"\0\xff\x10",
        "ä🎉",
    )
    assert empty == (2, *[None] * 11)
    text = source.run("SELECT CONVERT(varbinary(max), CONCAT(N'{', s, N'}')) FROM typed ORDER BY id")
    assert [bytes(row[0]) for row in text] == ["{ä🎉}".encode("utf-16-le"), "{}".encode("utf-16-le")]
