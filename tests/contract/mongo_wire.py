"""A few of MongoDB's commands over its wire protocol, to be what the stand-in that stores documents cannot be.

That is the router of a sharded cluster, a user who may list nothing, a million documents, and a server that drops a
collection between two given commands. It knows no login and stores nothing: a collection is a sequence of documents in
the order that it would be read in, and the only condition that it understands is the engine's own "behind this `_id`",
over numbers. Source: MongoDB Wire Protocol (`OP_MSG`, and `OP_QUERY` for a driver's first words).
"""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import bson
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument

from fetcher.model import Connection, Secret
from tests.contract.kinds import Source
from tests.contract.serving import served

HEADER = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
REPLY = struct.Struct("<iqii")
AWAITED = 8
"""`AwaitCapable`: a flag that every reply has."""
DATABASE = "shop"

Command = Mapping[str, Any]
Documents = Sequence[bytes]

UNAUTHORIZED = {"ok": 0.0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized"}
UNKNOWN = {"ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no such command"}
HELLO: Command = {
    "helloOk": True,
    "isWritablePrimary": True,
    "ismaster": True,
    "maxBsonObjectSize": 16 * 1024 * 1024,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "minWireVersion": 0,
    "maxWireVersion": 25,
    "logicalSessionTimeoutMinutes": 30,
    "connectionId": 1,
}
ROUTER: Command = {"msg": "isdbgrid"}
"""What `mongos` says of itself in `hello`."""


def collection(name: str, uuid: int, **options: Any) -> dict[str, Any]:
    """Describe a collection as `listCollections` does."""
    info = {"readOnly": False, "uuid": Binary(uuid.to_bytes(16), 4)}
    return {"name": name, "type": "collection", "options": options, "info": info}


def view(name: str, of: str, *pipeline: Command) -> dict[str, Any]:
    """Describe a view as `listCollections` does."""
    return {"name": name, "type": "view", "options": {"viewOn": of, "pipeline": pipeline}, "info": {"readOnly": True}}


@dataclass(slots=True)
class Wire:
    """What the server has and says; `before` is called with each command, and may change all of that.

    Without `may_list` it shows names alone, as to a user without that right.
    """

    documents: MutableMapping[str, Documents]
    listing: list[dict[str, Any]]
    hello: Command = field(default_factory=dict)
    may_list: bool = True
    before: Callable[[Command], object] = lambda _: None
    asked: list[str] = field(default_factory=list)
    _cursors: dict[int, tuple[str, Documents, int]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def drop(self, name: str) -> None:
        """Forget a collection; who reads its name finds nothing, and no error."""
        self.documents.pop(name, None)
        self.listing[:] = [each for each in self.listing if each["name"] != name]

    def answer(self, command: Command) -> Command:
        """Answer a command."""
        name = next(iter(command))
        self.asked.append(name)
        self.before(command)
        answers: Mapping[str, Callable[[Command], Command]] = {
            "listCollections": self._listed,
            "find": self._found,
            "getMore": self._more,
        }
        fixed: Mapping[str, Command] = {
            **{key: {**HELLO, **self.hello} for key in ("hello", "ismaster", "isMaster")},
            **{key: {} for key in ("ping", "killCursors", "endSessions")},
            "listDatabases": {"databases": [{"name": DATABASE}]},
        }
        return {"ok": 1.0, **(answers[name](command) if name in answers else fixed.get(name, UNKNOWN))}

    def _listed(self, command: Command) -> Command:
        if not self.may_list and not (command.get("nameOnly") and command.get("authorizedCollections")):
            return UNAUTHORIZED
        names = command.get("filter", {}).get("name", {}).get("$in")
        found = [each for each in self.listing if names is None or each["name"] in names]
        if command.get("nameOnly"):
            found = [{"name": each["name"], "type": each["type"]} for each in found]
        return {"cursor": {"id": Int64(0), "ns": f"{DATABASE}.$cmd.listCollections", "firstBatch": found}}

    def _found(self, command: Command) -> Command:
        found = self.documents.get(command["find"], [])
        if command.get("filter"):
            behind = _behind(command["filter"])
            found = [each for each in found if bson.decode(each)["_id"] > behind]
        limit = command.get("limit") or len(found)
        chosen = found[-limit:][::-1] if command.get("sort") == {"_id": -1} else found[:limit]
        return self._batch(command["find"], chosen, 0, command, "firstBatch")

    def _more(self, command: Command) -> Command:
        name, found, at = self._cursors.pop(command["getMore"])
        return self._batch(name, found, at, command, "nextBatch")

    def _batch(self, name: str, found: Documents, at: int, command: Command, member: str) -> Command:
        end = min(len(found), at + command.get("batchSize", 101))
        number = next(self._numbers) if end < len(found) else 0
        if number:
            self._cursors[number] = name, found, end
        documents = [RawBSONDocument(each) for each in found[at:end]]
        return {"cursor": {"id": Int64(number), "ns": f"{DATABASE}.{name}", member: documents}}


def _behind(condition: Command) -> Any:
    """Read a position out of the engine's own condition, whose other branch is later types of `_id`."""
    (term,) = condition["$and"]
    first, later = term["$or"]
    assert "$type" in later["_id"]
    return first["_id"]["$gt"]


@contextmanager
def serving(wire: Wire) -> Iterator[Connection]:
    """Serve it, and tell where."""
    with served(lambda client: _serve(client, wire)) as port:
        yield Connection("source", "mongodb", "127.0.0.1", port, DATABASE, "")


def source(to: Connection) -> Source:
    """Describe it as far as the suite's reader needs: nothing is created there."""
    return Source(to, Secret(""), "", _never, _never, _never, _never)


def _never(*_: Any) -> Any:
    raise NotImplementedError


def _serve(client: socket.socket, wire: Wire) -> None:
    while len(header := client.recv(HEADER.size, socket.MSG_WAITALL)) == HEADER.size:
        size, number, _, operation = HEADER.unpack(header)
        body = client.recv(size - HEADER.size, socket.MSG_WAITALL)
        if operation == OP_QUERY:
            at = body.index(b"\0", 4) + 1 + 8
            answer = REPLY.pack(AWAITED, 0, 0, 1) + bson.encode(wire.answer(bson.decode(body[at:])))
        else:
            answer = bytes(5) + bson.encode(wire.answer(bson.decode(body[5:])))
        kind = OP_REPLY if operation == OP_QUERY else OP_MSG
        client.sendall(HEADER.pack(HEADER.size + len(answer), 0, number, kind) + answer)
