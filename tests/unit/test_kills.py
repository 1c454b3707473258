"""The kill matrix is whole: no named point is left out."""

from fetcher.core.faults import Point
from tests.kills.stories import AROUND, PARTS, WORKER


def test_every_named_point_is_in_the_matrix() -> None:
    """R-002-4: whoever adds a boundary adds its kill."""
    assert {cell.kill.point for cell in (*AROUND, *WORKER, *PARTS)} == set(Point)
