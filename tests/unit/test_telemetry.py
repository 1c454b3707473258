"""What the functions log: one JSON line each, with the job's id, wherever in the code it comes from."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from fetcher.aws.telemetry import PACKAGES, adopt, logger
from fetcher.errors import InvalidRequestError


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


CANARY = "row 17"


def throttled() -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, "UpdateItem")


def failing_at_the_end() -> None:
    """Fail as an attempt does whose job's end cannot be written: with the driver's error behind it."""
    try:
        try:
            int(CANARY)
        except ValueError as error:
            raise InvalidRequestError("a value does not fit") from error
    except InvalidRequestError:
        raise throttled()  # noqa: B904 - what is not said here is the point


@pytest.mark.parametrize("name", ["extract.app", "fetcher.engines._watchdog", None])
def test_what_a_driver_says_is_in_no_traceback(written: io.StringIO, name: str | None) -> None:
    """R-000-82, B-47: also when an error of AWS comes while one of the driver's is handled; where it was is told."""
    log = logger if name is None else logging.getLogger(name)
    try:
        failing_at_the_end()
    except ClientError:
        log.exception("failed")
    [line] = written.getvalue().splitlines()
    entry = json.loads(line)
    assert CANARY not in line
    assert entry["exception_name"] == "ClientError"
    told = entry["exception"]
    assert told.index("ValueError") < told.index("InvalidRequestError: a value does not fit") < told.index("slow down")
    assert told.count("in failing_at_the_end") == 3
    assert "service" in entry


@pytest.mark.parametrize("name", ["botocore.parsers", "pymongo.command", "urllib3", "aws_lambda_powertools.utilities"])
def test_libraries_never_log_what_they_see(name: str) -> None:
    """R-000-82, B-47: Lambda sets the root's level to DEBUG with the parameter `LogLevel`."""
    root = logging.getLogger()
    kept = root.level
    try:
        root.setLevel(logging.DEBUG)
        adopt()
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)
        assert logging.getLogger(name).isEnabledFor(logging.INFO)
    finally:
        root.setLevel(kept)
