"""A collection that changes while a job reads it: what is promised without a snapshot, and behind a position.

No one moment is asked for: the engine sends `find` in the order of `_id`, and each batch is as it is when it is asked
for, with the read concern `majority` (of a server without a replica set `local`), which the manifest names. The
stand-in calls itself a replica set of one member: that a majority has what is read, and what a member that steps down
does to a read, cannot be seen here; nor can a transaction that commits late.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, ObjectId, Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection

from tests.changing import datasource, slowly, stopped, tables_of
from tests.faultproxy import faulty
from tests.integration.test_crashes import finished
from tests.rig import Rig, until
from tests.stack import Stack

pytestmark = pytest.mark.stack

NOTE = "x" * 4_000
"""Few and wide: the stand-in is slow, and a first part has 8 MiB."""
NAME, COLLECTION = "my_mongo", "changing"
FIELDS = ["n", "version", "note"]

START = datetime(2026, 1, 1, tzinfo=UTC)
IDS: Sequence[Any] = [
    None,
    *(
        number
        for whole in range(400)
        for number in (whole, whole + 0.25, Decimal128(f"{whole}.5"), Int64(2**40 + whole))
    ),
    *(f"text {number:04d}" for number in range(400)),
    *({"of": number} for number in range(100)),
    *(ObjectId(f"{number:024x}") for number in range(1, 401)),
    False,
    True,
    *(START + timedelta(hours=number) for number in range(300)),
    MaxKey(),
]
"""Types of most brackets, in no order of this file's: what is delivered is compared with what the server sorts."""


class Collected:
    """The stack's collection as its owner uses it, and what has become of each document."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self.of = collection
        self.versions: dict[int, set[int]] = {}
        """By `n`: every version that the document has had."""
        self.deleted: set[int] = set()
        self.inserted: set[int] = set()

    def fill(self) -> None:
        self.of.drop()
        self.of.insert_many([document(n, key) for n, key in enumerate(IDS)])
        self.versions = {n: {0} for n in range(len(IDS))}

    def order(self) -> list[int]:
        """Each document's `n`, as the server sorts them by `_id`."""
        return [each["n"] for each in self.of.find({}, {"n": 1}).sort("_id")]

    def change(self, number: int) -> None:
        """Insert one, update the first and another, delete one."""
        new, changed, gone = len(IDS) + number, 2 * number + 1, len(IDS) - 2 * number
        self.versions |= {new: {number}, changed: {0, number}, 0: self.versions[0] | {number}}
        self.deleted.add(gone)
        self.inserted.add(new)
        self.of.insert_one(document(new, f"text {number % 400:04d} and {number}", number))
        self.of.update_many({"n": {"$in": [0, changed]}}, {"$set": {"version": number}})
        self.of.delete_one({"n": gone})


def document(n: int, key: Any, version: int = 0) -> dict[str, Any]:
    return {"_id": key, "n": n, "version": version, "note": NOTE}


@pytest.fixture(scope="module")
def at(stack: Stack) -> Mapping[str, Any]:
    found: Mapping[str, Any] = stack["databases"][NAME]
    return found


@pytest.fixture
def collection(at: Mapping[str, Any]) -> Iterator[Collected]:
    login = {"username": at["user"], "password": at["password"]}
    with MongoClient[dict[str, Any]](at["host"], at["port"], directConnection=True, **login) as client:
        made = Collected(client[at["database"]][COLLECTION])
        made.fill()
        yield made
        made.of.drop()


def register(service: Rig, at: Mapping[str, Any], name: str, port: int) -> None:
    answer = service.register(
        name,
        type="MONGODB",
        host=at["host"],
        port=port,
        databaseName=at["database"],
        userName=at["user"],
        password=at["password"],
    )
    assert answer.status == 201, answer


@pytest.fixture(scope="module")
def registered(service: Rig, at: Mapping[str, Any]) -> Rig:
    register(service, at, NAME, at["port"])
    return service


@contextmanager
def writing(collection: Collected) -> Iterator[None]:
    """Change it without a pause, in a thread."""
    ended, failed = threading.Event(), list[Exception]()

    def write() -> None:
        try:
            for number in range(1, len(IDS) // 2):
                if ended.is_set():
                    return
                collection.change(number)
        except Exception as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: collection.inserted, "the first change")
        yield
    finally:
        ended.set()
        writer.join()
    assert not failed


