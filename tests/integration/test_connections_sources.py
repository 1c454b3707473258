"""What sources are asked for through the API: a test, a schema, a check of a selection."""

import socket
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.test_bounds import source
from tests.integration.test_connections_changing import PATH, patch, refused, registered
from tests.rig import Answer, Rig

pytestmark = pytest.mark.stack


def own(service: Rig) -> str:
    """The id of `my_postgres`."""
    return service.connection_id("my_postgres")


def validate(service: Rig, mapped: Any) -> Answer:
    """Check a selection."""
    return service.http("POST", f"{PATH}/validate-schema", {"mappedFields": mapped})


def named(answer: Answer) -> list[tuple[str, ...]]:
    """The findings of an answer, in its order: pointer, type and names."""
    assert (answer.status, answer.json()["code"]) == (422, "FET-1060"), answer
    assert answer.headers["Content-Type"] == "application/problem+json"
    return [
        (
            found["pointer"],
            found["type"],
            *(found[name] for name in ("dataSourceId", "table", "field") if name in found),
        )
        for found in answer.json()["errors"]
    ]


def cached(service: Rig, connection: str) -> dict[str, str]:
    """When each cached schema of a connection was fetched, by its sort key."""
    return {
        item["SK"]["S"]: item["fetchedAt"]["N"]
        for item in service.items()
        if item["SK"]["S"].startswith("SCHEMA#") and connection in item["PK"]["S"]
    }


def test_a_schema_shows_tables_with_typed_fields_and_keys(service: Rig) -> None:
    """§13.4-5. The public system hides types, nullability and keys."""
    shown = service.http("GET", f"{PATH}/{service.connection_id('my_postgres')}/schema").json()
    assert (shown["configName"], shown["type"], shown["databaseName"]) == ("my_postgres", "POSTGRESQL", "payments")
    tables = {table["name"]: table for table in shown["tables"]}
    assert list(tables) == sorted(tables)
    assert {"accounts", "movements"} <= tables.keys()
    assert not [name for name in tables if name.startswith(("pg_", "information_schema"))]
    accounts = tables["accounts"]
    assert accounts["key"] == ["id"]
    fields = {field["name"]: field for field in accounts["fields"]}
    assert fields["id"] == {"name": "id", "type": "bigint", "encoding": "integer", "nullable": False}
    assert fields["credit_limit"]["nullable"] is True
    labels = next(field for field in tables["movements"]["fields"] if field["name"] == "labels")
    assert (labels["encoding"], labels["element"]) == ("array", "text")
    refused(service.http("GET", f"{PATH}/{uuid4()}/schema"), 404, "FET-1001")


def test_a_schema_of_other_schemas_has_names_that_a_job_takes(service: Rig) -> None:
    """Design §7.4: the shown name resolves to the shown table."""
    shown = service.http(
        "GET", f"{PATH}/{service.connection_id('my_postgres')}/schema", query={"schema": "accounting,public"}
    ).json()
    names = [table["name"] for table in shown["tables"]]
    assert {"accounting.invoices", "accounts"} <= set(names)
    assert validate(service, {"my_postgres": {name: ["*"] for name in names[:20]}}).status == 200


def test_a_schema_is_asked_for_anew_and_refreshes_the_cache(service: Rig) -> None:
    """The cache is not used, then refreshed; a validation that misses asks the source once."""
    connection, table = registered(service, "cached").json()["id"], f"later_{uuid4().hex[:8]}"
    assert validate(service, {"cached": {"accounts": ["id"]}}).status == 200
    first = cached(service, connection)
    assert len(first) == 1
    assert validate(service, {"cached": {"accounts": ["id", "name"]}}).status == 200
    assert cached(service, connection) == first
    with source(service) as database:
        database.execute(f"CREATE TABLE public.{table} (id int PRIMARY KEY)".encode())
    time.sleep(0.005)
    assert validate(service, {"cached": {table: ["id"]}}).status == 200
    second = cached(service, connection)
    assert second.keys() == first.keys()
    assert second != first
    with source(service) as database:
        database.execute(f"ALTER TABLE public.{table} ADD COLUMN more int".encode())
    time.sleep(0.005)
    shown = service.http("GET", f"{PATH}/{connection}/schema").json()
    later = next(each for each in shown["tables"] if each["name"] == table)
    assert [field["name"] for field in later["fields"]] == ["id", "more"]
    assert cached(service, connection) not in (first, second)


