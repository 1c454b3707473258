"""What every test gets: the shared stack on request, no network in `tests/unit`, and no quiet skips in CI."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests import stack as shared_stack
from tests.kills.matrix import Matrix
from tests.kills.matrix import matrix as kill_matrix
from tests.rig import QUICK, Rig, rig
from tests.sharing import Sharing
from tests.stack import Stack

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# No time is asserted: a busy machine is slow, and right.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

UNIT = Path(__file__).parent / "unit"
MAY_BE_SKIPPED = ("oracle: ",)
"""How the reasons begin that CI accepts, because it cannot have the server; any other skipped test fails there."""


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Connect to the one local stack of this run."""
    connected = shared_stack.shared()
    yield connected
    connected.api.close()


@pytest.fixture(scope="module")
def service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One service of the module's own, driven by hand, with `my_postgres` of `payments` registered."""
    with rig(stack, tmp_path_factory.mktemp("rig"), **QUICK) as made:
        answer = made.register()
        assert answer.status == 201, answer
        yield made


@pytest.fixture(scope="module")
def matrix(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """A service of the module's own whose processes are killed."""
    with kill_matrix(stack, tmp_path_factory.mktemp("matrix")) as made:
        yield made


def pytest_configure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shared_stack.choose_place()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing | None:
    return Sharing(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shared_stack.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if UNIT in item.path.parents:
            item.add_marker("disable_socket")
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker("stack")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _checked(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _checked(report)


def _checked(report: Report) -> Report:
    """Make a skip a failure in CI: what failed is run once more, and a skip that is only counted would be forgotten."""
    if "CI" not in os.environ or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(MAY_BE_SKIPPED):
        report.outcome = "failed"
        report.longrepr = f"Skipped, which CI does not accept: {reason}"
    return report


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
