"""What every test gets: the shared stack on request, no network in `tests/unit`, and no quiet skips in CI."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import stack as shared_stack
from tests.rig import Rig, rig
from tests.stack import Stack

UNIT = Path(__file__).parent / "unit"
MAY_BE_SKIPPED = ("oracle",)
"""What CI cannot have; any other skipped test fails the run there."""


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Connect to the one local stack of this run."""
    connected = shared_stack.shared()
    yield connected
    connected.api.close()


@pytest.fixture(scope="module")
def service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One service of the module's own, driven by hand, with `my_postgres` of `payments` registered."""
    quick = {"FETCHER_LEASE_SECONDS": "2", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "0.5"}
    with rig(stack, tmp_path_factory.mktemp("rig"), **quick) as made:
        answer = made.register()
        assert answer.status == 201, answer
        yield made


def pytest_configure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shared_stack.choose_place()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shared_stack.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if UNIT in item.path.parents:
            item.add_marker("disable_socket")
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker("stack")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _is_worker(session.config) or reporter is None or "CI" not in os.environ:
        return
    reporter.ensure_newline()
    for report in reporter.stats.get("skipped", []):
        reason = str(report.longrepr[-1])
        if not any(name in reason.lower() for name in MAY_BE_SKIPPED):
            reporter.write_line(f"Skipped, which CI does not accept: {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
