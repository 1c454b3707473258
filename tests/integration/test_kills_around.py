"""Submit, notify, sweeper and dead letter are killed between any two effects; the job ends the same."""

import pytest

from tests.kills.matrix import Matrix
from tests.kills.stories import AROUND, Cell

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("cell", AROUND, ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell) -> None:
    """B-04, R-000-60…62, 72…75, R-002-3, 4, 9, 10: same status and bytes, one record, one event, nothing left."""
    matrix.check(cell, "small", "one")
