"""Which collections and views there are, and what each is beside its name.

A `find` of a name that is gone answers like one of an empty collection (SERVER-92371). So what a name stands for is
noted with the plan and asked for again behind the last document: a collection that was dropped, made again or replaced
by a rename has another `info.uuid`, and a view shows what the collections behind it show.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pymongo.errors import OperationFailure

from fetcher.engines._mongodb.cursor import Command, Database
from fetcher.engines._mongodb.errors import UNAUTHORIZED

Listed = Mapping[str, Any]
Identity = Mapping[str, tuple[Any, ...]]
"""What a name stands for: itself and all that is behind it, each with its type, `info.uuid` and a view's definition.

Who may only list the names of what he may read is told no more than that a name is there."""

ALLOWED: Command = {"nameOnly": True, "authorizedCollections": True}
"""For users who may not list, but may read some collections."""

SYSTEM = "system."
"""Begins the names that MongoDB keeps to itself."""
BUCKETS = f"{SYSTEM}buckets."
"""Begins the name of the collection behind a time series."""

FOREIGN = frozenset({"from", "coll", "$unionWith"})
"""Members of a view's stages that name another collection: of `$lookup`, `$graphLookup` and `$unionWith`."""


def listed(database: Database, names: Sequence[str]) -> list[Listed]:
    """Describe these collections and views, or all, sorted; the system's own are skipped by their reserved prefix."""
    return _own(_listed(database, names))


def named(database: Database) -> list[str]:
    """Name every collection and view, sorted, and look into none."""
    return [str(each["name"]) for each in _own(_all(database, {"nameOnly": True}))]


def identities(database: Database, found: Sequence[Listed]) -> dict[str, Identity]:
    """Tell what each of these stands for; collections behind views are listed too, a level at a time."""
    known = {str(each["name"]): each for each in found}
    asked, wanted = {*known}, _behind(known.values())
    while new := wanted - asked:
        asked |= new
        deeper = {str(each["name"]): each for each in _listed(database, sorted(new))}
        known |= deeper
        wanted = _behind(deeper.values())
    return {str(each["name"]): _identity(str(each["name"]), known) for each in found}


def _identity(name: str, known: Mapping[str, Listed]) -> Identity:
    reached: dict[str, tuple[Any, ...]] = {}
    left = [name]
    while left:
        if (each := known.get(left.pop())) is not None and each["name"] not in reached:
            options = each.get("options") or {}
            kind, uuid = each.get("type"), (each.get("info") or {}).get("uuid")
            reached[str(each["name"])] = (kind, uuid, options.get("viewOn"), options.get("pipeline"))
            left += _behind([each])
    return reached


def _behind(found: Iterable[Listed]) -> set[str]:
    names = set[str]()
    for each in found:
        options = each.get("options") or {}
        names |= {options["viewOn"]} if "viewOn" in options else set()
        names |= {*_foreign(options.get("pipeline") or [])}
        names |= {f"{BUCKETS}{each['name']}"} if each.get("type") == "timeseries" else set()
    return names


def _foreign(stage: Any) -> Iterator[str]:
    """Find every collection that a pipeline may name, in whatever stage; a text that is none is never listed."""
    members = stage.items() if isinstance(stage, Mapping) else [("", each) for each in stage]
    for name, value in members:
        if isinstance(value, str):
            yield from [value] if name in FOREIGN else []
        elif isinstance(value, Mapping | list):
            yield from _foreign(value)


def _own(found: Sequence[Listed]) -> list[Listed]:
    return sorted((each for each in found if not each["name"].startswith(SYSTEM)), key=lambda each: str(each["name"]))


def _listed(database: Database, names: Sequence[str]) -> list[Listed]:
    return _all(database, {"filter": {"name": {"$in": list(names)}}} if names else {})


def _all(database: Database, chosen: Command) -> list[Listed]:
    try:
        return database.collections(chosen)
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
        return database.collections({**chosen, **ALLOWED})
