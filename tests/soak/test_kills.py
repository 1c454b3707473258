"""The whole kill matrix: every kill, small and in parts, one datasource and several."""

import pytest

from tests.kills.cells import Cell, every_run
from tests.kills.matrix import Matrix

pytestmark = [pytest.mark.soak, pytest.mark.stack]


@pytest.mark.parametrize(("cell", "size", "datasources"), list(every_run()), ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell, size: str, datasources: str) -> None:
    """R-000-73, R-002-3, 4: the same end of one job, its bytes and one event; what may stay, `MAY_STAY` says."""
    matrix.check(cell, size, datasources)
