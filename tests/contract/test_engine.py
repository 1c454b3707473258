"""What every engine promises about reading, checked against a server of each kind (R-000-95)."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from importlib import import_module
from itertools import islice

import pytest

from fetcher.engines import engine
from fetcher.errors import InvalidRequestError, RefusedError
from fetcher.model import Encoding, Position, Secret
from fetcher.ports import Session
from tests.contract.conftest import Filter, Reader, rows_of
from tests.contract.kinds import EVENTS, OTHER_SCHEMA, Source
from tests.faultproxy import faulty

ALL = list(range(1, EVENTS + 1))


# --- discovery


def test_tables_and_views_are_discovered_with_columns_and_keys(session: Session) -> None:
    """R-000-19, R-002-18, B-60: types, encodings and the usable key of every table; views are tables."""
    tables = session.discover(()).tables
    events = next(table for path, table in tables.items() if path[-1] == "events")
    assert events.key == ("id",)
    assert [column.name for column in events.columns] == ["id", "kind", "note", "amount", "at", "moment", "flag"]
    assert [column.encoding for column in events.columns] == [
        Encoding.INTEGER,
        Encoding.TEXT,
        Encoding.TEXT,
        Encoding.DECIMAL,
        Encoding.TIMESTAMP,
        Encoding.TIMESTAMP_UTC,
        Encoding.BOOLEAN,
    ]
    assert [column.name for column in events.columns if column.nullable] == ["note"]
    assert {path[-1] for path in tables} >= {
        "events",
        "events_seen",
        "events_kept",
        "empty",
        "keyless",
        "wide",
        "heavy",
    }


def test_views_and_tables_without_a_key_have_none(session: Session) -> None:
    """R-002-20: no unique key, no sort key."""
    keys = {path[-1]: table.key for path, table in session.discover(()).tables.items()}
    assert keys["keyless"] == keys["events_seen"] == keys["heavy"] == ()
    assert keys["pairs"] == ("a", "b")


def test_only_the_schemas_asked_for_are_discovered(session: Session) -> None:
    """R-000-27: exactly the named schemas; system schemas never."""
    scope = (OTHER_SCHEMA, "information_schema", "pg_catalog", "no such schema")
    assert {path[0] for path in session.discover(scope).tables} == {OTHER_SCHEMA}


def test_discovery_is_a_constant_number_of_queries(source: Source) -> None:
    """R-000-19, B-20: counted on the wire, with one table more and with thirty; a few may be sent in pieces."""

    def asked() -> int:
        with (
            faulty(source.to.host, source.to.port) as proxy,
            engine(source.to.kind).connect(
                replace(source.to, port=proxy.port), source.secret, seconds=60, application="counted"
            ) as session,
        ):
            naming = engine(source.to.kind).NAMING
            before = proxy.asked
            assert session.discover(naming.scope(["events"], source.to)).tables
            return proxy.asked - before

    key = import_module(f"tests.contract.kinds.{source.to.kind}").DECLARED[Encoding.INTEGER]
    source.create("counted_0", {"c0": key}, ["c0"], [(1,)])
    one = asked()
    for number in range(1, 30):
        source.create(f"counted_{number}", {"c0": key}, ["c0"], [(1,)])
    assert asked() < one + 10


def test_every_odd_name_is_found_and_read(reader: Reader, source: Source) -> None:
    """R-000-34, B-57, B-64: quotes, dots, reserved words and what looks like a system's name are only names."""
    for name in source.odd_names:
        qualified = f"{source.default_schema}.{name}" if "." in name else name
        assert reader.rows(qualified) == [{name: 7, "note": "seven"}]


def test_a_qualified_name_means_its_schema(reader: Reader) -> None:
    """R-000-26: also when a table of the default schema has the same words as its name."""
    assert reader.rows(f"{OTHER_SCHEMA}.events") == [{"id": 1, "region": "north"}, {"id": 2, "region": "south"}]


@pytest.mark.parametrize("name", ["no such table", "EVENTS", 'events"; DROP TABLE events; --', "x" * 300, "nul\0"])
def test_a_name_that_is_not_there_is_no_table(reader: Reader, name: str) -> None:
    """R-000-32, R-000-34: names are compared exactly and never run."""
    catalog = reader.session.discover(reader.naming.scope(["events"], reader.source.to))
    assert reader.naming.resolve(name, catalog, reader.source.to) is None


