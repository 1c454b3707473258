"""Each defect that the service this one replaces had (B-01 to B-68) is named by the tests that would fail on it."""

import re
from collections.abc import Mapping

from tests.docstrings import docstrings

DEFECTS = frozenset(f"B-{number:02}" for number in range(1, 69))
NAMED = re.compile(r"\bB-(\d\d)(?:\.\.(\d\d))?\b")

NOT_APPLICABLE: Mapping[str, str] = {}
"""What cannot occur here, with the reason; such a defect needs no test."""


def named() -> set[str]:
    """Return the defects that tests name, one by one or as a range such as `B-17..19`."""
    found = [match for text in docstrings() for match in NAMED.finditer(text)]
    return {f"B-{number:02}" for match in found for number in range(int(match[1]), int(match[2] or match[1]) + 1)}


def test_every_defect_has_a_test_that_names_it() -> None:
    """And no test names one that nobody knows."""
    assert named() == DEFECTS - NOT_APPLICABLE.keys()


def test_what_cannot_occur_says_why() -> None:
    """A reason for each, and only for what is a defect."""
    assert NOT_APPLICABLE.keys() <= DEFECTS
    assert all(len(reason) > 20 for reason in NOT_APPLICABLE.values())
