"""Strict JSON in, the same JSON out, and the hash of a request."""

import json
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.canonical import MAX_DEPTH, Number, dumps, request_hash, strict_loads
from fetcher.core.problems import LONGEST_NAME, SHOWN
from fetcher.errors import InvalidRequestError

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
scalars = st.none() | st.booleans() | texts | numbers.map(Number)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


def refused(text: str | bytes) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        strict_loads(text)
    return caught.value


def pointers(error: InvalidRequestError) -> list[str]:
    return [problem.pointer for problem in error.problems]


@given(values)
def test_what_was_read_is_written_back_unchanged(value: Any) -> None:
    """R-000-9."""
    text = dumps(value)
    assert dumps(strict_loads(text)) == text
    assert dumps(strict_loads(text.encode())) == text


def test_only_quotes_backslashes_and_controls_are_escaped() -> None:
    assert dumps('ä€😀/<&\u2028\x7f"\\\n\x00') == '"ä€😀/<&\u2028\x7f\\"\\\\\\n\\u0000"'


@pytest.mark.parametrize(
    ("text", "exact"),
    [("1", 1), ("-0", 0), ("1.0", Decimal("1.0")), ("1e0", Decimal("1e0")), ("1" * 1000, int("1" * 1000))],
)
def test_numbers_keep_their_value_and_their_text(text: str, exact: int | Decimal) -> None:
    read = strict_loads(text)
    value = read.exact if isinstance(read, Number) else read
    assert (value, type(value), dumps(read)) == (exact, type(exact), text)


def test_python_numbers_of_embedded_callers_are_written_as_they_print() -> None:
    assert dumps([1, 0.5, Decimal("1.50"), (True, None)]) == "[1,0.5,1.50,[true,null]]"


@pytest.mark.parametrize("value", [float("nan"), Decimal("Infinity"), b"bytes", {1: 2}, {"a": object()}])
def test_what_is_not_json_is_never_written(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize(
    "text", ["", "{", "{'a':1}", "[1,]", "nul", "01", "\ufeff{}", "{} {}", '"\n"', b"\xff", b'"\xc3"']
)
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    """R-000-11."""
    error = refused(text)
    assert (error.code, pointers(error)) == ("FET-0001", [""])


def test_a_repeated_member_is_refused_at_its_place() -> None:
    """R-000-11."""
    error = refused('{"a":[{"b":1,"c":2,"b":3,"c":4,"d":5}]}')
    assert (error.code, pointers(error)) == ("FET-0001", ["/a/0/b", "/a/0/c"])


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(word: str) -> None:
    """R-000-11."""
    error = refused(f'{{"a":[1,{word}]}}')
    assert (error.code, pointers(error)) == ("FET-0001", ["/a/1"])
    assert word in error.message


@pytest.mark.parametrize("text", ['{"a":"\\ud800"}', '{"a":"\\udc00\\ud800"}', '{"a":"ä\ud800"}'])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    error = refused(text)
    assert (error.code, pointers(error)) == ("FET-0001", ["/a"])


def test_a_lone_surrogate_in_a_name_gives_a_pointer_that_can_be_sent() -> None:
    assert pointers(refused('{"\\ud800":1}')) == ["/?"]


def test_a_surrogate_pair_is_one_character() -> None:
    assert strict_loads('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("text", ["9" * 1001, "0." + "1" * 1000, "1e1001", "1E-1001", "1e99999999999999999999"])
def test_absurd_numbers_are_refused_before_they_fill_the_memory(text: str) -> None:
    error = refused(f"[{text}]")
    assert (error.code, pointers(error)) == ("FET-0001", ["/0"])


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_of_32_is_read_and_of_33_refused(opening: str, closing: str) -> None:
    assert strict_loads(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    error = refused(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    assert error.code == "FET-0401"
    assert pointers(error)[0].count("/") == MAX_DEPTH


def test_endless_nesting_is_refused_too() -> None:
    error = refused("[" * 200_000)
    assert (error.code, pointers(error)) == ("FET-0401", [""])


def test_all_problems_are_listed_and_the_code_is_that_of_the_first() -> None:
    deep = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    error = refused(f'{{"deep":{deep},"x":NaN}}')
    assert error.code == "FET-0401"
    assert error.message.endswith("(and 1 more)")
    assert pointers(error)[-1] == "/x"


def test_a_flood_of_problems_is_counted_not_listed() -> None:
    error = refused("[" + ",".join(["NaN"] * (SHOWN + 7)) + "]")
    assert len(error.problems) == SHOWN + 1
    assert error.problems[-1].detail == "7 more problems are not listed"


def test_pointers_are_escaped_and_kept_short() -> None:
    """RFC 6901."""
    long = "x" * (LONGEST_NAME + 1)
    error = refused(f'{{"a/b~c":NaN,"{long}":NaN}}')
    assert pointers(error) == ["/a~1b~0c", "/" + "x" * LONGEST_NAME + "…"]


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(texts, values, max_size=4), st.dictionaries(texts, values, max_size=4))
def test_the_hash_ignores_key_order_and_spacing(data_request: dict[str, Any], metadata: dict[str, Any]) -> None:
    """R-000-49."""
    spaced = strict_loads(dumps({"m": metadata, "d": data_request}).replace("\n", " \n\t"))
    expected = request_hash(data_request, metadata)
    assert request_hash(shuffled(data_request), shuffled(metadata)) == expected
    assert request_hash(spaced["d"], spaced["m"]) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1.0}', '{"a":1e0}'),
        ('{"a":0}', '{"a":-0}'),
        ('{"a":["x","y"]}', '{"a":["y","x"]}'),
        ('{"a":"\\u00e9"}', '{"a":"e\\u0301"}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":null}', "{}"),
    ],
)
def test_the_hash_tells_lists_numbers_and_unicode_texts_apart(one: str, other: str) -> None:
    """R-000-49."""
    assert request_hash({}, strict_loads(one)) != request_hash({}, strict_loads(other))
    assert request_hash(strict_loads(one), {}) != request_hash(strict_loads(other), {})


def test_the_hash_covers_the_data_request_and_the_metadata() -> None:
    """R-000-48, R-000-53."""
    hashes = {request_hash({"a": a}, {"correlationId": b}) for a in range(3) for b in range(3)}
    assert len(hashes) == 9


@pytest.mark.parametrize("filters", [{}, {"filters": None}, {"filters": {}}])
def test_absent_null_and_empty_filters_are_one_request(filters: Mapping[str, Any]) -> None:
    mapped = {"mappedFields": {"pg": {"t": ["*"]}}}
    assert request_hash({**mapped, **filters}, {}) == request_hash(mapped, {})
    assert request_hash({**mapped, "filters": {"pg": {}}}, {}) != request_hash(mapped, {})


def test_the_hash_is_taken_over_the_form_that_the_design_names() -> None:
    data_request = strict_loads('{"mappedFields":{"z":{"t":["b","a"]},"Z":{"é":["*"]}},"filters":null}')
    metadata = strict_loads('{"source":"pay","n":1.50,"x":"a&b"}')
    form = (
        '{"dataRequest":{"mappedFields":{"Z":{"é":["*"]},"z":{"t":["b","a"]}}},'
        '"metadata":{"n":1.50,"source":"pay","x":"a&b"}}'
    )
    assert request_hash(data_request, metadata) == sha256(form.encode()).hexdigest()


@given(values)
def test_other_readers_understand_what_is_written(value: Any) -> None:
    assert json.loads(dumps(value, sort=True)) == json.loads(dumps(value))
