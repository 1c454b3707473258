"""In CI nothing is left out quietly: a kind whose server is missing fails the run (design §7.1)."""

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path

import pytest

from infra.local import mariadb, tds
from infra.local.places import ROOT, StackError
from tests.contract.kinds import Source

SUITE = """
import pytest

from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport

"""
SKIPPING = {
    "in a fixture": """
@pytest.fixture(scope="session")
def source():
    pytest.skip({reason!r})

def test_a_kind(source):
    pass
""",
    "in a test": "def test_a_kind():\n    pytest.skip({reason!r})\n",
    "by a mark": "@pytest.mark.skip(reason={reason!r})\ndef test_a_kind():\n    pass\n",
    "of a module": "pytest.skip({reason!r}, allow_module_level=True)\n",
}


def run(folder: Path, **environment: str) -> str:
    """Run a suite that skips in every way, once for a reason that CI knows and once for another; return its end."""
    (folder / "conftest.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, module in enumerate(SKIPPING.values()):
        for kind in ("mysql", "oracle"):
            text = "import pytest\n" + module.format(reason=f"{kind}: no server of Oracle's own")
            (folder / f"test_{kind}_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    kept = {name: text for name, text in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    kept |= {"PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout.splitlines()[-1]


def test_a_skip_fails_in_ci_however_it_is_made(tmp_path: Path) -> None:
    """As a failed test (or fixture, or module), so that a second run of what failed does not forget it."""
    assert run(tmp_path, CI="true").startswith("1 failed, 4 skipped, 3 errors in")


def test_a_skip_is_no_failure_elsewhere(tmp_path: Path) -> None:
    assert run(tmp_path).startswith("8 skipped in")


@pytest.mark.parametrize(("kind", "server"), [("mysql", mariadb), ("sqlserver", tds)])
def test_a_kind_without_its_server_is_skipped_by_its_name(
    kind: str, server: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason begins with the kind, which is what decides."""

    def missing(*_: object) -> None:
        raise StackError("its program is missing")

    monkeypatch.setattr(server, "running", missing)
    monkeypatch.delenv(f"FETCHER_TEST_{kind.upper()}_DSN", raising=False)
    module = import_module(f"tests.contract.kinds.{kind}")
    monkeypatch.setattr(module, "_need_driver", lambda _tree: None, raising=False)
    serving: AbstractContextManager[Source] = module.serving()
    with pytest.raises(pytest.skip.Exception, match=f"^{kind}: its program is missing"), serving:
        pass
