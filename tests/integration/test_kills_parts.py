"""The worker is killed between any two effects of a job in parts; the job ends the same, with the same bytes."""

import pytest

from tests.kills.cells import PARTS, Cell
from tests.kills.matrix import Matrix

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("cell", PARTS, ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell) -> None:
    """R-000-73, R-002-3, 4: the same end of one job, its bytes and one event; what may stay, `MAY_STAY` says."""
    matrix.check(cell, "large", "one")