# --- projection and pages


def test_exactly_the_requested_fields_come_in_the_requested_order(reader: Reader) -> None:
    """R-000-13."""
    assert [list(row) for row in reader.rows("events", ["note", "id"])] == [["note", "id"]] * EVENTS


def test_the_wildcard_brings_every_column(reader: Reader) -> None:
    """R-000-14, B-01, with more columns than one function call of the server takes."""
    assert len(reader.rows("wide")[0]) == 61
    assert reader.rows("events")[1] == {
        "id": 2,
        "kind": "kind 2",
        "note": 'note "2"\n',
        "amount": "0.02",
        "at": "2026-01-01T00:02:30",
        "moment": "2026-01-01T00:02:30Z",
        "flag": True,
    }


def test_a_table_without_rows_gives_no_page(reader: Reader) -> None:
    assert reader.pages(reader.plan("empty")) == []


def test_a_table_without_a_key_is_read_whole_and_without_positions(reader: Reader) -> None:
    """R-002-20."""
    pages = reader.pages(reader.plan("keyless", page_bytes=100))
    assert len(rows_of(pages)) == 50
    assert {page.position for page in pages} == {None}


def test_a_field_named_with_a_percent_sign_and_quotes_is_only_a_name(reader: Reader) -> None:
    """R-000-34: the member's name is the column's, escaped as JSON."""
    assert b'"say \\"hi\\"":7' in reader.pages(reader.plan('say "hi"'))[0].body


