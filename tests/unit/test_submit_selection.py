"""A selection to validate, checked whole before any source is asked."""

from typing import Any

import pytest

from fetcher.core.canonical import strict_loads
from fetcher.core.limits import DEFAULTS
from fetcher.core.selection import finding, parse
from fetcher.errors import InvalidRequestError, Where
from fetcher.model import Selection


def test_a_selection_is_sorted_and_keeps_the_order_of_fields() -> None:
    """An empty table map asks for the datasource alone, an empty list for the table alone."""
    parsed = parse({"mappedFields": {"b": {}, "a": {"u": [], "t": ["z", "a"], "v": ["*"]}}}, DEFAULTS)
    assert list(parsed) == ["a", "b"]
    assert parsed["a"] == (Selection("t", ("z", "a")), Selection("u", ()), Selection("v", ("*",)))
    assert parsed["b"] == ()


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (None, ["FET-0001"]),
        ({}, ["FET-0402"]),
        ({"mappedFields": None}, ["FET-0402"]),
        ({"mappedFields": []}, ["FET-0402"]),
        ({"mappedFields": {}}, ["FET-0401"]),
        ({"mappedFields": {"a": None}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": None}}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": "f"}}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": [7]}}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": ["*", "*"]}}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": ["x" * 512]}}}, []),
        ({"mappedFields": {"x" * 513: {}}}, ["FET-0401"]),
        ({"mappedFields": {"a": {"t": ["f"] * 50}}}, []),
        ({"mappedFields": {"a": {"t": ["f"] * 51}}}, ["FET-1061"]),
        ({"mappedFields": {"a": {f"t{n}": [] for n in range(20)}}}, []),
        ({"mappedFields": {f"a{n}": {} for n in range(11)}}, ["FET-1061"]),
    ],
)
def test_each_rule_has_its_code(body: Any, codes: list[str]) -> None:
    """Reference 3.6."""
    try:
        parse(body, DEFAULTS)
        found = []
    except InvalidRequestError as error:
        found = [error.code]
    assert found == codes


def test_every_problem_of_the_shape_is_in_one_answer() -> None:
    """Not only the first."""
    body = strict_loads('{"x":1,"mappedFields":{" ":{},"a":{"t":["","f",7],"u":3}}}')
    with pytest.raises(InvalidRequestError) as refused:
        parse(body, DEFAULTS)
    assert [problem.pointer for problem in refused.value.problems] == [
        "/x",
        "/mappedFields/ ",
        "/mappedFields/a/t/0",
        "/mappedFields/a/t/2",
        "/mappedFields/a/u",
    ]


def test_a_finding_points_at_what_the_caller_wrote() -> None:
    """RFC 6901: `~` and `/` are escaped."""
    assert finding("FIELD_NOT_FOUND", Where("a", "s/t~u", "f"), "", 3).pointer == "/mappedFields/a/s~1t~0u/3"
    assert finding("DATA_SOURCE_DOWN", Where("a"), "").pointer == "/mappedFields/a"
