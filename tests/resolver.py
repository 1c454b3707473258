"""Names for the functions of a rig, from a file that a test changes while they run.

This is the one border that a test here puts something in the place of: `socket.getaddrinfo` inside the function's own
process. Addresses, and what C libraries take for addresses, are still read by the real one.
"""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.envelope import Envelope, patched
from tests.rig import Rig
from tests.stack import Stack

PATCH = """
import json, os, socket

asked = socket.getaddrinfo


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    try:
        return asked(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
    except socket.gaierror:
        with open(os.environ["TEST_NAMES"]) as file:
            addresses = json.load(file).get(host if isinstance(host, str) else host.decode(), ())
    found = [each for address in addresses for each in asked(address, port, family, type, proto, flags)]
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return found


socket.getaddrinfo = getaddrinfo
"""


class Resolving(Rig):
    """A rig whose functions resolve the names that it is told, and no others; none of them asks the network."""

    def __init__(self, stack: Stack, folder: Path, settings: Mapping[str, str]) -> None:
        self._names = folder / "names.json"
        self.names({})
        super().__init__(stack, folder, {**settings, "TEST_NAMES": str(self._names)})

    def names(self, known: Mapping[str, Sequence[str]]) -> None:
        """Let each name have these addresses from now on."""
        fresh = self._names.with_suffix(".new")
        fresh.write_text(json.dumps(known))
        fresh.replace(self._names)

    def envelope(self, handler: str, env: Mapping[str, str] | None = None, **limits: Any) -> Envelope:
        """Open an execution environment whose interpreter starts with the names in place."""
        return super().envelope(handler, env, code=patched(PATCH), **limits)


@contextmanager
def resolving(stack: Stack, folder: Path, **settings: str) -> Iterator[Resolving]:
    """Make such a rig and end its processes."""
    with Resolving(stack, folder, settings) as made:
        yield made


def is_numeric(host: str) -> bool:
    """Whether C libraries take a text for an address."""
    try:
        return bool(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST))
    except socket.gaierror:
        return False
