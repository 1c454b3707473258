"""Every BSON type that a server stores as JSON, fields, and filters with MongoDB's own corners (`design.md` §7)."""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util
from bson.binary import Binary
from bson.dbref import DBRef
from bson.json_util import CANONICAL_JSON_OPTIONS

from fetcher.core.plan import plan
from fetcher.engines import engine
from fetcher.errors import SCHEMA_VALIDATION, InvalidRequestError
from fetcher.model import Catalog, Condition, Encoding, Operator, Selection, Table
from fetcher.ports import Session
from tests.contract.conftest import rows_of
from tests.contract.kinds import Source

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
OID = ObjectId("65a1b2c3d4e5f60718293a4b")

VALUES: Sequence[tuple[Any, str]] = [
    (Int64(2**63 - 1), "9223372036854775807"),
    (-(2**31), "-2147483648"),
    (Decimal128("12345678901234567890123456789012.90"), '"12345678901234567890123456789012.90"'),
    (Decimal128("-0.000"), '"-0.000"'),
    (Decimal128("1E+40"), '"1E+40"'),
    (Decimal128("1E-7"), '"1E-7"'),
    (Decimal128("NaN"), '"NaN"'),
    (Decimal128("-Infinity"), '"-Infinity"'),
    (0.1, "0.1"),
    (1.0, "1.0"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (float("nan"), '"NaN"'),
    (float("inf"), '"Infinity"'),
    (float("-inf"), '"-Infinity"'),
    (True, "true"),
    (False, "false"),
    (None, "null"),
    ("", '""'),
    ('a"b\\c\n\t\r\b\f\x01\x1f\x7f/\0', r'"a\"b\\c\n\t\r\b\f\u0001\u001f' + "\x7f/" + r'\u0000"'),
    ("Größe 🎉 \u2028", '"Größe 🎉 \u2028"'),
    ("$where", '"$where"'),
    (OID, '"65a1b2c3d4e5f60718293a4b"'),
    (datetime(2026, 1, 31, 8, 30, 0, 120_000, UTC), '"2026-01-31T08:30:00.120Z"'),
    (datetime(1, 1, 1, tzinfo=UTC), '"0001-01-01T00:00:00.000Z"'),
    (datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), '"1969-12-31T23:59:59.999Z"'),
    (Binary(UUID.bytes, 4), f'"{UUID}"'),
    (Binary(UUID.bytes, 3), f'"{UUID}"'),
    (Binary(b"", 0), '""'),
    (Binary(b"\x00\xff\x10", 0), '"AP8Q"'),
    (Binary(UUID.bytes, 0), '"ABEiM0RVZneImaq7zN3u/w=="'),
    (Binary(b"\x00\xff\x10", 128), '"AP8Q"'),
    (Timestamp(7, 1), '{"$timestamp":{"t":7,"i":1}}'),
    (Regex("^a/b", "im"), '{"$regularExpression":{"pattern":"^a/b","options":"im"}}'),
    (MinKey(), '{"$minKey":1}'),
    (MaxKey(), '{"$maxKey":1}'),
    (Code("x()"), '{"$code":"x()"}'),
    (Code("x()", {"a": 1}), '{"$code":"x()","$scope":{"a":1}}'),
    (DBRef("c", OID), '{"$ref":"c","$id":"65a1b2c3d4e5f60718293a4b"}'),
    ({}, "{}"),
    ([], "[]"),
    (
        {"b": 1, "a": {"": [Decimal128("1.10"), None, {"x": OID}]}},
        '{"b":1,"a":{"":["1.10",null,{"x":"' + str(OID) + '"}]}}',
    ),
    ([[1, "a"], [], {"k": True}], '[[1,"a"],[],{"k":true}]'),
]

Fill = Callable[[str, Sequence[dict[str, Any]]], Table]


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


@pytest.fixture(scope="module")
def session(served: Source) -> Iterator[Session]:
    with engine("mongodb").connect(served.to, served.secret, seconds=120, application="values") as opened:
        yield opened


