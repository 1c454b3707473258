"""The whole kill matrix: every kill, small and in parts, one datasource and several."""

import pytest

from tests.kills.matrix import Matrix
from tests.kills.stories import AROUND, MORE, MORE_PARTS, PARTS, WORKER, Cell

pytestmark = [pytest.mark.soak, pytest.mark.stack]


@pytest.mark.parametrize("datasources", ["one", "several"])
@pytest.mark.parametrize(
    ("cell", "size"),
    [(cell, size) for cell in (*AROUND, *WORKER, *MORE) for size in ("small", "large")]
    + [(cell, "large") for cell in (*PARTS, *MORE_PARTS)],
    ids=str,
)
def test_a_kill_changes_nothing(matrix: Matrix, cell: Cell, size: str, datasources: str) -> None:
    """R-000-73, R-002-3, 4: same status, same bytes, one record, one event, no marker, slot or upload left."""
    matrix.check(cell, size, datasources)
