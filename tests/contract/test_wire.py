# ruff: noqa: PT017 - what is raised is looked at, and let go: a driver's error holds its connection
"""The wire of each kind, broken in every way at every place: an error in time, never a shorter table, nothing left.

first byte    of all that the server ever says     handshake    half of what it says up to the open session
middle        inside a row of the second half, once a page has been handed out
last byte     one byte short of the whole answer, at once
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import pytest

from fetcher.engines import engine, postgresql
from fetcher.engines._mongodb import client
from fetcher.errors import FetcherError, UnavailableError
from tests.contract.conftest import Reader
from tests.contract.kinds import Source
from tests.faultproxy import SLICE_SECONDS, Fault, FaultProxy, faulty

AT_ONCE: Mapping[tuple[str, str], str] = {
    ("oracle", "middle"): "its stand-in answers a fetch as a whole, and these rows are one fetch",
}
"""Where nothing is handed out before the wire breaks."""

Place = Literal["first byte", "handshake", "middle", "last byte"]
PLACES: tuple[Place, ...] = get_args(Place)
FAULTS = tuple(fault for fault in get_args(Fault) if fault != "none")
TABLE = "events"
PAGE_BYTES = 500
"""So small that pages are delivered before the wire breaks in the middle of the table."""
NOTE = re.compile(rb'n\0?o\0?t\0?e\0? \0?\\?\0?"\0?[3-4]\0?\d\0?\d\0?\\?\0?"')
"""A note of `events`, as JSON or BSON has it, in UTF-8 or UTF-16: that of a row of 300 to 499."""
STALL = 1.0
SHORT_STALLS: Mapping[str, float] = {"latency": 0.8, "rate": 0.4}
"""Seconds, by what makes a wire slow: between two turns a busy server is silent by itself, too."""
STALLS_LONG = 4
PATIENCE = 30.0
"""Seconds; far more than any of these takes, and far less than what a driver waits by itself."""

COMPLETE = None
"""No error, since nothing is missing: the answer's last byte carries nothing that a read needs."""
Expected = type[FetcherError] | None

DIFFERENT: Mapping[tuple[str, str, Place], tuple[Expected, str]] = {
    ("postgresql", "garbage", "last byte"): (
        COMPLETE,
        "the state of a transaction, behind the confirmed end of the rows",
    ),
    ("mysql", "garbage", "last byte"): (COMPLETE, "half of the flags of the packet that ends the rows"),
    ("sqlserver", "garbage", "last byte"): (COMPLETE, "a part of the number of rows, which the driver does not need"),
}
"""Where a kind differs from `UnavailableError`, and why."""


@dataclass(frozen=True, slots=True)
class Calm:
    """An undisturbed conversation: the bytes of its login and of one read's answer, and the rows.

    `inside` is how many bytes of the answer come before the middle of a row's note; the whole conversation is of so
    many `turns` and has `said` so many bytes.
    """

    login: int
    answer: int
    inside: int
    turns: int
    said: int
    body: bytes


@pytest.fixture(scope="module")
def calm(source: Source) -> Calm:
    with faulty(source.to.host, source.to.port) as proxy, opened(source, proxy, "calm") as reader:
        login = proxy.passed
        query = reader.plan(TABLE, page_bytes=PAGE_BYTES)
        before, proxy.said = proxy.passed, bytearray()
        body = b",".join(page.body for page in reader.session.read(query, None))
        note = NOTE.search(proxy.said)
        assert note
        inside = sum(note.span()) // 2
        return Calm(login, proxy.passed - before, inside, proxy.turns, proxy.passed, body)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    """A second of silence is a stall, and so is one of the second connection that is asked about it."""
    monkeypatch.setenv("FETCHER_STALL_SECONDS", str(STALL))
    module = import_module(f"fetcher.engines.{source.to.kind}")
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.5)
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.5)
    for each in (postgresql, client):  # their drivers keep a socket to themselves until they are logged in
        monkeypatch.setattr(each, "CONNECT_SECONDS", 2.0)


