"""Named fault points: what kills, when, and what never does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fetcher.core.faults import ARMED, Point, reach

VISITS = "from fetcher.core.faults import Point, reach\nfor _ in range({count}): reach(Point.CLAIMED)"


def visited(armed: str, count: int = 1, stage: str = "local") -> int:
    """Visit one point in a process of its own; return how that ended."""
    env = {**os.environ, ARMED: armed, "FETCHER_STAGE": stage}
    return subprocess.run([sys.executable, "-c", VISITS.format(count=count)], env=env, check=False).returncode


@pytest.mark.parametrize(
    ("armed", "stage", "ended"),
    [
        ("h-after-claim", "local", -signal.SIGKILL),
        ("h-after-claim", "prod", 0),
        ("k-after-part", "local", 0),
        ("100%", "local", -signal.SIGKILL),
        ("100%", "dev", 0),
        ("0%", "local", 0),
    ],
)
def test_an_armed_point_kills_where_the_stage_is_local_alone(armed: str, stage: str, ended: int) -> None:
    """R-000-73: the fault points of the kill matrix; none can be armed in a deployed stage."""
    assert visited(armed, stage=stage) == ended


def test_chance_kills_sooner_or_later() -> None:
    """A soak arms every point at once."""
    assert visited("10%", 1000) == -signal.SIGKILL


def test_once_kills_once(tmp_path: Path) -> None:
    """A file tells the next process that the fault has happened."""
    armed = f"{Point.CLAIMED}:{tmp_path / 'happened'}"
    assert [visited(armed), visited(armed)] == [-signal.SIGKILL, 0]


def test_several_may_be_armed(tmp_path: Path) -> None:
    """A soak has one kill that is sure, and others by chance."""
    once = f"{Point.CLAIMED}:{tmp_path / 'happened'}"
    assert [visited(f"0%,{once}"), visited(f"0%,{once}")] == [-signal.SIGKILL, 0]
    assert visited(f"{once},100%") == -signal.SIGKILL


def test_nothing_is_armed_by_default() -> None:
    """No variable, no effect."""
    reach(Point.CLAIMED, {})
