"""What the functions log: one JSON line each, with the job's id, wherever in the code it comes from."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from fetcher.aws.telemetry import PACKAGES, adopt, logger


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Take what is logged, and forget the keys and the handlers in the end."""
    kept = {name: logging.getLogger(name).handlers for name in PACKAGES}
    stream = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    adopt()
    yield stream
    logger.remove_keys(["extraction_id"])
    for name, handlers in kept.items():
        logging.getLogger(name).handlers = handlers


@pytest.mark.parametrize("name", ["fetcher.core.run", "fetcher.engines._watchdog", "submit.accepting", "extract", None])
def test_every_line_carries_the_jobs_id_whoever_writes_it(written: io.StringIO, name: str | None) -> None:
    """R-000-82's logs can be searched by job: the core's own standard logger is no exception."""
    logger.append_keys(extraction_id="e-1")
    (logger if name is None else logging.getLogger(name)).warning("seen", extra={"code": "FET-2030"})
    [line] = written.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["message"], entry["level"], entry["extraction_id"]) == ("seen", "WARNING", "e-1")
    assert entry["code"] == "FET-2030"
