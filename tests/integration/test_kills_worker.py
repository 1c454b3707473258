"""The worker is killed between any two effects of a small job; the job ends the same."""

import pytest

from tests.kills.cells import WORKER, Cell
from tests.kills.matrix import Matrix

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("cell", WORKER, ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell) -> None:
    """R-000-60..62, 72..75, R-002-3, 4, 9, 10: the same end of one job, its bytes and one event."""
    matrix.check(cell, "small", "one")
