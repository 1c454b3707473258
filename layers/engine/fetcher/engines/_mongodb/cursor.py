"""A read on the wire: one `find` and its `getMore`s, each reply as the bytes of a BSON array of documents.

The driver's own cursors fix the number of documents of a batch beforehand; here it follows the size of the
documents, so that a batch stays about as large whatever a collection holds. The server ends one at 16 MB.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from bson.codec_options import CodecOptions
from bson.errors import InvalidBSON
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession

from fetcher.engines._mongodb.client import Client
from fetcher.engines._mongodb.scalars import FIXED
from fetcher.engines._mongodb.values import ARRAY, BINARY, LENGTH, OBJECT, STRING

FIRST = 16
"""Documents of the first batch, as nothing is known of their size yet."""
AIM = 256 * 1024
"""Bytes of a batch."""
MOST = 20_000

INT64 = 0x12
BEFORE = {STRING: 4, BINARY: 5}
"""Bytes before those that a length counts; a document counts all of its own."""

RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)

Command = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """A reply's bytes, and from where to where they are the elements of an array of documents."""

    data: bytes
    first: int = 0
    end: int = 0

    def starts(self) -> list[int]:
        """Find where each document begins. Raises `InvalidBSON`."""
        starts, at = [], self.first
        while at < self.end:
            start, at = document(self.data, at)
            starts.append(start)
        if at != self.end:
            raise InvalidBSON("a batch that does not end where it says")
        return starts


class Database:
    """One database in one session of the driver: a cursor belongs to the session that opened it."""

    def __init__(self, client: Client, name: str, concern: str | None) -> None:
        self._database = client[name]
        self._preference = client.read_preference
        self._session: ClientSession = client.start_session(causal_consistency=False)
        self._concern = {} if concern is None else {"readConcern": {"level": concern}}

    def find(self, name: str, milliseconds: int, options: Command) -> "Cursor":
        """Begin a read. The server ends it when it has worked for so long."""
        command = {"find": name, **self._concern, "maxTimeMS": max(1, milliseconds), "batchSize": FIRST, **options}
        return Cursor(self.run, name, self.run(command))

    def run(self, command: Command) -> RawBSONDocument:
        """Run a command and return its reply as bytes, once the driver has found no error in it."""
        return self._database.command(
            command, codec_options=RAW, session=self._session, read_preference=self._preference
        )

    def collections(self, options: Command) -> list[Mapping[str, Any]]:
        """List collections and views, all of them."""
        listing = self._database.cursor_command(
            {"listCollections": 1, **options}, session=self._session, read_preference=self._preference
        )
        return list(listing)

    def close(self) -> None:
        """Give the session back."""
        self._session.end_session()


class Cursor:
    """The batches of one read. Only a reply whose cursor is 0 ends it; everything else raises."""

    def __init__(self, run: Callable[[Command], RawBSONDocument], name: str, reply: RawBSONDocument) -> None:
        self.id = 0
        self.name = name
        self._run = run
        self._wanted = FIRST
        self._batch = self._taken(reply, "firstBatch")

    def batch(self) -> Batch | None:
        """Return the next documents, at least one; None after the last."""
        while True:
            batch, self._batch = self._batch, Batch(b"")
            if batch.first < batch.end:
                return batch
            if not self.id:
                return None
            more = {"getMore": Int64(self.id), "collection": self.name, "batchSize": self._wanted}
            self._batch = self._taken(self._run(more), "nextBatch")

    def seen(self, documents: int, size: int) -> None:
        """Learn of a batch how large documents are, and so how many to ask for."""
        self._wanted = min(MOST, max(1, AIM * documents // size))

    def kill(self) -> None:
        """Let the server forget a read that is not at its end."""
        cursor, self.id = self.id, 0
        if cursor:
            self._run(killed(self.name, cursor))

    def _taken(self, reply: RawBSONDocument, field: str) -> Batch:
        """Keep the cursor's id, and find the array of its documents, whose bytes are left where they are."""
        data = bytes(reply["cursor"].raw)
        found = {name: at for name, kind, at in _members(data) if kind in {INT64, ARRAY}}
        self.id = int.from_bytes(data[found[b"id"] :][:8], "little", signed=True)
        return _array(data, found[field.encode()])


def killed(name: str, cursor: int) -> Command:
    """Return the command that ends a cursor."""
    return {"killCursors": name, "cursors": [Int64(cursor)]}


def _members(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Go through the names, types and places of a document's values without looking into them."""
    at = 4
    while kind := data[at]:
        stop = data.index(0, at + 1)
        name, at = data[at + 1 : stop], stop + 1
        yield name, kind, at
        at += FIXED[kind][0] if kind in FIXED else LENGTH(data, at)[0] + BEFORE.get(kind, 0)


def _array(data: bytes, at: int) -> Batch:
    return Batch(data, at + 4, at + LENGTH(data, at)[0] - 1)


def document(data: bytes, at: int) -> tuple[int, int]:
    """Find where a document begins and ends that is the element of an array at `at`."""
    if data[at] != OBJECT:
        raise InvalidBSON("a batch of something else than documents")
    start = data.index(0, at) + 1
    return start, start + LENGTH(data, start)[0]