@pytest.fixture
def fill(served: Source, session: Session) -> Fill:
    """Put documents into a new collection and discover it."""

    def filled(name: str, documents: Sequence[dict[str, Any]]) -> Table:
        for command in ({"drop": name}, {"create": name}, {"insert": name, "documents": documents}):
            if command.get("documents") != []:
                run(served, command)
        return session.discover([name]).tables[(name,)]

    return filled


def run(served: Source, command: dict[str, Any]) -> None:
    served.run(json_util.dumps(command, json_options=CANONICAL_JSON_OPTIONS))


Given = tuple[str, Operator, tuple[Any, ...]]


def read(session: Session, served: Source, table: Table, fields: Sequence[str] = ("*",), *given: Given) -> bytes:
    """Plan as the core does, so that values are checked and fields made up as in production."""
    name = table.path[-1]
    selection = Selection(name, tuple(fields), tuple(Condition(*each) for each in given))
    (query,) = plan("d", [selection], Catalog({table.path: table}), engine("mongodb").NAMING, served.to)
    return b",".join(page.body for page in session.read(query, None))


def ids(session: Session, served: Source, table: Table, *given: Given) -> list[Any]:
    return [row["_id"] for row in json.loads(b"[" + read(session, served, table, ["_id"], *given) + b"]")]


def test_every_value_is_exact(session: Session, served: Source, fill: Fill) -> None:
    """R-000-101: whole documents, and the same values one field at a time."""
    table = fill("values", [{"_id": at, "v": value} for at, (value, _) in enumerate(VALUES)])
    lines = [f'{{"_id":{at},"v":{text}}}' for at, (_, text) in enumerate(VALUES)]
    assert read(session, served, table).decode() == ",".join(lines)
    assert read(session, served, table, ["v"]).decode() == ",".join(f'{{"v":{text}}}' for _, text in VALUES)
    json.loads(f"[{','.join(lines)}]")


def test_the_wildcard_gives_documents_as_they_are_stored(session: Session, served: Source, fill: Fill) -> None:
    """R-000-14: their own members in their own order, whatever the sample has seen."""
    table = fill("stored", [{"_id": 1, "b": 1, "a": 2}, {"_id": 2, "a": 3}, {"_id": 3, "A": None, "a.b": 1, "$c": 2}])
    whole = '{"_id":1,"b":1,"a":2},{"_id":2,"a":3},{"_id":3,"A":null,"a.b":1,"$c":2}'
    assert read(session, served, table).decode() == whole


def test_no_stored_field_is_dropped_because_the_sample_missed_it(session: Session, served: Source, fill: Fill) -> None:
    """B-16: a field of one document in the middle of thousands is in the result, and may be asked for."""
    documents: list[dict[str, Any]] = [{"_id": at, "n": at} for at in range(1500)]
    documents[700]["rare"] = {"deep": "x"}
    table = fill("rare", documents)
    assert table.column("rare") is None
    assert read(session, served, table).count(b"rare") == 1
    assert read(session, served, table, ["rare.deep"], ("rare.deep", "eq", ("x",))) == b'{"rare.deep":"x"}'
    assert ids(session, served, table, ("rare", "ne", (None,))) == [700]


def test_requested_fields_come_in_order_and_a_missing_one_is_null(session: Session, served: Source, fill: Fill) -> None:
    """R-000-13: and `_id` only on request."""
    table = fill("missing", [{"_id": 1, "a": 1, "b": None}, {"_id": 2, "b": 2}])
    assert read(session, served, table, ["b", "a"]).decode() == '{"b":null,"a":1},{"b":2,"a":null}'
    assert read(session, served, table, ["a", "_id"]).decode() == '{"a":1,"_id":1},{"a":null,"_id":2}'


