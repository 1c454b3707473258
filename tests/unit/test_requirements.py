"""Each requirement on the life of a job, on reliable reading and on AWS's limits is named by the tests that show it."""

import re
from collections.abc import Iterator, Mapping

from tests.docstrings import docstrings


def ids(group: str, *numbers: range) -> Iterator[str]:
    """Spell requirements of one group."""
    return (f"R-{group}-{number}" for some in numbers for number in some)


REQUIREMENTS = frozenset(
    [
        *ids("000", range(59, 77)),
        *ids("002", range(1, 14), range(57, 64), range(83, 89)),
        *ids("AWS", range(1, 11)),
    ]
)

RUNS = "saved jobs are not built: only a run has a source that says that there is no more, and a run after it"
HTTP = "HTTP sources are not built: no database speaks of calls, status codes or paths"
LATER: Mapping[str, str] = {
    "R-002-8": RUNS,
    "R-002-57": HTTP,
    "R-002-58": HTTP,
    "R-002-60": HTTP,
    "R-002-61": HTTP,
    "R-002-62": HTTP,
}
"""What nothing here can show yet, with the reason."""

PARTLY: Mapping[str, str] = {
    "R-002-59": HTTP,
    "R-002-63": "a deadlock and a refused connection are shown by their class, which alone decides that a job goes on"
    " from its checkpoint; that it does so, by a wire that is cut: a read that only shares its locks is in no deadlock",
    "R-002-84": "pages are bounded by bytes, on every kind; a number of rows is one more bound on Oracle alone (5,000)",
    "R-002-85": "of Oracle the batches are shown: no other process, whose memory could be measured, reaches its fake",
    "R-002-86": RUNS,
    "R-002-87": RUNS,
}
"""Of these lines a part is not shown, with the reason; the rest is."""

_NUMBERS = r"\d+(?:(?:\.\.|…)\d+)?"
NAMED = re.compile(rf"\bR-(\d{{3}}|AWS)-({_NUMBERS}(?:, {_NUMBERS})*)\b")


def read(text: str) -> Iterator[str]:
    """Yield the requirements that a text names: `R-000-1`, `R-000-59..62` or `59…62`, and `R-000-2, 4, 10..12`."""
    for group, numbers in NAMED.findall(text):
        for number in numbers.split(", "):
            first, _, last = number.replace("…", "..").partition("..")
            yield from ids(group, range(int(first), int(last or first) + 1))


def named() -> set[str]:
    """Every requirement that a test names."""
    return {requirement for text in docstrings() for requirement in read(text)}


def test_every_requirement_has_a_test_that_names_it_or_belongs_to_later_work() -> None:
    """And none is both: what a test shows is no longer for later."""
    assert REQUIREMENTS - named() == set(LATER)
    assert all(len(reason) > 20 for reason in (*LATER.values(), *PARTLY.values()))


def test_what_is_shown_in_part_is_shown_by_a_test() -> None:
    """Else it would belong to later work as a whole."""
    assert set(PARTLY) <= named() & REQUIREMENTS


def test_requirements_are_found_alone_in_ranges_and_in_lists() -> None:
    """A pattern that finds too much or nothing would prove nothing."""
    text = (
        "§13.8-1; R-000-1, 59..61, 71; B-08. R-AWS-9. R-002-83..84: 12 rows, R-002-4, R-AWS-10; R-9-1; R-002-7…8, 10."
    )
    assert list(read(text)) == [
        *("R-000-1", "R-000-59", "R-000-60", "R-000-61", "R-000-71"),
        *("R-AWS-9", "R-002-83", "R-002-84", "R-002-4", "R-AWS-10", "R-002-7", "R-002-8", "R-002-10"),
    ]
