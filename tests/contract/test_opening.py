"""A stop while a source is being connected to: nobody waits for one that takes everything and says nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import cast

import pytest

from fetcher.core.progress import Progress
from fetcher.core.run import Reader, Source
from fetcher.core.stop import Paused, Stop
from fetcher.engines import engine, kinds
from fetcher.errors import CanceledError, FetcherError, LostClaimError, RefusedError
from fetcher.model import Connection, Limits, Secret, Selection
from fetcher.ports import Session
from infra import odbc
from tests.contract.kinds.sqlserver import need_driver
from tests.contract.serving import served
from tests.rig import until

WITHIN = 5.0
"""Seconds, of which a busy machine may need all; a login is given up by itself only after ten."""


class Silent:
    """A server that lets everybody connect, hears the first words, and answers nothing until it hangs up."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.over = threading.Event()

    def serve(self, wire: socket.socket) -> None:
        wire.settimeout(1)
        if self._heard(wire):  # some look whether the port is open first, and hang up
            self.asked.set()
            self.over.wait(60)

    def _heard(self, wire: socket.socket) -> bool:
        try:
            return bool(wire.recv(1))
        except TimeoutError:  # MySQL's client lets the server begin
            return True


@pytest.fixture
def silent() -> Iterator[tuple[Silent, int]]:
    server = Silent()
    with served(server.serve) as port:
        try:
            yield server, port
        finally:
            server.over.set()
            until(lambda: not _opening(), "the end of what nobody waited for")


def _opening() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "open"]


def source(name: str, kind: str, port: int) -> Source:
    chosen = engine(kind)
    to = Connection(name, kind, "127.0.0.1", port, "db", "user", options={"serviceName": "service"})
    connect = partial(chosen.connect, to, Secret("secret"), application="opening")
    return Source(name, to, (Selection("t", ("*",)),), chosen.NAMING, lambda seconds: connect(seconds=seconds))


def stopped(server: Silent, stop: Stop, reason: Exception | None, *sources: Source) -> Exception:
    """Plan until it is stopped for a reason; return what ended it, which must come soon."""
    begun: list[float] = []

    def set_reason() -> None:
        if server.asked.wait(30):
            begun.append(time.monotonic())
            if reason is not None:
                stop.set(reason)

    setting = threading.Thread(target=set_reason)
    setting.start()
    with pytest.raises((FetcherError, Paused)) as caught, Reader(sources, Limits(), stop, Progress(1)) as reader:
        reader.plan()
    ended = time.monotonic()
    setting.join()
    assert ended - begun[0] < WITHIN
    return caught.value


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlserver":
        try:
            need_driver()
        except odbc.MissingError as missing:
            pytest.skip(f"sqlserver: {missing}")
    import_module(f"fetcher.engines.{request.param}")
    return str(request.param)


def test_a_cancel_ends_a_job_that_is_connecting(silent: tuple[Silent, int], kind: str) -> None:
    """R-000-70, design §6, fail-fast: at once, and not when the login's ten seconds are over."""
    server, port = silent
    reason = CanceledError("the job was canceled")
    assert stopped(server, Stop(60), reason, source("silent", kind, port)) is reason


@pytest.mark.parametrize("reason", [LostClaimError("lost"), Paused("over")], ids=["lost claim", "hand-over"])
def test_every_reason_reaches_a_job_that_is_connecting(silent: tuple[Silent, int], reason: Exception) -> None:
    """Design §6: a worker that lost its claim stops all effects; one whose time is up hands over."""
    server, port = silent
    assert stopped(server, Stop(60), reason, source("silent", "postgresql", port)) is reason


def test_the_first_failure_does_not_wait_for_a_source_that_is_connected_to(silent: tuple[Silent, int]) -> None:
    """R-000-70: fail-fast, also while another datasource has not answered yet."""
    server, port = silent
    refused = RefusedError("no")

    def refuse(seconds: float) -> AbstractContextManager[Session]:
        assert server.asked.wait(30)
        raise refused

    other = replace(source("other", "postgresql", port), open=refuse)
    assert stopped(server, Stop(60), None, other, source("silent", "postgresql", port)) is refused
    assert refused.where.datasource == "other"


def test_a_session_that_comes_too_late_is_closed_at_once() -> None:
    """R-000-70: nobody reads by it, and nothing of it stays open."""
    let_in, events = threading.Event(), list[str]()

    @contextmanager
    def late() -> Iterator[Session]:
        events.append("asked")
        assert let_in.wait(30)
        events.append("let in")
        try:
            yield cast("Session", object())
        finally:
            events.append("closed")

    silent_source = replace(source("late", "postgresql", 1), open=lambda seconds: late())
    stop, reason = Stop(60), CanceledError("the job was canceled")
    with ThreadPoolExecutor(1) as threads, Reader([silent_source], Limits(), stop, Progress(1)) as reader:
        planning = threads.submit(reader.plan)
        until(lambda: events, "the opening")
        stop.set(reason)
        assert planning.exception(30) is reason
        assert events == ["asked"]
        let_in.set()
        until(lambda: not _opening(), "the end of what nobody waited for")
    assert events == ["asked", "let in", "closed"]
