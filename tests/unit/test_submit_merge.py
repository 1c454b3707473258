"""Pure parts of the connection routes: the merge patch and the bucket of tests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.aws.rates import _FIRST, _FURTHER, EACH_MS, TESTS
from fetcher.core.merge import merged
from fetcher.core.rules import applied, holds


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(target: Any, patch: Any, result: Any) -> None:
    """RFC 7396, appendix A."""
    assert merged(target, patch) == result


def taken(item: dict[str, Any], now: int) -> dict[str, Any] | None:
    """Take a test as `Rates` does, in memory; None when there is none."""
    values = {"now": now, "next": now + EACH_MS, "latest": now + (TESTS - 1) * EACH_MS, "expiresAt": 0}
    for rule in (_FIRST, _FURTHER):
        if holds(rule.when, item, values):
            return applied(rule, {"PK": "x", **item}, values)
    return None


@given(st.lists(st.integers(0, 20_000), max_size=80))
def test_a_bucket_gives_ten_at_once_and_ten_a_minute(pauses: list[int]) -> None:
    """R-000-98: in every stretch of time, ten more than six seconds each allow, and never fewer than that."""
    item: dict[str, Any] = {}
    now = 1_000_000
    times: list[int] = []
    for pause in pauses:
        now += pause
        after = taken(item, now)
        if after is None:
            assert len([time for time in times if time > now - TESTS * EACH_MS]) >= TESTS - 1
            continue
        item = after
        times.append(now)
    for first, begin in enumerate(times):
        for count, end in enumerate(times[first:], 1):
            assert count <= TESTS + (end - begin) / EACH_MS