def test_a_schema_that_is_too_large_for_an_answer_says_so(service: Rig) -> None:
    """Lambda would cut it off with a 502; the caller can name a smaller part."""
    columns = ", ".join(f"NULL::text AS a_column_with_a_long_name_{number}" for number in range(1_500))
    with source(service) as database:
        database.execute("CREATE SCHEMA wide")
        for number in range(40):
            database.execute(f"CREATE VIEW wide.v{number} AS SELECT {columns}".encode())
        answer = service.http("GET", f"{PATH}/{service.connection_id('my_postgres')}/schema", query={"schema": "wide"})
        database.execute("DROP SCHEMA wide CASCADE")
    refused(answer, 400, "FET-2040")


def test_a_patch_leaves_the_old_schema_behind(service: Rig) -> None:
    """B-14: the cache is kept by version; a table of the old place is not found in the new one."""
    connection = registered(service, "moved", schema="accounting").json()["id"]
    assert validate(service, {"moved": {"invoices": ["id"]}}).status == 200
    assert patch(service, connection, {"schema": "public"}).status == 200
    assert named(validate(service, {"moved": {"invoices": ["id"]}})) == [
        ("/mappedFields/moved/invoices", "TABLE_NOT_FOUND", "moved", "invoices")
    ]
    keys = [key.split("#")[1] for key in cached(service, connection)]
    assert sorted(keys) == ["000001", "000002"]


def test_a_good_selection_passes(service: Rig) -> None:
    """§13.7-1, §13.7-6. The wildcard, an empty list and an empty map are allowed."""
    answer = validate(
        service, {"my_postgres": {"accounts": ["id", "email"], "accounting.invoices": ["*"], "movements": []}}
    )
    assert (answer.status, answer.json()["status"]) == (200, "success")
    assert validate(service, {"my_postgres": {}}).status == 200


def test_everything_that_is_missing_is_named_at_once_in_a_fixed_order(service: Rig) -> None:
    """§13.7-2, §13.7-3, §13.7-4, §13.7-7, §13.7-9. R-000-22."""
    registered(service, "down_2", port=1)
    mapped: Mapping[str, Any] = {
        "zzz": {"t": ["f"]},
        "my_postgres": {
            "nonexistent_schema.some_table": ["a"],
            "accounts": ["nope", "id", "a/b"],
            "accounting.invoices": ["*"],
        },
        "down_2": {"t": ["f"]},
        "aaa": {},
    }
    expected = [
        ("/mappedFields/aaa", "DATA_SOURCE_NOT_FOUND", "aaa"),
        ("/mappedFields/down_2", "DATA_SOURCE_DOWN", "down_2"),
        ("/mappedFields/my_postgres/accounts/0", "FIELD_NOT_FOUND", "my_postgres", "accounts", "nope"),
        ("/mappedFields/my_postgres/accounts/2", "FIELD_NOT_FOUND", "my_postgres", "accounts", "a/b"),
        (
            "/mappedFields/my_postgres/nonexistent_schema.some_table",
            "TABLE_NOT_FOUND",
            "my_postgres",
            "nonexistent_schema.some_table",
        ),
        ("/mappedFields/zzz", "DATA_SOURCE_NOT_FOUND", "zzz"),
    ]
    assert named(validate(service, mapped)) == expected
    assert named(validate(service, dict(reversed(list(mapped.items()))))) == expected


