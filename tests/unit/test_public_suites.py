"""Every scenario of the public system's suites is shown by a test that names it, or left out with a reason."""

import re
from collections import Counter

from tests.docstrings import docstrings
from tests.public_suites import LEFT_OUT, numbers

NUMBER = re.compile(r"§(13\.(?:[1-8]|10)-\d+)")


def named() -> set[str]:
    """Every number that a docstring names."""
    return {number for text in docstrings() for number in NUMBER.findall(text)}


def test_every_scenario_is_named_or_left_out_with_a_reason() -> None:
    """And none is both, nor is there a number that no scenario has."""
    assert named() | set(LEFT_OUT) == set(numbers())
    assert not named() & set(LEFT_OUT)
    assert all(len(reason) > 20 for reason in LEFT_OUT.values())


def test_numbers_are_found_and_stand_once() -> None:
    """A pattern that matches nothing, or a list with gaps, would prove nothing."""
    assert NUMBER.findall("§13.10-2, §13.9-1, §13.3-25") == ["13.10-2", "13.3-25"]
    assert max(Counter(numbers()).values()) == 1
    assert len(named()) > 80