def test_what_stays_is_read_once_and_what_changes_as_it_was_at_some_moment(
    service: Rig, at: Mapping[str, Any], collection: Collected
) -> None:
    """R-002-1, R-002-87: every document that is there before and after the read, once; none twice; none as it never
    was; and the manifest does not claim one moment.
    """
    with faulty(at["host"], at["port"]) as proxy:
        register(service, at, "slow_mongo", proxy.port)
        job_id = service.posted({"slow_mongo": {COLLECTION: FIELDS}}, "no snapshot slow_mongo")
        with writing(collection), slowly(service, job_id, proxy):
            before = len(collection.inserted)
            until(lambda: len(collection.inserted) > before + 3, "changes while it is read")
    (rows,) = tables_of(service.result(service.job(job_id)))
    delivered = [row["n"] for row in rows]
    assert len(set(delivered)) == len(delivered)
    assert set(delivered) >= set(range(len(IDS))) - collection.deleted
    assert all(row["version"] in collection.versions[row["n"]] for row in rows)
    assert all(row["note"] == NOTE for row in rows)
    kept = set(delivered)
    assert [n for n in delivered if n not in collection.deleted] == [n for n in collection.order() if n in kept]
    manifest = service.http("GET", f"/v1/fetcher/{job_id}/manifest").json()
    assert datasource(service, job_id)["isolation"] == "read concern majority"
    assert "one_snapshot" in [claim["code"] for claim in manifest["notProven"]]
    assert "unique_rows" in [claim["code"] for claim in manifest["proven"]]


def test_a_resumed_read_has_each_document_behind_its_position_once(registered: Rig, collection: Collected) -> None:
    """R-002-2, R-002-3, R-002-19: over `_id`s of many types, some of which come into being behind the position or
    before it, in its bracket and in others.
    """
    order = collection.order()
    job_id = registered.posted({NAME: {COLLECTION: FIELDS}}, f"resumed {NAME}")
    key, done = stopped(registered, job_id)
    assert 10 < done < len(IDS) - 310, key
    behind = order[done:]
    new = iter(range(len(IDS), len(IDS) + 20))
    for early in (0.125, "text", {"of": -1}):
        collection.of.insert_one(document(next(new), early, 9))
    late = [ObjectId("f" * 24), START + timedelta(minutes=1), START - timedelta(days=1)]
    added = {next(new): each for each in late}
    collection.of.insert_many([document(n, each, 9) for n, each in added.items()])
    collection.of.update_many({"n": {"$in": [*order[done - 3 : done], behind[0], behind[7]]}}, {"$set": {"version": 9}})
    collection.of.delete_many({"n": {"$in": [order[done - 2], behind[2], behind[-2]]}})
    (rows,) = tables_of(finished(registered, job_id))
    left = set(behind) - {behind[2], behind[-2]} | set(added)
    expected = [(n, 0) for n in order[:done]]
    expected += [(n, 9 if n in {behind[0], behind[7], *added} else 0) for n in collection.order() if n in left]
    assert [(row["n"], row["version"]) for row in rows] == expected
    found = datasource(registered, job_id)
    assert (found["snapshots"], found["isolation"]) == (2, "read concern majority")


def test_a_collection_with_a_type_that_is_new_at_its_end_is_read_from_the_beginning(
    registered: Rig, collection: Collected
) -> None:
    """R-002-13: the plan names the types of the first and the last documents, and of another plan no checkpoint is
    used: still each document once, as it is now.
    """
    job_id = registered.posted({NAME: {COLLECTION: FIELDS}}, f"another type {NAME}")
    stopped(registered, job_id)
    collection.of.insert_one(document(len(IDS), Timestamp(1, 1), 9))
    collection.of.update_one({"n": collection.order()[0]}, {"$set": {"version": 9}})
    (rows,) = tables_of(finished(registered, job_id))
    assert [row["n"] for row in rows] == collection.order()
    assert rows[0]["version"] == 9
    assert datasource(registered, job_id)["snapshots"] == 1
