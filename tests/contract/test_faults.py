# ruff: noqa: PT012 - a session is opened, read and closed inside the block that expects its failure
"""What every engine does when it is refused, canceled, or when the wire breaks: it says so, and never truncates."""

import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import get_args

import pytest

from fetcher.engines import engine
from fetcher.errors import (
    CanceledError,
    FetcherError,
    InvalidRequestError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)
from fetcher.model import Connection, Secret
from fetcher.ports import Session
from tests.contract.conftest import Reader
from tests.contract.kinds import HEAVY, Source
from tests.faultproxy import Fault, faulty

WRONG = "S3cr3t%zz"


def opened(
    source: Source,
    to: Connection | None = None,
    *,
    password: str | None = None,
    seconds: float = 30,
    application: str = "faults",
) -> AbstractContextManager[Session]:
    secret = source.secret if password is None else Secret(password)
    return engine(source.to.kind).connect(to or source.to, secret, seconds=seconds, application=application)


def refusal(source: Source, to: Connection, password: str = WRONG, seconds: float = 10) -> FetcherError:
    with pytest.raises(FetcherError) as caught, opened(source, to, password=password, seconds=seconds):
        pass
    assert password not in str(caught.value)
    assert to.host not in str(caught.value)
    return caught.value


# --- connecting


@pytest.mark.parametrize("password", ["wrong", "", "x host=evil.example dbname=y", "'\\"])
def test_a_wrong_password_is_refused(source: Source, password: str) -> None:
    """R-000-96: never retried, never shown, with the driver's error as the cause."""
    error = refusal(source, source.to, password or "\t")
    assert isinstance(error, RefusedError)
    assert error.__cause__ is not None


@pytest.mark.parametrize("database", ["no such database", "x' user=postgres", "%s"])
def test_an_unknown_database_is_refused(source: Source, database: str) -> None:
    with pytest.raises(RefusedError), opened(source, replace(source.to, database=database)):
        pass


def test_a_closed_port_may_be_tried_again(source: Source) -> None:
    assert isinstance(refusal(source, replace(source.to, port=1)), UnavailableError)


def test_a_server_that_does_not_answer_the_greeting_may_be_tried_again(source: Source) -> None:
    """The deadline bounds the greeting as well."""
    with faulty(source.to.host, source.to.port, "stall", 0) as proxy:
        began = time.monotonic()
        error = refusal(source, replace(source.to, port=proxy.port), seconds=2)
    assert isinstance(error, UnavailableError | TimedOutError)
    assert time.monotonic() - began < 20


def test_a_server_that_falls_silent_after_the_greeting_is_given_up(source: Source) -> None:
    """B-36."""
    with (
        faulty(source.to.host, source.to.port, "stall", 300) as proxy,
        pytest.raises(FetcherError) as caught,
        opened(source, replace(source.to, port=proxy.port), seconds=2) as session,
    ):
        session.discover(())
    assert isinstance(caught.value, UnavailableError | TimedOutError)


def test_tls_that_the_server_does_not_offer_is_refused(source: Source) -> None:
    """R-000-100: never a silent fall back to clear text. Oracle's answer could as well be garbage on the way."""
    meant = UnavailableError if source.to.kind == "oracle" else RefusedError
    with pytest.raises(meant, match="TLS"), opened(source, replace(source.to, tls_mode=source.tls_required)):
        pass


def test_an_unknown_tls_mode_is_invalid(source: Source) -> None:
    """R-000-100."""
    with pytest.raises(InvalidRequestError, match="Require"), opened(source, replace(source.to, tls_mode="Require")):
        pass


def test_the_checked_address_is_the_one_connected_to(source: Source) -> None:
    """R-000-99: a second DNS answer cannot move the connection."""
    pinned = replace(source.to, host="never.resolved.invalid", address="127.0.0.1")
    with opened(source, pinned) as session:
        assert session.discover(()).tables


def test_what_the_caller_raises_inside_a_session_stays_itself(source: Source) -> None:
    with pytest.raises(ZeroDivisionError), opened(source):
        raise ZeroDivisionError


# --- cutting the wire


@pytest.mark.parametrize("after", [5_000, 300_000])
@pytest.mark.parametrize("fault", [fault for fault in get_args(Fault) if fault not in {"none", "stall"}])
def test_a_cut_wire_is_never_an_end_of_data(source: Source, fault: Fault, after: int) -> None:
    """R-002-9, R-002-83: only the source ends a read; every iteration error fails it, at whatever byte."""
    with faulty(source.to.host, source.to.port) as proxy:
        with pytest.raises(UnavailableError), opened(source, replace(source.to, port=proxy.port)) as session:
            query = Reader(session, source).plan("million", page_bytes=10_000)
            pages = session.read(query, None)
            first = next(pages)
            proxy.fault, proxy.after = fault, after
            read = first.rows + sum(page.rows for page in pages)
            pytest.fail(f"{read} rows looked like all of them")
        assert proxy.broken.is_set()


