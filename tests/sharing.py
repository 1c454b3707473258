"""How a run's tests are shared among its processes: one server a kind, and no long file for the end.

A unit of tests runs in one process, so that what a module or a server costs is paid once. Most units are files. Of
`tests/contract` a unit is all that reads from one kind: starting and filling a server takes seconds of a core, which
each process would pay again for every kind. It is what `--dist loadfile` means here.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parent.parent
CONTRACT = "tests/contract/"
KINDS = tuple(sorted(path.stem for path in (ROOT / CONTRACT / "kinds").glob("[!_]*.py")))
NAMED = re.compile(rf"test_({'|'.join(KINDS)})_")

SERVED: Mapping[str, str] = {f"{CONTRACT}test_plugin_crm.py": "mongodb"}
"""Files that read from a kind's server and are not named after it."""

LASTS: Mapping[str, float] = {
    "mongodb": 500,
    "mysql": 120,
    "oracle": 180,
    "postgresql": 180,
    "sqlserver": 200,
    "tests/infra/test_layer.py": 100,
    "tests/integration/test_bounds.py": 270,
    "tests/integration/test_changing.py": 270,
    "tests/integration/test_cloud_faults.py": 650,
    "tests/integration/test_crashes.py": 320,
    "tests/integration/test_duplicates.py": 220,
    "tests/integration/test_frozen.py": 210,
    "tests/integration/test_kills_around.py": 520,
    "tests/integration/test_kills_parts.py": 700,
    "tests/integration/test_kills_worker.py": 420,
    "tests/integration/test_plugin_crm.py": 270,
    "tests/integration/test_retry_by_hand.py": 190,
    "tests/integration/test_slots.py": 240,
    "tests/integration/test_stack.py": 250,
}
A_TEST_LASTS: Mapping[str, float] = {"tests/integration/": 2, "tests/": 0.1}
"""Seconds on a busy machine, of the longest units and of one test of any other. They only say what begins first: what
begins last should be short, or most of the processes wait for one."""


def unit(test: str) -> str:
    """Name the unit of a test's id: a kind, or the file."""
    file = test.partition("::")[0]
    kind = SERVED.get(file) or _kind(test) if file.startswith(CONTRACT) else None
    return kind or file


def lasts(name: str, tests: int) -> float:
    """Guess how long a unit of so many tests lasts."""
    each = next(seconds for folder, seconds in A_TEST_LASTS.items() if name.startswith(folder) or folder == "tests/")
    return LASTS.get(name, each * tests)


def _kind(test: str) -> str | None:
    """Find the kind among the parameters, else in the name of the module or of the test."""
    name, _, parameters = test.partition("[")
    parts = parameters.removesuffix("]").split("-")
    named = NAMED.search(name)
    return next((part for part in (parts[0], parts[-1]) if part in KINDS), named and named[1])


class Sharing(LoadScopeScheduling):
    """Gives a process that is free the longest unit of those that wait."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda name: lasts(name, len(self.workqueue[name])))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
