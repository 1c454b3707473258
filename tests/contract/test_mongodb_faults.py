"""What MongoDB's errors, a slow server and TLS mean, by the stand-in's fail points and certificates."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from bson import json_util

from fetcher.engines import engine
from fetcher.errors import (
    CanceledError,
    FetcherError,
    InvalidRequestError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)
from fetcher.model import Connection, Secret
from fetcher.ports import Session
from tests.contract.conftest import Reader
from tests.contract.kinds import Source
from tests.contract.kinds.mongodb import MANY


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


def opened(served: Source, application: str, seconds: float = 30) -> AbstractContextManager[Session]:
    return engine("mongodb").connect(served.to, served.secret, seconds=seconds, application=application)


@contextmanager
def failing(served: Source, application: str, *commands: str, **failure: Any) -> Iterator[None]:
    """Let these commands of an application fail, or wait, in the way of MongoDB's own tests."""
    named = {"failCommands": list(commands), "appName": application, **failure}
    _administer(served, {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": named})
    try:
        yield
    finally:
        _administer(served, {"configureFailPoint": "failCommand", "mode": "off"})


def _administer(served: Source, command: dict[str, Any]) -> None:
    served.run(json_util.dumps({"$db": "admin", **command}))


CODES: list[tuple[int, type[FetcherError]]] = [
    (2, InvalidRequestError),
    (13, RefusedError),
    (18, RefusedError),
    (26, InvalidRequestError),
    (43, UnavailableError),  # CursorNotFound
    (50, TimedOutError),  # MaxTimeMSExpired
    (89, UnavailableError),  # NetworkTimeout
    (91, UnavailableError),  # ShutdownInProgress
    (175, UnavailableError),  # QueryPlanKilled
    (189, UnavailableError),  # PrimarySteppedDown
    (237, UnavailableError),  # CursorKilled
    (292, LimitError),
    (10107, UnavailableError),  # NotWritablePrimary
    (11600, UnavailableError),  # InterruptedAtShutdown
    (11601, UnavailableError),  # Interrupted
    (11602, UnavailableError),  # InterruptedDueToReplStateChange
    (13436, UnavailableError),  # NotPrimaryOrSecondary
    (99999, UnavailableError),
]


def read_failing(served: Source, application: str, command: str, *, seconds: float = 30, **failure: Any) -> None:
    """Read in pages so small that there is a second batch. A failure that is never met is a read that succeeds."""
    with opened(served, application, seconds) as session:
        query = Reader(session, served).plan("events", page_bytes=1000)
        with failing(served, application, command, **failure):
            rows = sum(page.rows for page in session.read(query, None))
        pytest.fail(f"{rows} rows looked like all of them")


@pytest.mark.parametrize("command", ["find", "getMore"])
@pytest.mark.parametrize(("code", "family"), CODES)
def test_an_error_of_the_server_has_its_class_and_is_never_an_end_of_data(
    served: Source, application: str, command: str, code: int, family: type[FetcherError]
) -> None:
    """B-45, R-002-83: a lost cursor, a stepped down primary, an interruption."""
    with pytest.raises(family) as caught:
        read_failing(served, application, command, errorCode=code)
    assert type(caught.value) is family
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("command", ["find", "getMore"])
def test_a_connection_that_the_server_closes_may_be_tried_again(served: Source, application: str, command: str) -> None:
    with pytest.raises(UnavailableError):
        read_failing(served, application, command, closeConnection=True)


def test_a_collection_without_the_right_to_read_it_is_refused_at_discovery(served: Source, application: str) -> None:
    with (
        pytest.raises(RefusedError),
        opened(served, application) as session,
        failing(served, application, "find", errorCode=13),
    ):
        session.discover(["events"])


def test_a_view_that_takes_too_long_to_sample_is_read_as_it_comes(served: Source, application: str) -> None:
    """Design §7.4: without a sample every field may exist."""
    with opened(served, application) as session:
        with failing(served, application, "find", errorCode=50):
            table = session.discover(["events_seen"]).tables[("events_seen",)]
        assert [column.name for column in table.columns] == ["*"]
        assert engine("mongodb").NAMING.column("note", table)  # type: ignore[attr-defined]


def test_the_deadline_ends_a_read_that_waits(served: Source, application: str) -> None:
    """Design §6: the clock bounds the statement as well."""
    began = time.monotonic()
    with pytest.raises(TimedOutError):
        read_failing(served, application, "find", seconds=1.5, blockConnection=True, blockTimeMS=4000)
    assert time.monotonic() - began < 10


def test_a_server_that_computes_in_silence_is_left_alone(
    served: Source, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection scan that finds nothing sends nothing; the server says that it works."""
    monkeypatch.setenv("FETCHER_STALL_SECONDS", "0.5")
    with opened(served, application) as session:
        reader = Reader(session, served)
        query = reader.plan("events")
        with failing(served, application, "find", blockConnection=True, blockTimeMS=3000):
            assert sum(page.rows for page in session.read(query, None)) == 500


def test_a_cancel_ends_a_read_that_waits(served: Source, application: str) -> None:
    """Fail-fast, design §6."""
    with opened(served, application) as session:
        query = Reader(session, served).plan("events")
        with failing(served, application, "find", blockConnection=True, blockTimeMS=4000):
            began = time.monotonic()
            threading.Timer(0.3, session.cancel).start()
            with pytest.raises(CanceledError):
                list(session.read(query, None))
            assert time.monotonic() - began < 3


def test_a_cancel_ends_nobody_elses_read(served: Source, application: str) -> None:
    """Connections are counted from a server's start: after it, the number of ours is somebody else's."""
    with opened(served, application) as session, opened(served, f"{application}-other") as other:
        ours: Any = session
        theirs: Any = other
        ours._other.connection = theirs._other.connection
        query = Reader(other, served).plan("events")
        with failing(served, f"{application}-other", "find", blockConnection=True, blockTimeMS=2000):
            threading.Timer(0.5, session.cancel).start()
            assert sum(page.rows for page in other.read(query, None)) == 500


def test_a_cancel_ends_a_discovery_that_waits(served: Source, application: str) -> None:
    """R-000-70."""
    with opened(served, application) as session:
        waiting = failing(served, application, "listCollections", blockConnection=True, blockTimeMS=4000)
        with waiting:
            threading.Timer(0.3, session.cancel).start()
            with pytest.raises(CanceledError):
                session.discover(())


def test_a_half_read_collection_is_forgotten_by_the_server(served: Source, application: str) -> None:
    """No cursor of ours waits there for ten minutes."""
    with opened(served, application) as session:
        pages = session.read(Reader(session, served).plan("million", page_bytes=1000), None)
        next(pages)
        next(pages)
        held = _idle(served)
        pages.close()  # type: ignore[attr-defined] # the iterator is a generator
        assert _idle(served) < held
        assert sum(page.rows for page in session.read(Reader(session, served).plan("million"), None)) == MANY


def test_a_canceled_session_leaves_no_cursor_behind(served: Source, application: str) -> None:
    with opened(served, application) as session:
        pages = session.read(Reader(session, served).plan("million", page_bytes=1000), None)
        next(pages)
        held = _idle(served)
        session.cancel()
        assert _idle(served) < held
        with pytest.raises(CanceledError):
            next(pages)


def _idle(served: Source) -> int:
    ((*answer,),) = served.run('{"$db": "admin", "currentOp": 1}')
    return sum(each["type"] == "idleCursor" for each in dict(answer)["inprog"])


# --- settings of a connection


def connected(to: Connection, secret: Secret) -> None:
    with engine("mongodb").connect(to, secret, seconds=30, application="x"):
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"host": "mongodb://127.0.0.1/"},
        {"host": "127.0.0.1,10.0.0.1"},
        {"options": {"readPreference": "any"}},
        {"tls_mode": "TRUE"},
    ],
)
def test_settings_that_mean_nothing_are_invalid(served: Source, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        connected(replace(served.to, **change), served.secret)


def test_a_user_of_another_database_needs_its_name(served: Source) -> None:
    """`authSource`; every printable character in a user's name and password."""
    name, password = 'usér @:/%?#[]"', "pässwörd \\ $ {} &=+,;"
    root = {"role": "root", "db": "admin"}
    served.run(json_util.dumps({"$db": "elsewhere", "createUser": name, "pwd": password, "roles": [root]}))
    to = replace(served.to, user=name)
    with pytest.raises(RefusedError):
        connected(to, Secret(password))
    to = replace(to, options={"authSource": "elsewhere", "readPreference": "secondaryPreferred"})
    with engine("mongodb").connect(to, Secret(password), seconds=5, application="y" * 300) as session:
        assert session.isolation == "read concern majority"
        assert session.discover(["events"]).tables
