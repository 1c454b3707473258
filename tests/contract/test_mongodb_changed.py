"""A collection that goes, or becomes another one, between plan and read: an error to read anew by, never no rows.

`find` answers for a name that is gone like for an empty collection. The stand-in stores documents and drops them as
MongoDB does, and gives each collection an `info.uuid`; what needs more is answered over the wire by `mongo_wire`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from pymongo.errors import OperationFailure

from fetcher.core.checkpoint import Checkpoint, Mark
from fetcher.core.checkpoint import Part as Stored
from fetcher.engines import narrowed
from fetcher.errors import ChangedError, UnavailableError
from fetcher.model import Position
from tests.contract.kinds import Source
from tests.contract.mongo_wire import Command, Wire, collection, view
from tests.contract.test_changed import planned, read
from tests.contract.test_mongodb_sharded import reading, stored

ROWS = [{"_id": number} for number in range(5)]
MARK = Checkpoint(
    "token",
    "results/x",
    parts=(Stored(1, "etag", 9, "ab" * 32),),
    mark=Mark(0, Position((("int", '{"$numberInt": "1"}'),)), (2,)),
)
"""Of an attempt that ended behind the second of the rows."""


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


def run(served: Source, *commands: Mapping[str, Any]) -> None:
    for command in commands:
        served.run(json_util.dumps(command))


def filled(served: Source, name: str, documents: Sequence[Mapping[str, Any]] = ROWS) -> None:
    with suppress(OperationFailure):  # of a database that is not there yet
        run(served, {"drop": name})
    run(served, {"insert": name, "documents": documents})


DROP: Command = {"drop": "changed"}
IMPORT: Command = {"insert": "changed", "documents": ROWS[:1]}
SWAP: Command = {
    "$db": "admin",
    "renameCollection": "shop.changed_next",
    "to": "shop.changed",
    "dropTarget": True,
}
CHANGES: Mapping[str, Sequence[Command]] = {
    "dropped": [DROP],
    "dropped and imported again": [DROP, IMPORT],
    "replaced by another": [SWAP],
    "renamed": [{**SWAP, "renameCollection": "shop.changed", "to": "shop.changed_before"}],
}


def of(database: str, command: Command) -> dict[str, Any]:
    """Name the database that is served in commands about whole names."""
    return {
        name: value.replace("shop.", f"{database}.") if name in {"renameCollection", "to"} else value
        for name, value in command.items()
    }


@pytest.mark.parametrize("checkpoint", [None, MARK], ids=["anew", "from a checkpoint"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_collection_that_became_another_is_not_read_as_empty_or_short(
    served: Source, tmp_path: Path, change: str, checkpoint: Checkpoint | None
) -> None:
    """R-002-1, R-000-21: neither `[]` for a collection that had rows, nor a result without its tail."""
    for name in ("changed_next", "changed_before", "changed"):
        filled(served, name)
    run(served, {"drop": "changed_before"})
    with planned(served) as rest:
        run(served, *[of(served.to.database, command) for command in CHANGES[change]])
        with pytest.raises(ChangedError) as caught:
            rest(tmp_path, checkpoint)
    assert isinstance(caught.value, UnavailableError), "so it is tried again"
    assert (caught.value.where.datasource, caught.value.where.table) == ("source", "changed")


def test_what_only_changes_its_documents_is_the_same_collection(served: Source, tmp_path: Path) -> None:
    """Emptied by deletes, it is `[]`: each document is read as it is."""
    filled(served, "changed")
    assert read(served, tmp_path) == ROWS
    with planned(served) as rest:
        run(served, {"delete": "changed", "deletes": [{"q": {}, "limit": 0}]})
        assert rest(tmp_path) == []


def test_a_view_is_what_is_behind_it(served: Source, tmp_path: Path) -> None:
    """A view of a collection that is gone is empty, too; so is one of a view of it."""
    for name in ("changed", "changed_inner"):
        with suppress(OperationFailure):
            run(served, {"drop": name})
    filled(served, "changed_behind")
    run(served, {"create": "changed_inner", "viewOn": "changed_behind", "pipeline": [{"$project": {"_id": 1}}]})
    run(served, {"create": "changed", "viewOn": "changed_inner", "pipeline": []})
    assert read(served, tmp_path) == ROWS
    with planned(served) as rest:
        run(served, {"drop": "changed_behind"})
        with pytest.raises(ChangedError):
            rest(tmp_path)
    run(served, {"drop": "changed"}, {"drop": "changed_inner"})


def test_a_collection_of_an_organization_that_is_gone_takes_the_read_along(served: Source, tmp_path: Path) -> None:
    """`plugin_crm` reads one collection after the other, and each of them is looked for behind its last document."""
    to = narrowed(replace(served.to, kind="plugin_crm"), (), {"organizationId": ["one", "two"]})
    at = replace(served, to=to, secret=replace(served.secret, hash_key="h", encryption_key="5a" * 32))
    for name in ("changed_one", "changed_two"):
        filled(served, name)
    assert [row["_id"] for row in read(at, tmp_path)] == [*range(5)] * 2
    with planned(at) as rest:
        run(served, {"drop": "changed_two"})
        with pytest.raises(ChangedError):
            rest(tmp_path)
    run(served, {"drop": "changed_one"})


# --- over the wire


def wired(**given: Any) -> Wire:
    """Two documents, two more in another collection, and a view over both."""
    pipeline = [{"$lookup": {"from": "more", "as": "more", "pipeline": [{"$unionWith": "most"}]}}]
    listing = [collection("some", 1), collection("more", 2), collection("most", 3), view("seen", "some", *pipeline)]
    return Wire({name: stored(range(40)) for name in ("some", "more", "most", "seen")}, listing, **given)


@pytest.mark.parametrize("gone", ["some", "more", "most", "seen"])
def test_every_collection_that_a_view_takes_rows_from_has_to_stay(gone: str) -> None:
    """R-002-1: those of `$lookup` and `$unionWith` as well, in whatever stage within a stage."""
    wire = wired()
    with reading(wire) as reader:
        query = reader.plan("seen")
        wire.drop(gone)
        with pytest.raises(ChangedError):
            reader.pages(query)


def test_a_collection_that_goes_between_two_batches_is_noticed(tmp_path: Path) -> None:
    """A server ends such a cursor with an error; should one end it in silence, the look behind it still comes."""
    wire = wired()
    with reading(wire) as reader:
        query = reader.plan("some", page_bytes=1)
        pages = reader.session.read(query, None)
        next(pages)
        wire.drop("some")
        with pytest.raises(ChangedError):
            list(pages)


def test_who_may_only_see_names_is_told_when_one_goes() -> None:
    """Without `listCollections`, a server shows no `info.uuid`: a name that is there again is taken for the same."""
    wire = wired(may_list=False)
    with reading(wire) as reader:
        query = reader.plan("some")
        assert sum(page.rows for page in reader.pages(query)) == 40
        wire.drop("some")
        with pytest.raises(ChangedError):
            reader.pages(query)


def test_a_time_series_is_the_buckets_behind_it() -> None:
    """It has no `info.uuid` of its own before MongoDB 9."""
    series = {"name": "series", "type": "timeseries", "options": {"timeseries": {}}, "info": {"readOnly": False}}
    wire = Wire({"series": stored(range(3))}, [series, collection("system.buckets.series", 7)])
    with reading(wire) as reader:
        query = reader.plan("series")
        assert list(reader.session.discover(()).tables) == [("series",)]
        wire.listing[1] = collection("system.buckets.series", 8)
        with pytest.raises(ChangedError):
            reader.pages(query)


def test_a_read_that_is_left_half_way_looks_no_more() -> None:
    wire = wired()
    with reading(wire) as reader:
        pages = reader.session.read(reader.plan("some", page_bytes=1), None)
        next(pages)
        wire.drop("some")
        before = wire.asked.count("listCollections")
        pages.close()  # type: ignore[attr-defined] # the iterator is a generator
        assert wire.asked.count("listCollections") == before
