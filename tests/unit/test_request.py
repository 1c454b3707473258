"""The body of POST /v1/fetcher: each rule, its code and its pointer."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from fetcher.core.canonical import Number, dumps, strict_loads
from fetcher.core.request import MAX_BODY_BYTES, check_size, parse
from fetcher.errors import InvalidRequestError
from fetcher.model import Condition, Limits, Selection

SOURCE = {"source": "payments"}


def body(mapped: Any = None, filters: Any = None, metadata: Any = None, **more: Any) -> dict[str, Any]:
    data_request = {"mappedFields": {"pg": {"t": ["id"]}} if mapped is None else mapped}
    if filters is not None:
        data_request["filters"] = filters
    return {"dataRequest": data_request, "metadata": SOURCE if metadata is None else metadata, **more}


def filtered(operators: Any, field: str = "f") -> dict[str, Any]:
    return body(filters={"pg": {"t": {field: operators}}})


def problems(request: Any) -> list[tuple[str, str]]:
    """Return the code of the answer with the pointer of each problem."""
    with pytest.raises(InvalidRequestError) as caught:
        parse(request)
    return [(caught.value.code, problem.pointer) for problem in caught.value.problems]


def conditions(operators: Mapping[str, Any]) -> tuple[Condition, ...]:
    return parse(filtered(operators)).datasources["pg"][0].conditions


def test_the_seeds_own_example_is_accepted() -> None:
    """R-000-1, R-000-3."""
    request = parse(
        {
            "dataRequest": {
                "mappedFields": {
                    "my_postgres": {
                        "public.accounts": ["id", "email", "created_at"],
                        "accounting.invoices": ["*"],
                    },
                    "my_mongo": {"transactions": ["*"]},
                }
            },
            "metadata": {"source": "payments", "correlationId": "settlement-2026-07-13"},
        }
    )
    assert request.datasources == {
        "my_mongo": (Selection("transactions", ("*",)),),
        "my_postgres": (
            Selection("accounting.invoices", ("*",)),
            Selection("public.accounts", ("id", "email", "created_at")),
        ),
    }
    assert request.metadata == {"source": "payments", "correlationId": "settlement-2026-07-13"}
    assert request.source == "payments"


def test_datasources_and_tables_are_sorted_whatever_their_order_in_the_body() -> None:
    """R-000-83."""
    request = parse(body({"b": {"z": ["1"], "a": ["2"]}, "a": {"t": ["3"]}}))
    assert list(request.datasources) == ["a", "b"]
    assert [selection.table for selection in request.datasources["b"]] == ["a", "z"]


def test_a_field_named_twice_is_read_once_in_its_first_place() -> None:
    """R-000-18."""
    assert parse(body({"pg": {"t": ["b", "a", "b"]}})).datasources["pg"][0].fields == ("b", "a")


@pytest.mark.parametrize("value", [None, [], "text", 1, True])
def test_a_body_that_is_no_object_is_refused(value: Any) -> None:
    assert problems(value) == [("FET-0001", "")]


@pytest.mark.parametrize("name", ["limits", "overrides", "filter", "DataRequest"])
def test_an_unknown_member_is_named(name: str) -> None:
    """R-000-10, R-000-45."""
    assert problems(body(**{name: {}})) == [("FET-0400", f"/{name}")]
    request = body()
    request["dataRequest"][name] = {}
    assert problems(request) == [("FET-0400", f"/dataRequest/{name}")]


@pytest.mark.parametrize(
    ("data_request", "pointer"),
    [
        (None, "/dataRequest"),
        ([], "/dataRequest"),
        ({}, "/dataRequest/mappedFields"),
        ({"mappedFields": None}, "/dataRequest/mappedFields"),
        ({"mappedFields": {}}, "/dataRequest/mappedFields"),
        ({"mappedFields": ["pg"]}, "/dataRequest/mappedFields"),
        ({"mappedFields": {"pg": {}}}, "/dataRequest/mappedFields/pg"),
        ({"mappedFields": {"pg": None}}, "/dataRequest/mappedFields/pg"),
        ({"mappedFields": {"pg": ["t"]}}, "/dataRequest/mappedFields/pg"),
        ({"mappedFields": {"pg": {"t": []}}}, "/dataRequest/mappedFields/pg/t"),
        ({"mappedFields": {"pg": {"t": None}}}, "/dataRequest/mappedFields/pg/t"),
        ({"mappedFields": {"pg": {"t": "id"}}}, "/dataRequest/mappedFields/pg/t"),
        ({"mappedFields": {"pg": {"t": {"id": 1}}}}, "/dataRequest/mappedFields/pg/t"),
        ({"mappedFields": {"pg": {"t": [7]}}}, "/dataRequest/mappedFields/pg/t/0"),
        ({"mappedFields": {"pg": {"t": ["id", " "]}}}, "/dataRequest/mappedFields/pg/t/1"),
        ({"mappedFields": {"pg": {"t": ["a\0"]}}}, "/dataRequest/mappedFields/pg/t/0"),
        ({"mappedFields": {"pg": {"t": ["id"], "u": []}}}, "/dataRequest/mappedFields/pg/u"),
        ({"mappedFields": {"pg": {"t": ["a", "b" * 513]}}}, "/dataRequest/mappedFields/pg/t/1"),
        ({"mappedFields": {"pg": {"t" * 513: ["id"]}}}, f"/dataRequest/mappedFields/pg/{'t' * 128}…"),
        ({"mappedFields": {"": {"t": ["id"]}}}, "/dataRequest/mappedFields/"),
        ({"mappedFields": {"pg": {"t\0": ["id"]}}}, "/dataRequest/mappedFields/pg/t\0"),
        ({"mappedFields": {"pg": {"t": ["id"], "t ": ["id"]}}}, "/dataRequest/mappedFields/pg/t "),
        ({"mappedFields": {"pg": {"t": ["id"]}, " pg": {"t": ["id"]}}}, "/dataRequest/mappedFields/pg"),
    ],
)
def test_a_selection_that_means_nothing_is_refused(data_request: Any, pointer: str) -> None:
    """R-000-2, R-000-16, R-000-17, R-000-34, R-AWS-4."""
    assert problems({"dataRequest": data_request, "metadata": SOURCE}) == [("FET-0401", pointer)]


@pytest.mark.parametrize("fields", [["*", "id"], ["id", "*"], ["*", "*"]])
def test_the_wildcard_must_be_alone(fields: list[str]) -> None:
    """R-000-15."""
    assert problems(body({"pg": {"t": fields}})) == [("FET-0401", "/dataRequest/mappedFields/pg/t")]


def many(count: int, value: Any) -> dict[str, Any]:
    return {f"n{index:05}": value for index in range(count)}


def test_10_datasources_are_accepted_and_11_refused() -> None:
    """R-000-35."""
    assert len(parse(body(many(10, {"t": ["id"]}))).datasources) == 10
    assert problems(body(many(11, {"t": ["id"]}))) == [("FET-0401", "/dataRequest/mappedFields")]


def test_20_tables_are_accepted_and_21_refused() -> None:
    """R-000-36."""
    assert len(parse(body({"pg": many(20, ["id"])})).datasources["pg"]) == 20
    assert problems(body({"pg": many(21, ["id"])})) == [("FET-0401", "/dataRequest/mappedFields/pg")]


def test_50_fields_are_accepted_and_51_refused() -> None:
    """R-000-37."""
    assert len(parse(body({"pg": {"t": list(many(50, 0))}})).datasources["pg"][0].fields) == 50
    assert problems(body({"pg": {"t": list(many(51, 0))}})) == [("FET-0401", "/dataRequest/mappedFields/pg/t")]


def test_lowered_limits_count() -> None:
    with pytest.raises(InvalidRequestError, match="2 tables are too many; 1 are allowed"):
        parse(body({"pg": many(2, ["id"])}), Limits(tables=1))


def test_the_largest_legal_body_is_accepted() -> None:
    """R-000-12."""
    names = [f"{index:063}" for index in range(50)]
    request = body({name: dict.fromkeys(names[:20], names) for name in names[:10]})
    check_size(len(dumps(request)))
    assert len(parse(strict_loads(dumps(request))).datasources) == 10


def test_a_body_over_2_mib_is_refused() -> None:
    """R-000-11."""
    check_size(MAX_BODY_BYTES)
    with pytest.raises(InvalidRequestError) as caught:
        check_size(MAX_BODY_BYTES + 1)
    assert caught.value.code == "FET-2003"


@pytest.mark.parametrize(
    ("metadata", "pointer"),
    [
        ([], "/metadata"),
        ("payments", "/metadata"),
        ({}, "/metadata/source"),
        ({"source": None}, "/metadata/source"),
        ({"source": 7}, "/metadata/source"),
        ({"source": " \t"}, "/metadata/source"),
        ({"source": "p", "note": "x" * 8192}, "/metadata"),
    ],
)
def test_metadata_must_name_its_product_and_stay_small(metadata: Any, pointer: str) -> None:
    """R-000-4, R-000-5."""
    assert problems(body(metadata=metadata)) == [("FET-0402", pointer)]


def test_missing_metadata_is_refused() -> None:
    """R-000-4."""
    assert problems({"dataRequest": body()["dataRequest"]}) == [("FET-0402", "/metadata")]


def test_metadata_of_exactly_8_kib_is_accepted() -> None:
    free = 8192 - len(dumps({"source": "p", "n": ""}))
    assert parse(body(metadata={"source": "p", "n": "ä" * (free // 2) + "x" * (free % 2)}))


def test_extra_metadata_comes_back_unchanged() -> None:
    """R-000-9."""
    text = '{"source":" Pay ","n":1.50,"deep":[{"x":null}]}'
    request = parse(body(metadata=strict_loads(text)))
    assert dumps(request.metadata) == text
    assert request.source == "pay"


@pytest.mark.parametrize(
    ("filters", "pointer"),
    [
        ([], "/dataRequest/filters"),
        ("x", "/dataRequest/filters"),
        ({"my": {"t": {}}}, "/dataRequest/filters/my"),
        ({"pg": None}, "/dataRequest/filters/pg"),
        ({"pg": []}, "/dataRequest/filters/pg"),
        ({"pg": {"public.t": {}}}, "/dataRequest/filters/pg/public.t"),
        ({"pg": {"t": []}}, "/dataRequest/filters/pg/t"),
        ({"pg": {"t": {" ": {"eq": [1]}}}}, "/dataRequest/filters/pg/t/ "),
        ({"pg": {"t": {"a\0": {"eq": [1]}}}}, "/dataRequest/filters/pg/t/a\0"),
    ],
)
def test_a_filter_must_name_what_was_selected(filters: Any, pointer: str) -> None:
    """R-000-87."""
    assert problems(body(filters=filters)) == [("FET-0401", pointer)]


@pytest.mark.parametrize("filters", [None, {}, {"pg": {}}, {"pg": {"t": {}}}])
def test_empty_filters_are_no_filters(filters: Any) -> None:
    assert parse(body(filters=filters)).datasources["pg"][0].conditions == ()


@pytest.mark.parametrize("operators", [{}, {"like!": ["a"]}, {"EQ": [1]}, {"$gt": [1]}])
def test_an_unknown_operator_is_refused_and_never_dropped(operators: Mapping[str, Any]) -> None:
    """R-000-88, B-08: a filter that is left out would widen the job."""
    path = "".join(f"/{name}" for name in operators)
    assert problems(filtered(operators)) == [("FET-2001", f"/dataRequest/filters/pg/t/f{path}")]


@pytest.mark.parametrize(
    ("operators", "path"),
    [
        (["a"], ""),
        ("a", ""),
        (None, ""),
        ({"eq": 1}, "/eq"),
        ({"eq": "abc"}, "/eq"),
        ({"eq": None}, "/eq"),
        ({"eq": {"a": 1}}, "/eq"),
        ({"gt": []}, "/gt"),
        ({"gte": [1, 2]}, "/gte"),
        ({"lt": []}, "/lt"),
        ({"lte": [1, 2, 3]}, "/lte"),
        ({"between": [1]}, "/between"),
        ({"between": [1, 2, 3]}, "/between"),
        ({"like": []}, "/like"),
        ({"like": ["a", "b"]}, "/like"),
        ({"like": [1]}, "/like/0"),
        ({"like": [None]}, "/like/0"),
        ({"gt": [None]}, "/gt/0"),
        ({"between": [1, None]}, "/between/1"),
        ({"in": [1, [2]]}, "/in/1"),
        ({"eq": [{"a": 1}]}, "/eq/0"),
        ({"eq": [0.5]}, "/eq/0"),
    ],
)
def test_values_are_a_list_of_the_operators_arity(operators: Any, path: str) -> None:
    """R-000-85."""
    assert problems(filtered(operators)) == [("FET-2002", f"/dataRequest/filters/pg/t/f{path}")]


@pytest.mark.parametrize("operator", ["eq", "ne", "in", "nin"])
@pytest.mark.parametrize("values", [[], [None], ["a", None, True], list(range(99))])
def test_equality_takes_any_number_of_values_and_null(operator: str, values: list[Any]) -> None:
    """R-000-86, R-000-93."""
    assert conditions({operator: values})[0].values == tuple(values)


def test_numbers_arrive_exactly() -> None:
    """R-000-101, B-23: no number of a filter passes through a float."""
    given = strict_loads('{"in":[9007199254740993,0.1,1e2,-0,1.0]}')
    assert isinstance(given["in"][1], Number)
    values = conditions(given)[0].values
    assert values == (9007199254740993, Decimal("0.1"), Decimal("1e2"), 0, Decimal("1.0"))
    assert [type(value) for value in values] == [int, Decimal, Decimal, int, Decimal]


def test_conditions_are_in_one_order_whatever_the_bodys() -> None:
    """R-000-84."""
    operators = {"like": ["a%"], "nin": [1], "in": [1], "between": [1, 2], "lte": [1]}
    more = {"lt": [1], "gte": [1], "gt": [1], "ne": [1], "eq": [1]}
    given = parse(body(filters={"pg": {"t": {"b": operators | more, "a": {"eq": [1]}}}})).datasources["pg"][0]
    assert [(condition.field, condition.operator) for condition in given.conditions] == [
        ("a", "eq"),
        *(("b", name) for name in ("eq", "ne", "gt", "gte", "lt", "lte", "between", "in", "nin", "like")),
    ]


def test_50_filter_fields_are_accepted_and_51_refused() -> None:
    """R-000-89."""
    assert parse(body(filters={"pg": {"t": many(50, {"eq": [1]})}}))
    assert problems(body(filters={"pg": {"t": many(51, {"eq": [1]})}})) == [("FET-0401", "/dataRequest/filters/pg/t")]


def test_10000_values_are_accepted_and_one_more_refused() -> None:
    assert parse(filtered({"in": list(range(10_000))}))
    too_many = filtered({"in": list(range(10_000)), "eq": [1]})
    assert problems(too_many) == [("FET-0401", "/dataRequest/filters")]


def test_every_problem_is_reported_in_the_order_of_the_schema() -> None:
    request = {
        "metadata": {"source": ""},
        "dataRequest": {
            "filters": {"pg": {"t": {"f": {"gt": 1, "near": [1]}}}, "other": {}},
            "mappedFields": {"pg": {"t": ["*", "id"], "s": []}},
            "sort": [],
        },
        "limits": {},
    }
    assert problems(request) == [
        ("FET-0400", "/limits"),
        ("FET-0400", "/dataRequest/sort"),
        ("FET-0400", "/dataRequest/mappedFields/pg/s"),
        ("FET-0400", "/dataRequest/mappedFields/pg/t"),
        ("FET-0400", "/dataRequest/filters/other"),
        ("FET-0400", "/dataRequest/filters/pg/t/f/near"),
        ("FET-0400", "/dataRequest/filters/pg/t/f/gt"),
        ("FET-0400", "/metadata/source"),
    ]


def test_no_text_of_an_answer_holds_a_value_of_a_filter() -> None:
    """R-000-82."""
    with pytest.raises(InvalidRequestError) as caught:
        parse(filtered({"eq": "secret-value", "gt": ["secret-value", "secret-value"]}))
    assert "secret-value" not in str(caught.value) + str(caught.value.problems)
