"""Probes at submit: all at once, each within its own time, and an answer within the gateway's.

A stand-in plays the sources here, so that nothing has to be slow; what a connection does in the time that it
is given is the engines' own test, against every kind's server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier, Event
from typing import Any, cast

import pytest

from fetcher.aws.sources import Sources
from fetcher.aws.stored import Stored
from fetcher.errors import InvalidRequestError, RefusedError
from fetcher.model import Connection, Secret
from submit import probes

TEN = [f"source_{n}" for n in range(10)]
PATIENCE = 60.0


def stored(name: str) -> Stored:
    """A connection that is known."""
    to = Connection(name, "postgresql", "127.0.0.1", 5432, "db", "user")
    return Stored("default", name, "payments", to, Secret("secret"), "", "", "")


class Played:
    """Stands in for `Sources`: notes how each session was asked for, and whether it was closed again."""

    def __init__(self, answer: Any) -> None:
        self.asked: dict[str, tuple[float, str]] = {}
        self.closed: list[str] = []
        self._answer = answer

    @contextmanager
    def open(self, stored: Stored, *, seconds: float, application: str) -> Iterator[None]:
        """Answer as the test says, and note the end of the session."""
        self.asked[stored.id] = (seconds, application)
        self._answer(stored.id)
        try:
            yield
        finally:
            self.closed.append(stored.id)


def probed(names: list[str], answer: Any) -> Played:
    """Probe connections of these names."""
    played = Played(answer)
    probes.probe_all(cast(Sources, played), {name: stored(name) for name in names})
    return played


def test_ten_probes_run_side_by_side_each_for_ten_seconds_and_are_closed() -> None:
    """R-000-65, R-000-67: none answers before all ten have asked."""
    together = Barrier(len(TEN))
    played = probed(TEN, lambda _: together.wait(PATIENCE))
    assert played.asked == dict.fromkeys(TEN, (10.0, "fetcher-probe"))
    assert sorted(played.closed) == TEN


def test_all_that_are_silent_are_named_when_the_time_of_all_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-000-67: one bound for all of them, not one after the other, though no engine gave up in its own time."""
    monkeypatch.setattr(probes, "ALL_SECONDS", 0.2)
    released = Event()
    try:
        with pytest.raises(InvalidRequestError) as caught:
            probed(TEN, lambda _: released.wait(PATIENCE))
        assert not released.is_set()
    finally:
        released.set()
    assert [problem.pointer.rpartition("/")[2] for problem in caught.value.problems] == TEN
    assert all("it did not answer in time" in problem.detail for problem in caught.value.problems)


def test_one_that_is_down_is_named_alone_and_every_other_was_opened_and_closed() -> None:
    """R-000-65: also those that come after it in order."""

    def answer(name: str) -> None:
        if name == TEN[4]:
            raise RefusedError("refused")

    played = Played(answer)
    with pytest.raises(InvalidRequestError) as caught:
        probes.probe_all(cast(Sources, played), {name: stored(name) for name in TEN})
    assert caught.value.code == "FET-1040"
    assert [problem.pointer.rpartition("/")[2] for problem in caught.value.problems] == [TEN[4]]
    assert sorted(played.closed) == [name for name in TEN if name != TEN[4]]


def test_an_answer_is_on_its_way_before_function_and_gateway_give_up() -> None:
    """R-000-67, R-AWS-9: ten seconds a probe, 25 for all, of the function's 29; the template's test has those."""
    assert (probes.EACH_SECONDS, probes.ALL_SECONDS) == (10, 25)
