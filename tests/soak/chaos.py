"""What goes wrong during a soak: handlers are killed at any named point, and PostgreSQL's wire breaks.

Of each, one is sure, however short the soak is; the others are by chance.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, get_args

from fetcher.core.faults import ARMED, Point
from tests.faultproxy import Fault, FaultProxy

WAYS: tuple[Fault, ...] = tuple(fault for fault in get_args(Fault) if fault != "none")

LONGEST_CALM = 6.0
"""Seconds between two broken wires, at most."""

BREAKS_WITHIN = 4 * 1024 * 1024
"""Bytes of the server after which a wire breaks, at most."""

FIRST_BREAKS_AFTER = 16 * 1024
"""Bytes of the server until the wire breaks that is sure to: fewer than the smallest job reads."""

DIED = "Runtime exited before returning a response"
"""What the endpoint notes of a handler that was killed while it worked."""


def arm(functions: Any, percent: float, sure: Path) -> None:
    """Kill the deployed handlers by chance at each of their named points, and once for sure a worker that reads.

    `functions` is a Lambda client of the stack's endpoint; that worker leaves the file `sure` behind.
    """
    _set(functions, f"{Point.FIRST_PAGE}:{sure},{percent}%")


def disarm(functions: Any) -> None:
    """Kill no more."""
    _set(functions, None)


def deaths(log: Path) -> int:
    """Count the handlers that died at work so far, in the log of the endpoint."""
    return log.read_text(errors="replace").count(DIED)


def _set(functions: Any, armed: str | None) -> None:
    for found in functions.list_functions()["Functions"]:
        variables = dict(found["Environment"]["Variables"])
        variables.pop(ARMED, None)
        if armed:
            variables[ARMED] = armed
        functions.update_function_configuration(
            FunctionName=found["FunctionName"], Environment={"Variables": variables}
        )


@contextmanager
def broken_wires(proxy: FaultProxy, seed: int) -> Iterator[None]:
    """Break a connection of the proxy soon, and others now and then, in every way it knows, at any byte."""
    over, random = Event(), Random(seed)
    proxy.after, proxy.fault = FIRST_BREAKS_AFTER, "rst"

    def breaking() -> None:
        while not (proxy.broken.wait(0.1) or over.is_set()):
            pass
        proxy.fault = "none"
        while not over.wait(random.uniform(0, LONGEST_CALM)):
            proxy.after = random.randrange(BREAKS_WITHIN)
            proxy.fault = random.choice(WAYS)
            time.sleep(random.uniform(0.1, 1))
            proxy.fault = "none"

    thread = Thread(target=breaking, name="broken wires", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.fault = "none"
