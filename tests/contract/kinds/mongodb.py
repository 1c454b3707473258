"""MongoDB's stand-in from the pip package `secantusdb`.

A collection's key is always `_id`, so `events` has it beside `id`, and the tables whose rows the suite knows
to the letter are views without it. There are no schemas: `other.events` is the name of one collection.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from bson import Decimal128, json_util
from bson.binary import Binary
from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.uri_parser import parse_uri

from fetcher.model import Connection, Encoding, Secret
from infra.local import secantus
from tests.contract import strategies
from tests.contract.kinds import EVENTS, HEAVY, ODD_NAMES, OTHER_SCHEMA, Rows, Source, own_name

_KEY = "the key is always `_id`, and every document has it: test_mongodb_shape.py"
DIFFERENT = {
    "test_tables_and_views_are_discovered_with_columns_and_keys": _KEY,
    "test_views_and_tables_without_a_key_have_none": _KEY,
    "test_the_key_need_not_be_among_the_fields": _KEY,
    "test_the_wildcard_brings_every_column": "documents come as they are stored: test_mongodb_shape.py",
    "test_only_the_schemas_asked_for_are_discovered": "no schemas: test_mongodb_shape.py",
    "test_a_column_that_has_gone_is_an_invalid_request": "a missing field is null: test_mongodb_shape.py",
    "test_a_nul_in_a_value_is_invalid": "text may hold NUL: test_mongodb_shape.py",
    "test_a_session_only_reads": "it sends nothing but reads: `find`, `aggregate`, `listCollections`",
    "test_one_session_sees_one_snapshot": "a standalone server has none; the manifest says so",
    "test_a_table_without_the_right_to_read_it_is_refused": "the stand-in has no such rights: test_mongodb_faults.py",
    "test_a_cancel_from_another_thread_stops_the_source[mongodb-slow]": "test_mongodb_faults.py, by a fail point",
    "test_a_server_that_computes_in_silence_is_left_to_work": "test_mongodb_faults.py, by a fail point",
    "test_tls_that_the_server_does_not_offer_is_refused": "by mode and certificate: test_mongodb_tls.py",
    "test_the_deadline_ends_a_read": "test_mongodb_faults.py, by a fail point",
    "test_a_cancel_ends_a_discovery_that_the_server_holds": "test_mongodb_faults.py, by a fail point",
    "test_a_dead_way_leaves_the_server_to_its_own_time_limit[mongodb-slow]": "no such view; `maxTimeMS` bounds it",
    "test_the_deadline_leaves_nothing_at_the_server[mongodb-slow]": "test_mongodb_faults.py, by a fail point",
    "test_a_dead_way_leaves_the_server_to_its_own_time_limit[mongodb-million]": "between two batches nothing works",
    "test_a_stalled_flow_leaves_nothing_at_the_server": "the stand-in calls a connection active after its last word",
    "test_memory_is_flat_over_a_million_rows": "the stand-in is too slow; over the wire: test_mongodb_memory.py",
}

NAMES = tuple(name for name in ODD_NAMES if "$" not in name)
"""The driver refuses to write a collection with a dollar in its name."""

READER_PASSWORD = 'only reads %s & "more" host=evil:@/?#ü'
MOST_COLUMNS = 6
"""Of random tables, whose columns are named `c0` and so on."""
MANY = 20_000
"""Documents of `million`: the stand-in is slow."""
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
QUALIFIED = "public"
"""Begins the collections that stand for tables with a dot in their name."""

DECLARED: Mapping[Encoding, str] = {
    Encoding.INTEGER: "long",
    Encoding.DECIMAL: "decimal",
    Encoding.FLOAT: "double",
    Encoding.TEXT: "string",
    Encoding.BOOLEAN: "bool",
    Encoding.TIMESTAMP_UTC: "date",
    Encoding.UUID: "binData 4",
    Encoding.BINARY: "binData",
}
RANDOM = {
    "long": strategies.INTEGERS,
    "string": strategies.WORDS_WITH_NUL,
    "decimal": strategies.DECIMALS,
    "date": strategies.MILLISECONDS,
    "binData 4": strategies.UUIDS,
}

Document = Mapping[str, Any]


@contextmanager
def serving() -> Iterator[Source]:
    """Start the server and fill it, or fill a database of our own on the real one that is given by its address."""
    with _server() as server, server.client() as client:
        database = client[server.database]
        _fill(database)
        _create_reader(database)

        def run(command: str) -> Sequence[Sequence[Any]]:
            """Run a command, written as extended JSON, in the database or in that of its `$db`."""
            asked = json_util.loads(command)
            where = client[asked.pop("$db", server.database)]
            return (tuple(where.command(asked).items()),)

        def create(name: str, columns: Mapping[str, str], key: Sequence[str], rows: Rows) -> None:
            """The key's columns are the members of `_id` too; a value that is None is missing in every second row."""
            database[name].drop()
            documents = [_document(columns, key, row, missing=at % 2 == 0) for at, row in enumerate(rows)]
            distinct = {json_util.dumps(document["_id"]): document for document in documents}
            if distinct:
                database[name].insert_many(distinct.values())
            else:
                database.create_collection(name)

        def stored(name: str, key: Sequence[str]) -> Rows:
            found = [dict(_flat(document)) for document in database[name].find().sort("_id")]
            return [tuple(row.get(f"c{at}") for at in range(MOST_COLUMNS)) for row in found]

        to = Connection("source", "mongodb", server.host, server.port, server.database, server.user)
        yield Source(
            to,
            Secret(server.password),
            READER_PASSWORD,
            run,
            lambda name: _active(client, name),
            create,
            stored,
            odd_names=NAMES,
            tls_required="true",
        )


