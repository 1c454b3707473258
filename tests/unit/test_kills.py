"""The kill matrix is whole: no named point is left out, in no handler that comes to it."""

from fetcher.core.faults import Point
from infra.local.places import ROOT
from tests.kills.cells import AROUND, MORE, MORE_PARTS, PARTS, WORKER, every_run
from tests.kills.reaching import Code
from tests.rig import DEAD_LETTER, EXTRACT, NOTIFY, SUBMIT, SWEEPER

HANDLERS = (SUBMIT, SWEEPER, EXTRACT, DEAD_LETTER, NOTIFY)
USUAL = (*AROUND, *WORKER, *PARTS)


def test_every_named_point_is_in_the_matrix() -> None:
    """R-002-4: whoever adds a boundary adds its kill."""
    assert {cell.kill.point for cell in USUAL} == set(Point)


def test_every_handler_is_killed_at_every_point_that_it_comes_to() -> None:
    """R-000-73, R-002-4: what several functions do is killed in each of them; the code says which they are."""
    code = Code()
    reached = {(handler, point) for handler in HANDLERS for point in code.points(handler)}
    assert {point for _, point in reached} == set(Point)
    assert {(cell.kill.handler, cell.kill.point) for cell in (*USUAL, *MORE, *MORE_PARTS)} == reached


def test_the_page_tells_how_large_the_matrix_is() -> None:
    """Of points, of functions that come to one, and of what is played each time and in a soak."""
    [told] = [line for line in (ROOT / "docs/reliability.md").read_text().splitlines() if "the matrix" in line]
    pairs = {(cell.kill.handler, cell.kill.point) for cell in (*USUAL, *MORE, *MORE_PARTS)}
    assert f"{len(Point)} points" in told
    assert f"{len(pairs)} pairs" in told
    assert f"({len(USUAL)} kills)" in told
    assert f"({len(list(every_run()))})" in told