@pytest.mark.parametrize("missing", [1, 6, 20, 40])
def test_a_wire_cut_inside_the_last_bytes_is_noticed(source: Source, missing: int) -> None:
    """Without the server's last word a read is not complete, even when every row has arrived."""
    with faulty(source.to.host, source.to.port) as proxy:
        to = replace(source.to, port=proxy.port)
        for _ in range(5):  # a driver's own looks at its server count too when they fall into the measured read
            with opened(source, to) as session:
                query = Reader(session, source).plan("pairs")
                before = proxy.passed
                assert sum(page.rows for page in session.read(query, None)) == 200
                size = proxy.passed - before
            with suppress(UnavailableError), opened(source, to) as session:
                Reader(session, source).plan("pairs")
                proxy.fault, proxy.after = "fin", size - missing
                list(session.read(query, None))
                assert not proxy.broken.is_set(), "a cut wire looked like the end of the rows"
                proxy.fault = "none"
            if proxy.broken.is_set():
                return
    pytest.fail("the wire was never cut")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FETCHER_STALL_SECONDS", "1.0")


@pytest.mark.usefixtures("impatient")
def test_a_silent_wire_is_given_up(source: Source) -> None:
    """Drivers wait for ever; the watchdog does not."""
    with faulty(source.to.host, source.to.port) as proxy:
        began = time.monotonic()
        with (
            pytest.raises(UnavailableError, match="stopped"),
            opened(source, replace(source.to, port=proxy.port)) as session,
        ):
            pages = session.read(Reader(session, source).plan("million", page_bytes=10_000), None)
            next(pages)
            proxy.fault, proxy.after = "stall", 300_000
            sum(page.rows for page in pages)
        assert time.monotonic() - began < 30


@pytest.mark.usefixtures("impatient")
def test_a_server_that_computes_in_silence_is_left_to_work(source: Source) -> None:
    """A long sort sends nothing; only the deadline ends it."""
    with pytest.raises(TimedOutError), opened(source, seconds=4) as session:
        list(session.read(Reader(session, source).plan("slow"), None))


def test_a_slow_consumer_is_no_stall(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patience is that of the slowest stand-in, which needs seconds for rows of 1 MiB."""
    monkeypatch.setenv("FETCHER_STALL_SECONDS", "5.0")
    with opened(source) as session:
        pages = session.read(Reader(session, source).plan("heavy", page_bytes=10_000_000), None)
        first = next(pages).rows
        time.sleep(6.5)
        assert first + sum(page.rows for page in pages) == HEAVY


# --- the clock, and cancel


def test_the_deadline_ends_a_read(source: Source, application: str) -> None:
    """Design §6: the clock is set on the server as well, so nothing goes on there."""
    with pytest.raises(TimedOutError), opened(source, seconds=1.5, application=application) as session:
        list(session.read(Reader(session, source).plan("slow"), None))
    assert_gone(source, application)


def test_a_deadline_that_passes_between_two_pages_ends_the_read(source: Source) -> None:
    with pytest.raises(TimedOutError), opened(source, seconds=1.5) as session:
        for _ in session.read(Reader(session, source).plan("million", page_bytes=10_000), None):
            time.sleep(0.5)


@pytest.mark.parametrize("table", ["slow", "million"])
def test_a_cancel_from_another_thread_stops_the_source(source: Source, application: str, table: str) -> None:
    """Fail-fast, design §6: nothing of ours is active at the server two seconds later."""
    with pytest.raises(CanceledError), opened(source, application=application) as session:
        query = Reader(session, source).plan(table, page_bytes=1000)
        canceler = threading.Timer(0.5, session.cancel)
        canceler.start()
        for _ in session.read(query, None):
            time.sleep(0.001)
    canceler.join()
    assert_gone(source, application)


def test_a_cancel_while_the_caller_is_busy_stops_the_source(source: Source, application: str) -> None:
    """The server is blocked on a full wire, and nobody reads from it."""
    with pytest.raises(CanceledError), opened(source, application=application) as session:
        pages = session.read(Reader(session, source).plan("million", page_bytes=1000), None)
        next(pages)
        began = time.monotonic()
        session.cancel()
        assert time.monotonic() - began < 15
        assert_gone(source, application)
        next(pages)


def test_a_canceled_session_stays_canceled(source: Source) -> None:
    with opened(source) as session:
        session.cancel()
        session.cancel()
        with pytest.raises(CanceledError):
            session.discover(())


def test_a_cancel_that_cannot_reach_the_server_still_ends_the_session(source: Source) -> None:
    with (
        faulty(source.to.host, source.to.port) as proxy,
        pytest.raises(CanceledError),
        opened(source, replace(source.to, port=proxy.port)) as session,
    ):
        pages = session.read(Reader(session, source).plan("million"), None)
        next(pages)
        proxy.fault = "stall"
        began = time.monotonic()
        session.cancel()
        assert time.monotonic() - began < 15
        list(pages)


def test_a_half_read_table_is_dropped_and_not_drained(source: Source, application: str) -> None:
    """R-002-83: leaving a million rows behind costs nothing, here or at the server."""
    began = time.monotonic()
    with opened(source, application=application) as session:
        pages = session.read(Reader(session, source).plan("heavy", page_bytes=1000), None)
        next(pages)
    assert time.monotonic() - began < 15
    assert_gone(source, application)
    with suppress(FetcherError):
        next(pages)


def assert_gone(source: Source, application: str) -> None:
    """Allow two seconds, as the design does."""
    until = time.monotonic() + 2
    while source.active(application):
        assert time.monotonic() < until, "still active at the server"
        time.sleep(0.05)