@contextmanager
def opened(source: Source, proxy: FaultProxy, application: str) -> Iterator[Reader]:
    to = replace(source.to, port=proxy.port)
    with engine(to.kind).connect(to, source.secret, seconds=2 * PATIENCE, application=application) as session:
        yield Reader(session, source)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Let no thread and no descriptor outlive the block by more than a moment."""
    threads, descriptors = set(threading.enumerate()), _descriptors()
    yield
    until = time.monotonic() + 10
    while left := [*(set(threading.enumerate()) - threads), *(_descriptors() - descriptors)]:
        assert time.monotonic() < until, left
        time.sleep(0.02)


def _descriptors() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists
            found.add(f"{descriptor.name} {descriptor.readlink()}")
    return found


def broken(source: Source, proxy: FaultProxy, fault: Fault, place: Place, calm: Calm, delivered: list[bytes]) -> None:
    """Hold the conversation, break it at its place, and note what was delivered of it."""
    if place == "first byte":
        proxy.fault = fault
    elif place == "handshake":
        proxy.fault, proxy.after = fault, calm.login // 2
    with opened(source, proxy, "wire") as reader:
        query = reader.plan(TABLE, page_bytes=PAGE_BYTES)
        handed = threading.Event()
        if place == "middle" and (source.to.kind, place) not in AT_ONCE:
            proxy.ready = handed
        proxy.after = calm.inside if place == "middle" else calm.answer - 1
        proxy.fault = fault
        for page in reader.session.read(query, None):
            delivered.append(page.body)
            handed.set()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_wire_is_an_error_in_time(source: Source, calm: Calm, fault: Fault, place: Place) -> None:
    """R-002-59, R-002-63, B-45: what was delivered is a true beginning, and is never taken for the whole table."""
    expected, _ = DIFFERENT.get((source.to.kind, fault, place), (UnavailableError, ""))
    delivered: list[bytes] = []
    began = time.monotonic()
    with nothing_left(), faulty(source.to.host, source.to.port) as proxy:
        ended = _ended(source, proxy, fault, place, calm, delivered)
        assert proxy.broken.is_set()
    assert time.monotonic() - began < PATIENCE
    assert ended == expected
    if place in {"first byte", "handshake"}:
        assert not delivered
    elif (source.to.kind, place) not in AT_ONCE and (fault, place) != ("rst", "last byte"):  # what had arrived goes too
        assert delivered, "else it shows nothing that they are a true beginning"
    if ended is COMPLETE:
        assert b",".join(delivered) == calm.body
    elif fault != "garbage":  # which may stand in the last row that came, of a read that failed
        assert calm.body.startswith(b",".join(delivered))


def _ended(
    source: Source, proxy: FaultProxy, fault: Fault, place: Place, calm: Calm, delivered: list[bytes]
) -> Expected:
    """Return the class of the error. Its words are ours (R-000-20), the driver's stay on the cause."""
    try:
        broken(source, proxy, fault, place, calm, delivered)
    except FetcherError as error:
        assert source.to.host not in str(error)
        cause = str(error.__cause__ or "")
        assert not cause or isinstance(error.__cause__, FetcherError) or cause not in str(error)
        return type(error)
    return COMPLETE


@pytest.mark.parametrize(("how", "place"), [("latency", "first byte"), ("rate", "first byte"), ("rate", "middle")])
def test_a_slow_wire_is_only_slow(
    source: Source, calm: Calm, monkeypatch: pytest.MonkeyPatch, how: str, place: Place
) -> None:
    """R-002-59: a byte now and then is life, for several times what is a stall: all rows, the same bytes."""
    monkeypatch.setenv("FETCHER_STALL_SECONDS", str(SHORT_STALLS[how]))
    with nothing_left(), faulty(source.to.host, source.to.port) as proxy:
        if place == "first byte":
            _slow(proxy, how, calm.turns, calm.said)
        began, passed, turns = time.monotonic(), 0, 0
        with opened(source, proxy, "slow wire") as reader:
            query = reader.plan(TABLE, page_bytes=PAGE_BYTES)
            if place == "middle":
                began, passed, turns = time.monotonic(), proxy.passed + calm.inside, proxy.turns
                proxy.quick = calm.inside
                _slow(proxy, how, 1, calm.answer - calm.inside)
            pages = reader.session.read(query, None)
            assert b",".join(page.body for page in pages) == calm.body
            took = time.monotonic() - began
            slept = proxy.latency * (proxy.turns - turns)
            sent = (proxy.passed - passed) / proxy.rate - SLICE_SECONDS if proxy.rate else 0
    assert took >= max(slept, sent)
    assert took > 2 * SHORT_STALLS[how], "else it shows nothing about stalls"


def _slow(proxy: FaultProxy, how: str, turns: int, size: int) -> None:
    """Let so many turns, or bytes, take several stalls, and no one of them a stall."""
    seconds = STALLS_LONG * SHORT_STALLS[how]
    if how == "latency":
        proxy.latency = min(seconds / turns, SHORT_STALLS[how] / 2)
    else:
        proxy.rate = size / seconds