@pytest.mark.parametrize("page_bytes", [1, 500, 10_000, 10_000_000])
def test_pages_aim_at_their_size_and_hold_each_row_once(reader: Reader, page_bytes: int) -> None:
    """R-002-84: a page is bounded by bytes; one row may exceed it."""
    pages = reader.pages(reader.plan("events", page_bytes=page_bytes))
    assert [row["id"] for row in rows_of(pages)] == ALL
    longest = max(len(page.body) // page.rows for page in pages)
    assert all(len(page.body) <= page_bytes + 2 * longest for page in pages)


def test_the_same_rows_give_the_same_bytes(reader: Reader) -> None:
    """R-000-83, B-58: whatever the pages, in the order of the key."""
    bodies = {
        b",".join(page.body for page in reader.pages(reader.plan("events", page_bytes=n))) for n in (1, 900, 10**7)
    }
    assert len(bodies) == 1


# --- order and resume


@pytest.mark.parametrize("stop", [1, 2, 7, 100])
@pytest.mark.parametrize("table", ["events", "pairs"])
def test_a_read_resumed_after_any_page_misses_and_repeats_nothing(reader: Reader, table: str, stop: int) -> None:
    """R-002-7, R-002-19: from the start, or behind a position, which is the last row's key."""
    query = reader.plan(table, page_bytes=150)
    whole = b",".join(page.body for page in reader.pages(query))
    with engine(reader.source.to.kind).connect(
        reader.source.to, reader.source.secret, seconds=60, application="resumed"
    ) as other:
        first = list(islice(other.read(query, None), stop))
    rest = reader.pages(query, first[-1].position)
    assert b",".join(page.body for page in [*first, *rest]) == whole


def test_a_composite_key_orders_by_all_of_its_columns(reader: Reader) -> None:
    """R-002-18: ties of the first column are ordered by the second."""
    pairs = [(row["a"], row["b"]) for row in reader.rows("pairs")]
    assert pairs == sorted(pairs)
    assert len(pairs) == 200


def test_the_key_need_not_be_among_the_fields(reader: Reader) -> None:
    pages = reader.pages(reader.plan("pairs", ["c"], page_bytes=200))
    position = pages[-1].position
    assert position is not None
    assert [text for _, text in position.values] == ["G", "195"]
    assert {tuple(row) for row in rows_of(pages)} == {("c",)}


def test_a_position_of_another_table_definition_is_refused(reader: Reader) -> None:
    """A key that changed its type would otherwise compare something else."""
    with pytest.raises(InvalidRequestError, match="position"):
        reader.pages(reader.plan("events"), Position((("text; DROP TABLE events", "1"),)))


def test_a_position_behind_the_last_row_gives_nothing(reader: Reader) -> None:
    query = reader.plan("events")
    assert reader.pages(query, reader.pages(query)[-1].position) == []


# --- filters

THIRDS = [i for i in ALL if i % 3 == 0]
NOTED = [i for i in ALL if i % 3]


@pytest.mark.parametrize(
    ("wanted", "filters"),
    [
        ([7], [("id", "eq", (7,))]),
        ([7, 9], [("id", "eq", (7, 9, 9))]),
        ([7, 9], [("id", "in", (9, 7))]),
        (ALL[2:], [("id", "ne", (1, 2))]),
        (ALL[1:], [("id", "nin", (1,))]),
        (ALL[497:], [("id", "gt", (497,))]),
        (ALL[1:], [("id", "gt", (Decimal("1.5"),))]),
        (ALL[496:], [("id", "gte", (497,))]),
        ([1, 2], [("id", "lt", (3,))]),
        ([1, 2, 3], [("id", "lte", (3,))]),
        ([2, 3], [("id", "between", (2, 3))]),
        ([], [("id", "between", (3, 2))]),
        ([10], [("amount", "eq", (Decimal("0.1"),))]),
        ([], [("amount", "eq", (Decimal("0.1000000000000000000001"),))]),
        ([], [("id", "eq", (2**70,))]),
        (ALL, [("id", "lt", (2**70,))]),
        (ALL[1::2], [("flag", "eq", (True,))]),
        (ALL, [("flag", "in", (True, False))]),
        (ALL[::2], [("flag", "ne", (True,))]),
        ([5, 10], [("kind", "eq", ("kind 0",)), ("id", "lte", (12,))]),
    ],
)
def test_each_operator_selects_what_it_says(reader: Reader, wanted: list[int], filters: list[Filter]) -> None:
    """R-000-84..86: several values are any-of, or none-of; operators are joined with AND."""
    assert reader.ids("events", *filters) == wanted


@pytest.mark.parametrize(
    ("wanted", "filters"),
    [
        ([], [("id", "in", ())]),
        ([], [("id", "eq", ())]),
        (ALL, [("id", "nin", ())]),
        (ALL, [("id", "ne", ())]),
        (THIRDS, [("note", "eq", (None,))]),
        (sorted([*THIRDS, 1]), [("note", "in", ('note "1"\n', None))]),
        (NOTED, [("note", "ne", (None,))]),
        (NOTED[1:], [("note", "nin", (None, 'note "1"\n'))]),
        (NOTED[2:], [("note", "nin", (None, 'note "1"\n', 'note "2"\n'))]),
        (NOTED[1:], [("note", "ne", ('note "1"\n',))]),
        ([], [("note", "eq", ("' OR 1=1 --",))]),
        ([], [("note", "in", ('{"a', "b}", "\\", "NULL"))]),
    ],
)
def test_nulls_and_empty_lists_never_widen_a_filter(reader: Reader, wanted: list[int], filters: list[Filter]) -> None:
    """R-000-93, R-000-94: NULL is a value like others in eq and ne, and empties no list."""
    assert reader.ids("events", *filters) == wanted


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        ([1, 10, 11], 'note "1%'),
        ([1, 2, 4, 5, 7, 8], 'note "_"%'),
        ([], "note \\_%"),
        ([], "note"),
        ([], "%100\\%"),
        ([], "NOTE%"),
    ],
)
def test_like_knows_its_wildcards_and_their_escape(reader: Reader, wanted: list[int], pattern: str) -> None:
    """R-000-84: `%` and `_`, with a backslash before those that mean themselves."""
    assert reader.ids("events", ("note", "like", (pattern,)), ("id", "lte", (12,))) == wanted


def test_a_like_that_ends_in_its_escape_is_invalid(reader: Reader) -> None:
    with pytest.raises(InvalidRequestError):
        reader.ids("events", ("note", "like", ("%\\",)))


DAY = 24 * 60
NEW_YEAR = date(2026, 1, 1)


