"""What `make bench --write` does to its page."""

from benchmarks.__main__ import BEGIN, END, written


def test_results_replace_those_of_the_same_name_and_keep_the_others() -> None:
    """A run of one table must not lose those that were measured before."""
    page = f"before\n{BEGIN}\nan old form\n{END}\nbehind\n"
    page = written(page, "mysql", ["of mysql", "", "| 1 |"])
    page = written(page, "postgresql", ["of postgresql"])
    page = written(page, "mysql", ["of mysql again"])
    expected = "### postgresql\n\nof postgresql\n\n### mysql\n\nof mysql again"
    assert page == f"before\n{BEGIN}\n{expected}\n{END}\nbehind\n"
