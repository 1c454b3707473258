"""What a manifest says, and how it is signed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fetcher.core.manifest import (
    TRAILER,
    DatasourceEntry,
    Manifest,
    Part,
    ResultEntry,
    TableEntry,
    not_proven,
    proven,
    render,
    signature,
)
from fetcher.core.seal import Chunk
from fetcher.model import Column, Encoding, Position, Query, TypedCondition

KEY = bytes(32)
HEX = "ab" * 32

ID = Column("id", "bigint", Encoding.INTEGER, nullable=False)
TAGS = Column("tags", "text[]", Encoding.ARRAY, element=Encoding.TEXT)
QUERY = Query("users", ("public", "users"), (TAGS, ID), (ID,), (TypedCondition(ID, "in", (4711, 4712)),))
MIDDLE = Position((("bigint", "500"),))

USERS = TableEntry(QUERY, (Part(500, high=MIDDLE), Part(2, low=MIDDLE)))
LOG = TableEntry(replace(QUERY, name="log", key=(), conditions=()), (Part(1),), sampled=("x.y",))
PG = DatasourceEntry("pg", "postgresql", "repeatable read", (USERS,))
MONGO = DatasourceEntry("my", "mongodb", "local", (LOG,), snapshots=0)

MANIFEST = Manifest(
    extraction_id="job-1",
    tenant="default",
    request_hash=HEX,
    plan_digest=HEX,
    datasources=(PG, MONGO),
    result=ResultEntry("results/default/job-1/u.json", 9, HEX, HEX, "1", (Chunk(9, HEX, HEX),)),
    created_at="2026-01-31T08:00:00.000Z",
    started_at="2026-01-31T08:00:01.000Z",
    completed_at="2026-01-31T08:00:02.000Z",
    attempts=2,
    engine_version="0.1.0",
    retries=1,
    waits=3,
)


def read(manifest: Manifest) -> Any:
    return json.loads(render(manifest, KEY))


def codes(*datasources: DatasourceEntry) -> tuple[list[str], list[str]]:
    return [claim.code for claim in proven(datasources)], [claim.code for claim in not_proven(datasources)]


def test_the_last_member_is_the_signature_of_the_file_without_it() -> None:
    """`design.md` §5."""
    body = render(MANIFEST, KEY)
    unsigned = body[:-TRAILER] + b"}"
    assert body[-TRAILER:] == b',"hmac":"%b"}' % signature(unsigned, KEY).encode()
    assert list(json.loads(body))[-1] == "hmac"
    assert b"hmac" in json.dumps(json.loads(unsigned)["result"]).encode()


def test_the_file_is_compact_and_repeatable() -> None:
    body = render(MANIFEST, KEY)
    assert body == render(MANIFEST, KEY)
    assert body.decode() == json.dumps(json.loads(body), separators=(",", ":"))


def test_a_table_is_described_with_types_order_and_parts() -> None:
    """R-000-101, R-002-82."""
    assert read(MANIFEST)["datasources"][0] == {
        "name": "pg",
        "kind": "postgresql",
        "isolation": "repeatable read",
        "snapshots": 1,
        "tables": [
            {
                "name": "users",
                "path": ["public", "users"],
                "columns": [
                    {"name": "tags", "type": "text[]", "encoding": "array", "element": "text"},
                    {"name": "id", "type": "bigint", "encoding": "integer", "element": None},
                ],
                "order": ["id"],
                "filters": [{"field": "id", "operator": "in"}],
                "sampled": [],
                "window": None,
                "parts": [
                    {"low": None, "high": [["bigint", "500"]], "rows": 500},
                    {"low": [["bigint", "500"]], "high": None, "rows": 2},
                ],
                "rows": 502,
            }
        ],
    }


def test_what_was_decrypted_is_named_and_only_then() -> None:
    """Reference 11.4: a reader sees which fields were stored encrypted."""
    crm = DatasourceEntry("plugin_crm", "plugin_crm", "local", (replace(LOG, decrypted=("contact.iban", "name")),))
    (told,) = read(replace(MANIFEST, datasources=(crm,)))["datasources"][0]["tables"]
    assert told["decrypted"] == ["contact.iban", "name"]
    assert b"decrypted" not in render(MANIFEST, KEY)


def test_the_values_of_filters_are_not_told() -> None:
    """R-000-82."""
    assert b"4711" not in render(MANIFEST, KEY)


def test_the_result_and_the_circumstances_are_told() -> None:
    told = read(MANIFEST)
    assert told["result"] == {
        "path": "results/default/job-1/u.json",
        "sizeBytes": 9,
        "rowCount": 503,
        "sha256": HEX,
        "hmac": HEX,
        "keyVersion": "1",
        "chunks": [{"size": 9, "sha256": HEX, "chain": HEX}],
    }
    assert {name: told[name] for name in ("version", "extractionId", "tenant", "attempts", "retries", "waits")} == {
        "version": "1",
        "extractionId": "job-1",
        "tenant": "default",
        "attempts": 2,
        "retries": 1,
        "waits": 3,
    }
    assert (told["requestHash"], told["planDigest"], told["engineVersion"]) == (HEX, HEX, "0.1.0")
    assert [told[name][17:19] for name in ("createdAt", "startedAt", "completedAt")] == ["00", "01", "02"]


def test_one_snapshot_in_key_order_is_proven() -> None:
    assert codes(PG) == (["read_to_end", "rows_counted", "one_snapshot", "unique_rows"], ["later_changes"])


def test_what_is_not_proven_is_said_and_named() -> None:
    """R-002-20."""
    assert codes(PG, MONGO) == (
        ["read_to_end", "rows_counted"],
        ["one_snapshot", "same_moment", "unique_rows", "later_changes"],
    )
    texts = {claim["code"]: claim["text"] for claim in read(MANIFEST)["notProven"]}
    assert texts["one_snapshot"].endswith(": my.")
    assert texts["unique_rows"].endswith(": my/log.")


@pytest.mark.parametrize(
    ("isolation", "snapshots", "unique"),
    [
        ("snapshot", 1, True),
        ("repeatable read", 3, True),
        ("read only", 1, True),
        ("read concern majority", 1, True),
        ("read concern local", 2, True),
        ("read committed", 1, False),
        ("not transactional", 1, False),
        ("", 1, False),
    ],
)
def test_each_key_once_is_proven_where_rows_cannot_move_while_they_are_read(
    isolation: str, snapshots: int, unique: bool
) -> None:
    """R-002-20: without a snapshot a row that is moved in its table may be met twice, or not at all; MongoDB's keys
    never change. A resumed read goes on behind what it has.
    """
    proved, unproved = codes(replace(PG, isolation=isolation, snapshots=snapshots))
    assert ("unique_rows" in proved, "unique_rows" in unproved) == (unique, not unique)


def test_tables_without_a_key_and_those_that_nothing_holds_still_are_told_apart() -> None:
    """One claim of a code, whatever the reasons."""
    sqlserver = DatasourceEntry("ms", "sqlserver", "read committed", (USERS, replace(USERS, query=QUERY)))
    (claim,) = [each for each in not_proven((sqlserver, MONGO)) if each.code == "unique_rows"]
    assert claim.text == (
        "No unique key orders the rows of: my/log. Rows could move while they were read in: ms/users, ms/users."
    )


@pytest.mark.parametrize(
    ("isolation", "snapshots", "one"),
    [
        ("Snapshot", 1, True),
        ("serializable", 1, True),
        ("read only", 1, True),
        ("repeatable read", 2, False),
        ("read committed", 1, False),
        ("read committed snapshot", 1, False),
        ("", 1, False),
    ],
)
def test_only_one_snapshot_under_a_fitting_isolation_is_one_moment(isolation: str, snapshots: int, one: bool) -> None:
    assert replace(PG, isolation=isolation, snapshots=snapshots).one_moment is one