@pytest.mark.parametrize("field", ["at", "moment"])
@pytest.mark.parametrize(
    ("wanted", "verb", "values"),
    [
        (ALL, "between", (NEW_YEAR, NEW_YEAR)),
        (ALL, "lte", (NEW_YEAR,)),
        ([], "gt", (NEW_YEAR,)),
        (ALL, "gte", (NEW_YEAR,)),
        ([], "lt", (NEW_YEAR,)),
        ([], "eq", (NEW_YEAR,)),
        ([], "lte", (date(2025, 12, 31),)),
        (ALL, "gt", (date(2025, 12, 31),)),
        (ALL, "lte", (date.max,)),
        ([], "gt", (date.max,)),
        ([1, 2], "lte", ("2026-01-01T00:02:30",)),
        ([2], "between", ("2026-01-01T00:02:00", "2026-01-01T00:02:59.5")),
        ([2], "eq", ("2026-01-01T00:02:30",)),
        (ALL[1:], "between", ("2026-01-01T00:02:00", NEW_YEAR)),
    ],
)
def test_a_date_against_a_timestamp_means_the_whole_day(
    reader: Reader, field: str, wanted: list[int], verb: str, values: tuple[object, ...]
) -> None:
    """R-000-91, B-24: the day ends before the next one begins, not at some fraction of its last second."""
    assert reader.ids("events", (field, verb, values)) == wanted


def test_ten_thousand_values_are_one_filter(reader: Reader) -> None:
    """R-000-89 bounds fields; values go to 10,000."""
    assert reader.ids("events", ("id", "in", tuple(range(2, 10_002)))) == ALL[1:]


def test_a_value_that_the_type_does_not_know_is_invalid_and_not_shown(reader: Reader) -> None:
    """R-000-20: the database's words, which hold the value, stay on the cause."""
    with pytest.raises(InvalidRequestError) as caught:
        reader.ids("events", ("at", "eq", ("secret value",)))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_nul_in_a_value_is_invalid(reader: Reader) -> None:
    with pytest.raises(InvalidRequestError):
        reader.ids("events", ("note", "eq", ("a\0b",)))


# --- what a session may do


def test_a_column_that_has_gone_is_an_invalid_request(reader: Reader) -> None:
    """R-000-21, B-02: an error of a query is one of ours, with a safe text and the driver's as its cause."""
    query = reader.plan("events")
    gone = replace(query.columns[0], name="no such column")
    with pytest.raises(InvalidRequestError) as caught:
        reader.pages(replace(query, columns=(gone,)))
    assert caught.value.__cause__ is not None


def test_a_session_only_reads(reader: Reader, source: Source) -> None:
    """R-002-88: a view that changes something when it is read cannot be read."""
    source.run(
        "CREATE SEQUENCE IF NOT EXISTS counted; CREATE OR REPLACE VIEW counting AS SELECT nextval('counted') AS id"
    )
    with pytest.raises(InvalidRequestError):
        reader.ids("counting")
    assert source.run("SELECT is_called FROM counted") == [(False,)]


def test_a_table_without_the_right_to_read_it_is_refused(source: Source) -> None:
    """R-000-96: the right decides at the read, not at discovery."""
    to, secret = replace(source.to, user="reader"), Secret(source.reader_password)
    with engine(source.to.kind).connect(to, secret, seconds=20, application="reader") as session:
        reader = Reader(session, source)
        assert len(reader.ids("events")) == EVENTS
        with pytest.raises(RefusedError):
            reader.rows("pairs")


def test_one_session_sees_one_snapshot(reader: Reader, source: Source) -> None:
    """R-002-87, B-58: rows committed after the first read are not there in the second."""
    source.run(
        "DROP TABLE IF EXISTS growing; CREATE TABLE growing (id integer PRIMARY KEY); INSERT INTO growing VALUES (1)"
    )
    assert reader.ids("growing") == [1]
    source.run("INSERT INTO growing VALUES (2)")
    assert reader.ids("growing") == [1]
    assert reader.session.isolation


def test_names_and_values_are_json_of_utf8(reader: Reader, source: Source) -> None:
    """Bytes as they go into the result: no escapes that the database did not need."""
    name = next(name for name in source.odd_names if name.startswith("Größe"))
    body = reader.pages(reader.plan(name))[0].body
    assert body == f'{{"{name}":7,"note":"seven"}}'.encode()
    assert json.loads(body)
