"""In which phase a job failed: said once, where it is known, by whoever ends the job."""

from dataclasses import replace

import pytest

from fetcher.aws.sweeping import stalled_error
from fetcher.core.extraction import Extraction
from fetcher.core.lifecycle import Status
from fetcher.errors import ACTIONS, JOB_CODES, FetcherError, LimitError, Where, during

EXTRACTION = Extraction(
    tenant="default", id="e", status=Status.PROCESSING, source="payments", request_hash="h", connections={},
    generation=0, attempts=5, stalled=5, progress={}, spent_ms=0, created_at="2026-01-31T08:00:00.000Z",
)  # fmt: skip


def test_the_innermost_phase_is_the_one_that_is_told() -> None:
    """Design §6.1."""
    with pytest.raises(LimitError) as raised, during("sealing"), during("reading"):
        raise LimitError("too large", where=Where("pg", "t"))
    assert raised.value.public() == {
        "code": "FET-2040",
        "family": "limit",
        "message": "too large",
        "action": ACTIONS["limit"],
        "phase": "reading",
        "datasource": "pg",
        "table": "t",
    }


def test_an_error_of_another_make_passes_untouched() -> None:
    with pytest.raises(ZeroDivisionError), during("planning"):
        raise ZeroDivisionError


def test_every_family_says_what_to_do() -> None:
    """The texts are ours alone, so they are safe wherever the message is (R-000-82)."""
    assert ACTIONS.keys() == JOB_CODES.keys()
    assert "phase" not in FetcherError("x").public()


@pytest.mark.parametrize(
    ("changed", "phase", "where"),
    [
        ({}, "starting", Where()),
        ({"progress": {"current": "pg/public.a/b"}}, "reading", Where("pg", "public.a/b")),
        ({"progress": {"current": "waiting for a slot"}}, "starting", Where()),
        ({"progress": {"current": "pg/t"}, "phase": "seal"}, "sealing", Where("pg", "t")),
        ({"attempts": 0}, None, Where()),
    ],
)
def test_a_job_that_nobody_got_further_with_says_where_the_last_one_was(
    changed: dict[str, object], phase: str | None, where: Where
) -> None:
    """B-43, design §6.1: a wait is no datasource, though the record says that it waits until somebody reads again."""
    error = stalled_error(replace(EXTRACTION, **changed))  # type: ignore[arg-type] # members by name
    assert (error.phase, error.where) == (phase, where)