NESTED = {
    "_id": 1,
    "a": {"city": "Köln", "geo": {"lat": 1.5}, "0": "zero"},
    "items": [{"sku": "x", "n": 1}, {"n": 2}, 7, {"sku": None}],
}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("a.city", '"Köln"'),
        ("a.geo", '{"lat":1.5}'),
        ("a.geo.lat", "1.5"),
        ("a.geo.lat.none", "null"),
        ("a.none", "null"),
        ("a.0", '"zero"'),
        ("items.sku", '["x",null]'),
        ("items.n", "[1,2]"),
        ("items.none", "[]"),
        ("items.0.sku", '"x"'),
        ("items.2", "7"),
        ("items.9", "null"),
    ],
)
def test_a_dotted_field_addresses_a_nested_one(
    session: Session, served: Source, fill: Fill, field: str, expected: str
) -> None:
    """B-16: through arrays too, as the server's own expressions do."""
    table = fill("nested", [NESTED])
    assert read(session, served, table, [field]).decode() == f'{{"{field}":{expected}}}'
    both = read(session, served, table, [field, "a", "items.0", "_id"]).decode()
    assert both.startswith(f'{{"{field}":{expected},"a":{{"city"')


def test_a_name_with_a_dot_of_its_own_is_read_but_not_filtered(session: Session, served: Source, fill: Fill) -> None:
    table = fill("dotted", [{"_id": 1, "a.b": 7, "$x": 8, "": 9}])
    assert read(session, served, table, ["a.b", "$x", ""]) == b'{"a.b":7,"$x":8,"":9}'
    for field in ("a.b", "$x", ""):
        with pytest.raises(InvalidRequestError, match=SCHEMA_VALIDATION) as caught:
            read(session, served, table, ["_id"], (field, "eq", (7,)))
        assert caught.value.where.field == field


@pytest.mark.parametrize("field", ["$where", "a.$where", "a..b", ".a", "a.", "no\0", "*"])
def test_a_name_that_would_be_something_else_is_no_field(
    session: Session, served: Source, fill: Fill, field: str
) -> None:
    """R-000-94: a name never gets into an operator's place."""
    with pytest.raises(InvalidRequestError, match=SCHEMA_VALIDATION):
        read(session, served, fill("operators", [{"_id": 1, "a": {}}]), ["_id"], (field, "eq", ("1",)))


def test_a_field_below_a_scalar_does_not_exist(session: Session, served: Source, fill: Fill) -> None:
    """R-000-88: the sample says that there is nothing to nest in."""
    with pytest.raises(InvalidRequestError, match=SCHEMA_VALIDATION):
        read(session, served, fill("flat", [{"_id": 1, "n": 1}]), ["n.x"])


def test_a_validator_that_closes_a_collection_decides_which_fields_exist(session: Session, served: Source) -> None:
    """Design §7.4: only a schemaless collection may have fields outside the sample."""
    run(served, {"drop": "closed"})
    properties = {"_id": {}, "n": {"bsonType": "int"}, "address": {"bsonType": "object"}}
    schema = {"bsonType": "object", "properties": properties, "additionalProperties": False}
    run(served, {"create": "closed", "validator": {"$jsonSchema": schema}})
    table = session.discover(["closed"]).tables[("closed",)]
    assert [(column.name, column.encoding) for column in table.columns[:3]] == [
        ("_id", Encoding.DOCUMENT),
        ("n", Encoding.INTEGER),
        ("address", Encoding.DOCUMENT),
    ]
    assert read(session, served, table, ["n", "address.city"]) == b""
    with pytest.raises(InvalidRequestError, match=SCHEMA_VALIDATION):
        read(session, served, table, ["m"])


def test_encodings_are_those_of_the_observed_types(fill: Fill) -> None:
    """R-000-101: one type is named; several are `document`."""
    table = fill(
        "observed",
        [
            {"_id": OID, "i": 1, "f": 1, "m": 1, "s": None, "u": UUID_4, "l": ["a"], "o": {}, "d": EPOCH, "b": b"x"},
            {"_id": OID_2, "i": Int64(2), "f": 1.5, "m": "x", "u": UUID_3, "l": [None], "c": Decimal128("1")},
        ],
    )
    found = {column.name: (column.type, column.encoding, column.element, column.nullable) for column in table.columns}
    assert found == {
        "_id": ("objectId", Encoding.TEXT, None, False),
        "i": ("int|long", Encoding.INTEGER, None, False),
        "f": ("double|int", Encoding.FLOAT, None, False),
        "m": ("int|string", Encoding.DOCUMENT, None, False),
        "s": ("null", Encoding.DOCUMENT, None, True),
        "u": ("uuid", Encoding.UUID, None, False),
        "l": ("array", Encoding.ARRAY, Encoding.TEXT, False),
        "o": ("object", Encoding.DOCUMENT, None, True),
        "d": ("date", Encoding.TIMESTAMP_UTC, None, True),
        "b": ("binData", Encoding.BINARY, None, True),
        "c": ("decimal", Encoding.DECIMAL, None, True),
        "*": ("other fields", Encoding.DOCUMENT, None, True),
    }


