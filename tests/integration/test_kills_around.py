"""Submit, notify, sweeper and dead letter are killed between any two effects; the job ends the same."""

import pytest

from tests.kills.cells import AROUND, Cell
from tests.kills.matrix import Matrix

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("cell", AROUND, ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell) -> None:
    """B-04, R-000-61, 62, 72..75, R-002-3, 4, 9, 10: the same end of one job, its bytes and one event."""
    matrix.check(cell, "small", "one")
