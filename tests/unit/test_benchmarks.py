"""What `make bench --write` does to its page, and the plot beside it."""

from benchmarks.__main__ import BEGIN, END, README, written
from benchmarks.growth import HEAD, LINES, PLOT, plotted


def test_results_replace_those_of_the_same_name_and_keep_the_others() -> None:
    """A run of one table must not lose those that were measured before."""
    page = f"before\n{BEGIN}\nan old form\n{END}\nbehind\n"
    page = written(page, "mysql", ["of mysql", "", "| 1 |"])
    page = written(page, "postgresql", ["of postgresql"])
    page = written(page, "mysql", ["of mysql again"])
    expected = "### postgresql\n\nof postgresql\n\n### mysql\n\nof mysql again"
    assert page == f"before\n{BEGIN}\n{expected}\n{END}\nbehind\n"


def test_the_plot_shows_the_table() -> None:
    """Time and cost by rows are drawn from the figures of the page: a table without its plot, or the reverse, fails."""
    below = README.read_text().partition("\n".join(HEAD))[2].strip()
    lines = below.partition("\n\n")[0].splitlines()
    drawn = plotted(lines)
    assert PLOT.read_text() == drawn
    assert [drawn.count(f">{name}<") for name, _ in LINES] == [1, 1, 1]
    assert drawn.count("<polyline") == 3
