"""Each defect that the service this one replaces had (B-01 to B-68) is named by the tests that would fail on it."""

import ast
import re
from collections.abc import Iterator, Mapping

from infra.local.places import ROOT

DEFECTS = frozenset(f"B-{number:02}" for number in range(1, 69))
NAMED = re.compile(r"\bB-(\d\d)(?:\.\.(\d\d))?\b")

NOT_APPLICABLE: Mapping[str, str] = {}
"""What cannot occur here, with the reason; such a defect needs no test."""

LATER = DEFECTS - {
    *("B-01", "B-02", "B-07", "B-08", "B-09", "B-10", "B-11", "B-15", "B-16", "B-17", "B-18", "B-23", "B-24", "B-25"),
    *("B-41", "B-42", "B-45", "B-46", "B-47", "B-48", "B-57", "B-58", "B-59", "B-60", "B-63", "B-64"),
}
"""What this list does not demand yet."""


def docstrings() -> Iterator[str]:
    """Yield what each test says of itself."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield ast.get_docstring(node) or ""


def named() -> set[str]:
    """Return the defects that tests name, one by one or as a range such as `B-17..19`."""
    found = [match for text in docstrings() for match in NAMED.finditer(text)]
    return {f"B-{number:02}" for match in found for number in range(int(match[1]), int(match[2] or match[1]) + 1)}


def test_every_defect_has_a_test_that_names_it() -> None:
    assert DEFECTS - LATER - NOT_APPLICABLE.keys() - named() == set()


def test_the_lists_name_what_there_is() -> None:
    """A defect that cannot occur has no test, and no test names one that nobody knows."""
    assert named() <= DEFECTS
    assert NOT_APPLICABLE.keys() <= DEFECTS - LATER - named()
    assert all(len(reason) > 20 for reason in NOT_APPLICABLE.values())
