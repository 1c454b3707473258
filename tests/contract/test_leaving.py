# ruff: noqa: PT012 - a session is opened, read and closed inside the block that expects its failure
"""What a server still does for a session that ended early: nothing, two seconds later (`design.md` §6, fail-fast)."""

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module

import pytest

from fetcher.engines import engine
from fetcher.errors import CanceledError, FetcherError, TimedOutError, UnavailableError
from fetcher.ports import Session
from tests.contract.conftest import Reader
from tests.contract.kinds import Source
from tests.faultproxy import FaultProxy, faulty

LIMIT = 5.0
SLACK = 3.0
"""Seconds a busy machine may add."""


def opened(source: Source, port: int, application: str, seconds: float = 60) -> AbstractContextManager[Session]:
    to = replace(source.to, port=port)
    return engine(to.kind).connect(to, source.secret, seconds=seconds, application=application)


def assert_gone(source: Source, application: str, seconds: float = 2 + SLACK) -> None:
    until = time.monotonic() + seconds
    while source.active(application):
        assert time.monotonic() < until, "still active at the server"
        time.sleep(0.05)


def read_stalled(source: Source, proxy: FaultProxy, application: str, table: str, seconds: float = 60) -> None:
    """Read until the wire falls silent, in the middle of the rows or before the first."""
    with opened(source, proxy.port, application, seconds) as session:
        pages = session.read(Reader(session, source).plan(table, page_bytes=10_000), None)
        if table == "slow":
            threading.Timer(0.3, lambda: setattr(proxy, "fault", "stall")).start()
        else:
            next(pages)
            proxy.fault, proxy.after = "stall", 300_000
        sum(page.rows for page in pages)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    monkeypatch.setenv("FETCHER_STALL_SECONDS", "1")
    monkeypatch.setattr(import_module(f"fetcher.engines.{source.to.kind}"), "PROBE_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_stalled_flow_leaves_nothing_at_the_server(source: Source, application: str) -> None:
    """The server waits for a wire that takes nothing and says nothing; it is told on another that is open."""
    with faulty(source.to.host, source.to.port) as proxy:
        proxy.alone = True
        with pytest.raises(UnavailableError, match="stopped"):
            read_stalled(source, proxy, application, "million")
        assert proxy.broken.is_set()
        assert_gone(source, application)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("table", ["slow", "million"])
def test_a_dead_way_leaves_the_server_to_its_own_time_limit(source: Source, application: str, table: str) -> None:
    """Nothing gets through any more: the limit set at the login is the bound, once for the statement and once for
    the session that then stays open."""
    with faulty(source.to.host, source.to.port) as proxy:
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="stopped"):
            read_stalled(source, proxy, application, table, seconds=LIMIT)
        assert_gone(source, application, began + 2 * LIMIT + 2 + SLACK - time.monotonic())


@pytest.mark.parametrize("table", ["slow", "million"])
def test_the_deadline_leaves_nothing_at_the_server(source: Source, application: str, table: str) -> None:
    """R-002-88: a timeout, which nobody tries again; while it computes, and while it waits to send."""
    with pytest.raises(TimedOutError), opened(source, source.to.port, application, 1.5) as session:
        for _ in session.read(Reader(session, source).plan(table, page_bytes=1000), None):
            time.sleep(0.3)
    assert_gone(source, application)


def test_a_cancel_ends_a_discovery_that_waits(source: Source, application: str) -> None:
    """Fail-fast, design §6: planning is canceled too, and the server knows."""
    with faulty(source.to.host, source.to.port) as proxy:
        proxy.alone = True
        with pytest.raises(CanceledError), opened(source, proxy.port, application) as session:
            proxy.fault = "stall"
            canceler = threading.Timer(0.3, session.cancel)
            canceler.start()
            began = time.monotonic()
            try:
                session.discover(())
            finally:
                canceler.join()
                assert time.monotonic() - began < 15
        assert_gone(source, application)


def test_a_cancel_ends_a_discovery_that_the_server_holds(source: Source, application: str) -> None:
    """R-000-70: somebody else's lock holds the catalog, and our query behind it."""
    assert source.held is not None
    with source.held(application), opened(source, source.to.port, application) as session:
        failures: list[FetcherError] = []

        def discover() -> None:
            try:
                session.discover(())
            except FetcherError as error:
                failures.append(error)

        discovering = threading.Thread(target=discover)
        discovering.start()
        _until_active(source, application)
        session.cancel()
        discovering.join(15)
        assert [type(error) for error in failures] == [CanceledError]
        assert_gone(source, application)


def _until_active(source: Source, application: str) -> None:
    until = time.monotonic() + 20
    while not source.active(application):
        assert time.monotonic() < until, "never active at the server"
        time.sleep(0.05)