UUID_4, UUID_3 = Binary(UUID.bytes, 4), Binary(UUID.bytes, 3)
OID_2 = ObjectId("75a1b2c3d4e5f60718293a4b")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_only_collections_that_are_users_own_are_offered(session: Session) -> None:
    """R-000-31: names with dots are whole; `system.` is MongoDB's own."""
    names = {path[-1] for path in session.discover(()).tables}
    assert "other.events" in names
    assert "100%s" in names
    assert not [name for name in names if name.startswith("system.")]


# --- filters that convert by type

TYPED: Sequence[dict[str, Any]] = [
    {
        "_id": 1,
        "o": OID,
        "u": UUID_4,
        "u3": UUID_3,
        "d": datetime(2026, 1, 31, 23, 59, 59, 999_000, UTC),
        "c": Decimal128("10.50"),
        "f": 0.1,
        "s": "a.b",
        "b": Binary(b"\1\2", 5),
        "x": 5,
    },
    {
        "_id": 2,
        "o": OID_2,
        "u": Binary(bytes(16), 4),
        "u3": Binary(bytes(16), 3),
        "d": datetime(2026, 2, 1, tzinfo=UTC),
        "c": Decimal128("9.00"),
        "f": 1e300,
        "s": "axb\n",
        "b": b"\1\2\3",
        "x": "65a1b2c3d4e5f60718293a4b",
    },
    {"_id": 3, "x": OID},
    {"_id": 4, "o": None, "s": "a%b", "x": datetime(2026, 1, 31, 12, tzinfo=UTC)},
    {"_id": 5, "s": "A.B", "x": Decimal128("5.0"), "u": UUID_4},
]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ([1], ("o", "eq", (str(OID),))),
        ([1], ("o", "eq", (str(OID).upper(),))),
        ([2], ("o", "gt", (str(OID),))),
        ([2], ("o", "ne", (str(OID),))),
        ([3, 4, 5], ("o", "eq", (None,))),
        ([1, 2], ("o", "ne", (None,))),
        ([1, 5], ("u", "eq", (str(UUID),))),
        ([1], ("u3", "eq", (str(UUID).replace("-", ""),))),
        ([1, 5], ("u", "gt", ("00000000-0000-0000-0000-000000000000",))),
        ([2], ("u3", "lte", ("00000000-0000-0000-0000-000000000000",))),
        ([1], ("d", "between", ("2026-01-01", "2026-01-31"))),
        ([2], ("d", "gt", ("2026-01-31",))),
        ([1], ("d", "lte", ("2026-01-31",))),
        ([2], ("d", "gt", ("2026-01-31T23:59:59.999Z",))),
        ([2], ("d", "gte", ("2026-01-31T23:59:59.9991Z",))),
        ([1], ("d", "lt", ("2026-01-31T23:59:59.9991Z",))),
        ([], ("d", "eq", ("2026-01-31T23:59:59.9991Z",))),
        ([1], ("d", "eq", ("2026-02-01T01:29:59.999+01:30",))),
        ([1], ("c", "eq", (Decimal("10.5"),))),
        ([1], ("c", "gt", (9,))),
        ([], ("c", "eq", (Decimal("10.5000000000000000000000000000000000000001"),))),
        ([2], ("c", "lt", (Decimal("10.4999999999999999999999999999999999999999"),))),
        ([1], ("c", "gte", (Decimal("10.4999999999999999999999999999999999999999"),))),
        ([1], ("f", "eq", (Decimal("0.1"),))),
        ([2], ("f", "gt", (10**299,))),
        ([1], ("s", "like", ("a.b",))),
        ([1, 2, 4], ("s", "like", ("a_b%",))),
        ([2], ("s", "like", ("a_b_",))),
        ([4], ("s", "like", (r"a\%b",))),
        ([5], ("s", "like", ("%.B",))),
        ([1], ("b", "eq", ("AQI=",))),
        ([2], ("b", "ne", ("AQI=",))),
        ([1, 5], ("x", "eq", (5,))),
        ([2, 3], ("x", "eq", (str(OID),))),
        ([4], ("x", "between", ("2026-01-31", "2026-01-31"))),
        ([2], ("x", "like", ("65%",))),
        ([1, 2, 3, 4, 5], ("x", "nin", ("none",))),
        ([2, 3, 4], ("x", "nin", (5,))),
        ([], ("y", "ne", ("x",))),
        ([1, 2, 3, 4, 5], ("y", "eq", (None,))),
        ([], ("s", "eq", ("$where",))),
        ([], ("x", "eq", ("$gt",))),
    ],
)
def test_values_are_converted_by_the_observed_type(
    session: Session, served: Source, fill: Fill, wanted: list[int], given: Given
) -> None:
    """B-10, B-15, R-000-90..94: ids, dates and UUIDs are found by the text that JSON shows."""
    assert ids(session, served, fill("typed", TYPED), given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        ("o", "eq", ("not hex",)),
        ("o", "like", ("65%",)),
        ("u", "eq", ("x",)),
        ("d", "eq", ("yesterday",)),
        ("c", "eq", ("x",)),
        ("f", "eq", (True,)),
        ("s", "eq", (1,)),
        ("s", "like", ("a\\",)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(session: Session, served: Source, fill: Fill, given: Given) -> None:
    """R-000-90."""
    with pytest.raises(InvalidRequestError):
        ids(session, served, fill("typed", TYPED), given)


def test_several_operators_on_one_field_all_count(session: Session, served: Source, fill: Fill) -> None:
    """B-11: none replaces another."""
    table = fill("several", [{"_id": at, "n": at} for at in range(10)])
    several: list[Given] = [
        ("n", "eq", (3, 4, 5, 9)),
        ("n", "in", (4, 5, 9)),
        ("n", "gte", (1,)),
        ("n", "between", (4, 9)),
        ("n", "ne", (9,)),
        ("n", "nin", (5,)),
    ]
    assert ids(session, served, table, *several) == [4]


def test_a_null_in_a_list_is_not_a_null_field(session: Session, served: Source, fill: Fill) -> None:
    """MongoDB finds `[1, null]` by `null`; SQL's rule is about the field itself."""
    table = fill("lists", [{"_id": 1, "l": [1, None]}, {"_id": 2, "l": None}, {"_id": 3}, {"_id": 4, "l": []}])
    assert ids(session, served, table, ("l", "eq", (None,))) == [2, 3]
    assert ids(session, served, table, ("l", "ne", (None,))) == [1, 4]


def test_a_day_given_for_the_last_year_is_a_day_too(session: Session, served: Source, fill: Fill) -> None:
    table = fill("years", [{"_id": 1, "d": datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)}])
    assert ids(session, served, table, ("d", "lte", (date.max.isoformat(),))) == [1]
    assert ids(session, served, table, ("d", "gt", (date.max.isoformat(),))) == []


def test_a_page_is_cut_by_bytes_whatever_the_batch(session: Session, served: Source, fill: Fill) -> None:
    """R-002-84."""
    table = fill("mixed sizes", [{"_id": at, "t": "x" * (at % 50) ** 3} for at in range(200)])
    (query,) = plan(
        "d", [Selection("mixed sizes", ("*",))], Catalog({table.path: table}), engine("mongodb").NAMING, served.to
    )
    pages = list(session.read(query, None))
    assert [row["_id"] for row in rows_of(pages)] == list(range(200))
    assert max(len(page.body) for page in pages) < query.page_bytes + 2 * 50**3
