"""`docs/reliability.md` is held against the tables of errors, the numbers and the tests that it names."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import psycopg
import pytest

from fetcher import engines
from fetcher.aws import errors as aws
from fetcher.aws.queues import LONGEST_DELAY
from fetcher.core import faults
from fetcher.core.faults import Point
from fetcher.core.lifecycle import STALLED_LIMIT
from fetcher.core.retry import FOR_A_SLOT, LONGEST_WAIT, STANDARD
from fetcher.engines._errors import Meaning, Table
from fetcher.engines._postgresql.errors import explained
from fetcher.errors import UnavailableError
from fetcher.model import DEFAULT_WORKERS, MOST_WORKERS
from infra.local.places import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text()
SOURCES = [path for folder in ("functions", "layers/engine/fetcher") for path in (ROOT / folder).rglob("*.py")]


def tables() -> Iterator[tuple[str, Table]]:
    """Every table of every engine of the folder."""
    for kind in engines.kinds():
        for table in import_module(f"fetcher.engines._{kind}.errors").TABLES:
            yield kind, table


def shown(codes: list[str]) -> str:
    """Write codes in their order; three and more in a row are a range."""
    runs: list[list[str]] = []
    for code in codes:
        if runs and _follows(runs[-1][-1], code):
            runs[-1].append(code)
        else:
            runs.append([code])
    return " ".join(f"`{run[0]}`…`{run[-1]}`" if len(run) > 2 else " ".join(f"`{one}`" for one in run) for run in runs)


def _follows(one: str, two: str) -> bool:
    first, second = (re.fullmatch(r"(\D*)(\d+)", text) for text in (one, two))
    return bool(first and second and first[1] == second[1] and int(second[2]) == int(first[2]) + 1)


def rendered(kind: str, table: Table) -> str:
    """Write a table of the page from the code."""
    by_meaning: dict[Meaning, list[str]] = {}
    for code, meaning in table.meanings.items():
        by_meaning.setdefault(meaning, []).append(code)
    lines = [f"| {kind}: {table.codes} | class | says | wait |", "|--|--|--|--|"]
    for meaning, codes in by_meaning.items():
        wait = f"{meaning.wait:.0f} s" if meaning.wait is not None else ""
        lines.append(f"| {shown(codes)} | {meaning.family.family} | {meaning.message} | {wait} |")
    lines.append(f"| any other | {table.others} |  |  |")
    return "\n".join([*lines, "", f"Source: {table.source}."])


def rendered_aws() -> str:
    """Write the table of AWS's errors."""
    lines = ["| AWS | codes | what follows | source |", "|--|--|--|--|"]
    for one in aws.ALL:
        codes = " ".join(f"`{code}`" for code in sorted(one.codes))
        lines.append(f"| {one.service} | {codes} | {one.follows} | {one.source} |")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "table"), [pytest.param(*found, id=f"{found[0]} {found[1].codes}") for found in tables()]
)
def test_every_table_of_errors_is_shown_as_it_is(kind: str, table: Table) -> None:
    """R-002-59, R-002-63: what is tried again, by code, with its source."""
    assert rendered(kind, table) in PAGE


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (psycopg.errors.lookup("40001"), "unavailable"),  # serialization
        (psycopg.errors.lookup("40P01"), "unavailable"),  # deadlock
        (psycopg.errors.lookup("53300"), "unavailable"),  # too many connections
        (psycopg.errors.lookup("57P01"), "unavailable"),  # shutdown
        (psycopg.errors.lookup("28P01"), "refused"),  # wrong password
        (psycopg.errors.lookup("42501"), "refused"),  # missing right
        (psycopg.errors.lookup("42P01"), "invalid"),  # missing table
        (psycopg.errors.lookup("P0001"), "invalid"),  # what a function of a view says, it will say again
        (psycopg.errors.lookup("21000"), "invalid"),
        (psycopg.errors.lookup("22012"), "invalid"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.sqlstate,
)
def test_what_would_fail_again_is_not_tried_again(error: type[psycopg.Error], family: str) -> None:
    """R-002-63, on PostgreSQL; the other kinds have the same in their own modules."""
    assert explained(error("words of the server")).family == family


def test_the_errors_of_aws_are_shown_as_they_are() -> None:
    """R-000-73: one place says which are repeated."""
    assert rendered_aws() in PAGE


def test_no_source_says_that_a_job_was_canceled() -> None:
    """Design §6.1: only we know what was asked of us; what another ended there is tried again."""
    families = {meaning.family.family for _, table in tables() for meaning in table.meanings.values()}
    assert families == {"invalid", "refused", "unavailable", "limit", "timeout"}


def test_only_what_is_unavailable_may_ask_for_a_wait() -> None:
    """Design §8: and the wait reaches whoever decides about it."""
    waits = [meaning for _, table in tables() for meaning in table.meanings.values() if meaning.wait is not None]
    assert {meaning.wait for meaning in waits} >= {10, 60, 900}
    for meaning in waits:
        error = meaning.error(" (1)")
        assert isinstance(error, UnavailableError)
        assert (error.retry_after, error.message) == (meaning.wait, f"{meaning.message} (1)")
        assert meaning.wait is not None
        assert meaning.wait <= LONGEST_DELAY


def test_no_other_module_knows_a_code_of_aws() -> None:
    """One place: a code that is compared elsewhere would not be in the table."""
    comparing = re.compile(r'\["Error"\]\["Code"\]')
    assert [path.name for path in SOURCES if comparing.search(path.read_text())] == ["errors.py"]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    told = " ".join(PAGE.split())
    assert f"{STANDARD.tries} tries" in told
    assert f"base {STANDARD.base:.0f} s, cap {STANDARD.cap:.0f} s" in told
    assert f"up to {LONGEST_WAIT:.0f} s" in told
    assert f"{LONGEST_DELAY} s" in told
    assert f"{STALLED_LIMIT} times" in told
    assert f"{DEFAULT_WORKERS} unless it says otherwise, {MOST_WORKERS} at most" in told
    assert f"{FOR_A_SLOT.base:.0f} s and grows to {FOR_A_SLOT.cap:.0f} s" in told


def test_every_test_module_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("point", list(Point))
def test_every_fault_point_stands_somewhere(point: Point) -> None:
    """R-000-73: a point that nothing reaches would kill nobody and prove nothing."""
    reached = f"reach(Point.{point.name})"
    assert any(reached in path.read_text() for path in SOURCES)


def test_no_two_fault_points_share_a_name() -> None:
    declared = re.findall(r'^    [A-Z_]+ = "([\w-]+)"$', Path(faults.__file__).read_text(), re.MULTILINE)
    assert sorted(declared) == sorted(str(point) for point in Point)