@contextmanager
def _server() -> Iterator[secantus.Server]:
    if not (address := os.environ.get("FETCHER_TEST_MONGODB_DSN")):
        with secantus.running() as server:
            yield server
        return
    parts = parse_uri(address)
    ((host, port), *_) = parts["nodelist"]
    own = own_name()
    server = secantus.Server(Path(), port or 27017, parts["password"], host, parts["username"], own)
    try:
        yield server
    finally:
        with server.client() as client:
            client.admin.command({"dropUser": "reader"})
            client.drop_database(own)


def _active(client: MongoClient[dict[str, Any]], application: str) -> int:
    """Count connections whose last command was a read; the driver's own also ask for news."""
    listed = client.admin.command("currentOp")["inprog"]
    reading = [each for each in listed if each.get("op") in {"find", "getMore", "aggregate", "query", "getmore"}]
    return sum(_application(each) == application for each in reading)


def _application(operation: Mapping[str, Any]) -> str | None:
    name = operation.get("appName") or operation.get("clientMetadata", {}).get("application", {}).get("name")
    return None if name is None else str(name)


def _fill(database: Database[dict[str, Any]]) -> None:
    database["events"].insert_many(map(_event, range(1, EVENTS + 1)))
    pairs = [{"a": chr(65 + i % 7), "b": i} for i in range(1, 201)]
    database["pairs"].insert_many({"_id": pair, **pair, "c": f"c{pair['b']}"} for pair in pairs)
    for name in ("events_seen", "events_kept"):
        database.create_collection(name, viewOn="events", pipeline=[{"$project": {"_id": 0, "id": 1, "note": 1}}])
    database.create_collection("empty")
    database["million"].insert_many(
        {"_id": i, "id": i, "note": f"some text of row number {i}"} for i in range(1, MANY + 1)
    )
    _view(database, "keyless", [{"note": "same"} for _ in range(50)])
    _view(database, f"{OTHER_SCHEMA}.events", [{"id": 1, "region": "north"}, {"id": 2, "region": "south"}])
    _view(database, "wide", [{"id": 1, **{f"c{number}": None for number in range(60)}}])
    _view(database, "heavy", [{"id": i, "body": os.urandom(2**19).hex()} for i in range(1, HEAVY + 1)])
    for name in NAMES:
        _view(database, f"{QUALIFIED}.{name}" if "." in name else name, [{name: 7, "note": "seven"}])


def _event(i: int) -> dict[str, Any]:
    """A null note is null in one half, and missing in the other."""
    note = {"note": f'note "{i}"\n'} if i % 3 else {"note": None} if i % 2 else {}
    moment = START + timedelta(minutes=i)
    amount = Decimal128(f"{i // 100}.{i % 100:02d}")
    rest = {"amount": amount, "at": moment, "moment": moment, "flag": i % 2 == 0}
    return {"_id": i, "id": i, "kind": f"kind {i % 5}", **note, **rest}


def _view(database: Database[dict[str, Any]], name: str, documents: Iterable[Document]) -> None:
    database[f"of {name}"].insert_many(dict(document) for document in documents)
    database.create_collection(name, viewOn=f"of {name}", pipeline=[{"$project": {"_id": 0}}])


def _create_reader(database: Database[dict[str, Any]]) -> None:
    every, events = {"db": database.name, "collection": ""}, {"db": database.name, "collection": "events"}
    privileges = [
        {"resource": every, "actions": ["listCollections"]},
        {"resource": events, "actions": ["find"]},
    ]
    database.command("createRole", "events only", privileges=privileges, roles=[])
    role = {"role": "events only", "db": database.name}
    database.client.admin.command("createUser", "reader", pwd=READER_PASSWORD, roles=[role])


def _document(columns: Mapping[str, str], key: Sequence[str], row: Sequence[Any], *, missing: bool) -> dict[str, Any]:
    values = {name: _bson(value, kind) for (name, kind), value in zip(columns.items(), row, strict=True)}
    present = {name: value for name, value in values.items() if not (missing and value is None)}
    return {"_id": {name: values[name] for name in key}, **present}


def _bson(value: Any, kind: str) -> Any:
    match kind:
        case _ if value is None:
            return None
        case "long":
            return Int64(value)
        case "decimal":
            return Decimal128(value)
        case "binData 4":
            return Binary.from_uuid(UUID(value))
        case _:
            return value


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Go through the members of a document and of its `_id`, as they are in the result."""
    for name, value in document.items():
        match value:
            case dict():
                yield from _flat(value)
            case Decimal128():
                yield name, value.to_decimal()
            case Binary(subtype=4):
                yield name, str(value.as_uuid())
            case datetime():
                yield name, value.isoformat(timespec="milliseconds") + "Z"
            case _:
                yield name, value
