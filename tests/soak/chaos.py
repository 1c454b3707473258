"""What goes wrong during a soak: handlers are killed at any named point, and PostgreSQL's wire breaks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from threading import Event, Thread
from typing import Any, get_args

from fetcher.core.faults import ARMED
from tests.faultproxy import Fault, FaultProxy

LONGEST_CALM = 6.0
"""Seconds between two broken wires, at most."""

BREAKS_WITHIN = 4 * 1024 * 1024
"""Bytes of the server after which a wire breaks, at most."""


def arm(functions: Any, percent: float) -> list[str]:
    """Kill the deployed handlers by chance at each of their named points; return the functions' names.

    `functions` is a Lambda client of the stack's endpoint. 0 disarms.
    """
    armed = []
    for found in functions.list_functions()["Functions"]:
        variables = dict(found["Environment"]["Variables"])
        variables.pop(ARMED, None)
        if percent:
            variables[ARMED] = f"{percent}%"
        functions.update_function_configuration(
            FunctionName=found["FunctionName"], Environment={"Variables": variables}
        )
        armed.append(found["FunctionName"])
    return armed


@contextmanager
def broken_wires(proxy: FaultProxy, seed: int) -> Iterator[None]:
    """Break the proxy's connections now and then, in every way it knows, at any byte."""
    over, random = Event(), Random(seed)

    def breaking() -> None:
        while not over.wait(random.uniform(0, LONGEST_CALM)):
            proxy.after = random.randrange(BREAKS_WITHIN)
            proxy.fault = random.choice([fault for fault in get_args(Fault) if fault != "none"])
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
