"""Overrides lower limits and do nothing else; settings that cannot work together are refused at the start."""

from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.limits import DEFAULTS, lowered
from fetcher.errors import FetcherError, InvalidRequestError
from fetcher.model import Limits
from fetcher.settings import load, max_result_bytes

NAMES = [limit.name for limit in fields(Limits)]


def test_the_defaults_are_those_of_the_public_system() -> None:
    assert asdict(DEFAULTS) == {
        "datasources": 10,
        "tables": 20,
        "fields": 50,
        "filter_fields": 50,
        "filter_values": 10_000,
        "parallel": 4,
        "seconds": 300.0,
        "result_bytes": 268_435_456,
    }


@given(st.dictionaries(st.sampled_from(NAMES), st.integers()))
def test_an_override_never_raises_a_limit(overrides: dict[str, float]) -> None:
    """R-000-44."""
    try:
        after = lowered(DEFAULTS, overrides)
    except InvalidRequestError:
        assert any(value > getattr(DEFAULTS, name) for name, value in overrides.items())
        return
    for name in NAMES:
        assert 0 < getattr(after, name) <= getattr(DEFAULTS, name)
        if overrides.get(name, 0) > 0:
            assert getattr(after, name) == overrides[name]


@pytest.mark.parametrize("name", NAMES)
def test_an_override_above_the_limit_is_refused_by_name(name: str) -> None:
    """R-000-44."""
    with pytest.raises(InvalidRequestError, match=f"limit {name} "):
        lowered(DEFAULTS, {name: getattr(DEFAULTS, name) + 1})


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_no_positive_number_keeps_the_limit(value: float) -> None:
    """R-000-44."""
    assert lowered(Limits(seconds=7.0), {"seconds": value}).seconds == 7.0


def test_seconds_may_be_a_fraction() -> None:
    assert lowered(DEFAULTS, {"seconds": 0.5}).seconds == 0.5


@pytest.mark.parametrize("value", ["5", True, None, 2.5])
def test_an_override_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequestError, match="limit tables takes a number such as 20"):
        lowered(DEFAULTS, {"tables": value})  # type: ignore[dict-item]


def test_an_unknown_override_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="no limit maxTables"):
        lowered(DEFAULTS, {"maxTables": 1})


@pytest.mark.parametrize(
    ("text", "size"),
    [("1048576", 1_048_576), (None, 268_435_456), ("0", 268_435_456), ("-5", 268_435_456), ("1.5", 268_435_456)],
)
def test_only_a_positive_integer_moves_the_result_bound(text: str | None, size: int) -> None:
    """R-000-46."""
    assert max_result_bytes(text) == size


@pytest.mark.parametrize(("lease", "heartbeat"), [("60", "31"), ("0.5", None), ("2", "60")])
def test_a_heartbeat_that_no_claim_survives_is_refused_at_the_start(lease: str, heartbeat: str | None) -> None:
    """R-000-69: no worker could keep its claim, so every job would fail after five leases, without this reason."""
    given = {"FETCHER_LEASE_SECONDS": lease, **({"FETCHER_HEARTBEAT_SECONDS": heartbeat} if heartbeat else {})}
    with pytest.raises(FetcherError, match="FETCHER_HEARTBEAT_SECONDS is more than half of FETCHER_LEASE_SECONDS"):
        load(given)
    assert load({**given, "FETCHER_HEARTBEAT_SECONDS": str(float(lease) / 2)}).lease_ms == 1000 * float(lease)
