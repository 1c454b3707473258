"""The worker is killed between any two effects of a small job; the job ends the same."""

import pytest

from tests.kills.matrix import Matrix
from tests.kills.stories import WORKER, Cell

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("cell", WORKER, ids=str)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell) -> None:
    """R-000-60…62, 72…75, R-002-3, 4, 9, 10: same status and bytes, one record, one event, nothing left."""
    matrix.check(cell, "small", "one")
