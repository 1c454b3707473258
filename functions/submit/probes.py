"""Real connections, opened and closed: side by side at submit, one at a time for the test route."""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from fetcher.aws.sources import Sources
from fetcher.aws.stored import Stored
from fetcher.core.problems import pointer
from fetcher.errors import FetcherError, InvalidRequestError, Problem, UnavailableError, Where

EACH_SECONDS = 10.0
ALL_SECONDS = 25.0
"""The function ends after 29 seconds, and API Gateway gives up after 30: the answer must be on its way by then."""

APPLICATION = "fetcher-probe"


def probe(sources: Sources, stored: Stored, seconds: float) -> int:
    """Connect and hang up; return the milliseconds it took. Raises what the guard or the engine says."""
    began = time.monotonic()
    with sources.open(stored, seconds=seconds, application=APPLICATION):
        return round((time.monotonic() - began) * 1000)


def probe_all(sources: Sources, named: Mapping[str, Stored]) -> None:
    """Probe every connection at once. Raises FET-1040 (or FET-0414) that names each one that failed.

    A probe that does not end in time is left to its own timeout: its thread ends without an effect.
    """
    if not named:
        return
    threads = ThreadPoolExecutor(len(named), thread_name_prefix="probe")
    started = {name: threads.submit(probe, sources, stored, EACH_SECONDS) for name, stored in named.items()}
    wait(started.values(), timeout=ALL_SECONDS)
    threads.shutdown(wait=False, cancel_futures=True)
    failed = {name: error for name, future in sorted(started.items()) if (error := _failure(future)) is not None}
    if failed:
        raise _refusal(failed)


def _failure(future: "Future[int]") -> FetcherError | None:
    if not future.done():
        return UnavailableError("it did not answer in time")
    error = future.exception()
    if error is None or isinstance(error, FetcherError):
        return error
    raise error


def _refusal(failed: Mapping[str, FetcherError]) -> InvalidRequestError:
    first = next(iter(failed))
    forbidden = failed[first].code == "FET-0414"
    problems = tuple(
        Problem(pointer(("dataRequest", "mappedFields", name)), f"the connection {name!r}: {error.message}")
        for name, error in failed.items()
    )
    return InvalidRequestError(
        "; ".join(problem.detail for problem in problems),
        code="FET-0414" if forbidden else "FET-1040",
        where=Where(datasource=first),
        problems=problems,
    )
