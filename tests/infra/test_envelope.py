"""The envelope in which handlers are measured behaves like Lambda: limits, errors, reuse, death."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.envelope import Envelope, unpacked

PROBE = """
import os, signal, time

calls = []

def handler(event, context):
    calls.append(event)
    print("called with", event)
    match event["do"]:
        case "answer":
            return {"calls": len(calls), "left": context.get_remaining_time_in_millis(), "env": os.environ["PROBE"]}
        case "fail":
            raise ValueError("no")
        case "fill":
            return len(bytearray(event["mb"] << 20))
        case "sleep":
            time.sleep(60)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Envelope]:
    """Run a handler that does what it is told, in 128 MB and 2 seconds."""
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(unpacked() / "bootstrap", code)
    (code / "probe.py").write_text(PROBE)
    env = {"PROBE": "passed on"}
    with Envelope("probe.handler", tmp_path, memory_mb=128, seconds=2, env=env, code=code) as envelope:
        yield envelope


def test_an_answer_comes_back_with_its_log(probe: Envelope) -> None:
    report = probe.invoke({"do": "answer"})
    assert (report.outcome, report.payload["env"], report.exit) == ("response", "passed on", None)
    assert 0 < report.payload["left"] <= 2000
    assert "called with" in report.log


def test_the_environment_is_used_again(probe: Envelope) -> None:
    probe.invoke({"do": "answer"})
    assert probe.invoke({"do": "answer"}).payload["calls"] == 2


def test_an_exception_is_reported_as_lambda_does(probe: Envelope) -> None:
    report = probe.invoke({"do": "fail"})
    assert (report.outcome, report.payload["errorType"]) == ("error", "ValueError")


def test_memory_is_limited_and_its_peak_is_seen(probe: Envelope) -> None:
    within = probe.invoke({"do": "fill", "mb": 48})
    assert within.payload == 48 << 20
    assert within.peak_bytes > 48 << 20
    assert probe.invoke({"do": "fill", "mb": 160}).payload["errorType"] == "MemoryError"


def test_a_handler_over_its_time_is_killed(probe: Envelope) -> None:
    report = probe.invoke({"do": "sleep"})
    assert report.outcome == "timeout"
    assert 2 <= report.seconds < 5


def test_a_process_that_dies_is_replaced(probe: Envelope) -> None:
    report = probe.invoke({"do": "die"})
    assert (report.outcome, report.exit) == ("exited", -signal.SIGKILL)
    assert probe.invoke({"do": "answer"}).payload["calls"] == 1