@pytest.mark.slow
def test_sources_that_never_answer_are_waited_for_side_by_side(service: Rig) -> None:
    """B-62: as long as one of them, and the rest of the answer is there."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as silent:
        for number in range(3):
            registered(service, f"silent_{number}", port=silent.getsockname()[1])
        begun = time.monotonic()
        mapped = {**{f"silent_{number}": {"t": ["f"]} for number in range(3)}, "my_postgres": {"accounts": ["nope"]}}
        found = named(validate(service, mapped))
    assert time.monotonic() - begun < 20
    assert [item[1] for item in found] == ["FIELD_NOT_FOUND", *["DATA_SOURCE_DOWN"] * 3]


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ([], "FET-0001", ""),
        ({}, "FET-0402", "/mappedFields"),
        ({"mappedFields": {}}, "FET-0401", "/mappedFields"),
        ({"mappedFields": {"a": {"t": ["f"]}}, "filters": {}}, "FET-0400", "/filters"),
        ({"mappedFields": {" ": {}}}, "FET-0401", "/mappedFields/ "),
        ({"mappedFields": {"a": {"": []}}}, "FET-0401", "/mappedFields/a/"),
        ({"mappedFields": {"a": {"t": [" "]}}}, "FET-0401", "/mappedFields/a/t/0"),
        ({"mappedFields": {"a": {"t": ["*", "f"]}}}, "FET-0401", "/mappedFields/a/t"),
        ({"mappedFields": {"a": {"t": "f"}}}, "FET-0401", "/mappedFields/a/t"),
        ({"mappedFields": {"a": ["t"]}}, "FET-0401", "/mappedFields/a"),
        ({"mappedFields": {"a": {"t": ["x" * 513]}}}, "FET-0401", "/mappedFields/a/t/0"),
        ({"mappedFields": {f"d{n}": {} for n in range(11)}}, "FET-1061", "/mappedFields"),
        ({"mappedFields": {"a": {f"t{n}": [] for n in range(21)}}}, "FET-1061", "/mappedFields/a"),
        ({"mappedFields": {"a": {"t": [f"f{n}" for n in range(51)]}}}, "FET-1061", "/mappedFields/a/t"),
        ({"mappedFields": {"nobody": {"t": ["f"]}}}, "FET-1062", None),
    ],
)
def test_a_selection_that_breaks_a_rule_is_refused(service: Rig, body: Any, code: str, pointer: str | None) -> None:
    """§13.7-5. Reference 3.6: limits, blank names."""
    refused(service.http("POST", f"{PATH}/validate-schema", body), 400, code, pointer)


def test_a_source_that_cannot_be_asked_has_no_schema(service: Rig) -> None:
    """A safe reason: nothing of the driver's text, and no password."""
    for changed in ({"port": 1}, {"password": "canary-not-it"}):
        name = f"unasked_{'_'.join(changed)}"
        connection = registered(service, name, **changed).json()["id"]
        answer = service.http("GET", f"{PATH}/{connection}/schema")
        refused(answer, 400, "FET-1040")
        assert "canary" not in answer.text
        assert named(validate(service, {name: {"t": ["*"]}}))[0][1] == "DATA_SOURCE_DOWN"


def test_a_connection_is_tested_ten_times_a_minute_over_all_functions(service: Rig) -> None:
    """R-000-98, B-61: shared, with `Retry-After`, and an unknown id costs and makes nothing."""
    connection = registered(service, "tested").json()["id"]
    path = f"{PATH}/{connection}/test"
    event = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {},
        "requestContext": {"http": {"method": "POST", "path": path}, "stage": "$default", "requestId": "r"},
        "isBase64Encoded": False,
    }
    begun, passed = time.monotonic(), 0
    with service.envelope("submit.app.handler") as other:
        while (answer := service.http("POST", path)).status == 200:
            passed += 1 + (other.invoke(event).payload["statusCode"] == 200)
            assert passed < 30
        there = other.invoke(event).payload
    assert 10 <= passed <= 10 + (time.monotonic() - begun) / 6 + 1
    refused(answer, 429, "FET-2011")
    assert 1 <= int(answer.headers["Retry-After"]) <= 6
    assert there["statusCode"] == 429
    assert service.http("POST", f"{PATH}/{service.connection_id('my_postgres')}/test").status == 200
    nobody = str(uuid4())
    refused(service.http("POST", f"{PATH}/{nobody}/test"), 404, "FET-1001")
    rates = [item["PK"]["S"] for item in service.items() if item["SK"]["S"] == "RATE#TEST"]
    assert sorted(rates) == sorted(f"T#default#SOURCE#{one}" for one in (connection, own(service)))
