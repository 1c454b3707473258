"""One local stack for a whole test run, shared by all its worker processes."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3

from infra.local import stack
from infra.local.api import Api
from infra.local.places import ROOT, Place, StackError

PLACE = "FETCHER_TEST_STACK"
"""Set by the process that pytest was started as; its workers inherit it."""

PARAMETERS = {
    "LeaseSeconds": "3",
    "HeartbeatSeconds": "0.2",
    "DispatchSeconds": "1",
    "StallSeconds": "5",
}
"""Leases of seconds, so that a take-over can be waited for."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running stack: what its file says, its API, and clients of its endpoint."""

    description: Mapping[str, Any]
    api: Api
    session: boto3.Session
    _clients: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Place) -> "Stack":
        """Connect to the stack that a file describes."""
        description = json.loads(place.file.read_text())
        return cls(description, Api(description["apiUrl"]), stack.session(place))

    def client(self, service: Any) -> Any:
        """A client of the stack's endpoint, as the root user: the same each time, since one is slow to make."""
        if service not in self._clients:
            self._clients[service] = self.session.client(service, endpoint_url=self.description["endpointUrl"])
        return self._clients[service]

    def __getitem__(self, name: str) -> Any:
        """Read a member of the stack file."""
        return self.description[name]


def choose_place() -> None:
    """Give this run, and the workers it will start, a stack file of its own."""
    os.environ[PLACE] = str(ROOT / ".local" / f"test-{os.getpid()}.json")


def place() -> Place:
    """Find the run's stack file."""
    return Place.of(os.environ[PLACE])


def shared() -> Stack:
    """Connect to the run's stack; whoever comes first starts it, and when that fails, it fails for all."""
    with _locked():
        failure = place().file.with_suffix(".failed")
        if failure.exists():
            raise StackError(failure.read_text())
        if not place().file.exists():
            try:
                stack.up(place(), PARAMETERS)
            except Exception as error:
                failure.write_text(f"the stack of this run did not start: {error}")
                raise
    return Stack.of(place())


def end() -> None:
    """End the run's stack, if any test asked for one."""
    stack.down(place())
    for suffix in (".lock", ".failed"):
        place().file.with_suffix(suffix).unlink(missing_ok=True)


@contextmanager
def _locked() -> Iterator[None]:
    lock = place().file.with_suffix(".lock")
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
