"""MongoDB: BSON to JSON over a real wire, from batches recorded once, against the same bytes raw.

The tests' stand-in is no benchmark, so a process of ours replays replies: it answers any `find` and `getMore` with the
next of them. The reference takes the bytes and signs them, and makes no JSON.
"""

import hashlib
import hmac
import json
import multiprocessing
import os
import random
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import orjson
import pymongo
from bson import Decimal128, Int64, ObjectId
from bson.binary import Binary
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from benchmarks.candidates import peak
from benchmarks.measure import interleaved, program, table
from fetcher.engines import mongodb
from fetcher.engines._mongodb.names import OPEN, REST
from fetcher.model import Column, Connection, Encoding, Query, Secret

DOCUMENTS = 400_000
BATCH = 1_000
HEADER = struct.Struct("<iiii")
OP_QUERY, OP_MSG, OP_REPLY = 2004, 2013, 1
WORDS = ["lorem", "ipsum", "dolor", "sit", "amet", "Größe", "consectetur", '"quoted"', "elit", "sed", "do", "eiusmod"]
KEY = b"k" * 32
HELLO = {"isWritablePrimary": True, "maxWireVersion": 21, "minWireVersion": 0, "setName": "r", "connectionId": 1}
OTHERS = {
    "ok": 1.0,
    "databases": [{"name": "shop"}],
    "inprog": [],
    "maxBsonObjectSize": 2**24,
    "logicalSessionTimeoutMinutes": 30,
    **HELLO,
}


def document(decimals: bool) -> dict[str, Any]:
    """Twelve fields as in the reference load of the other engines."""
    pick = random.random
    return {
        "_id": ObjectId(),
        "customer": random.randrange(10**6),
        **({"amount": Decimal128(f"{random.randrange(10**5)}.{random.randrange(100):02d}")} if decimals else {}),
        "name": " ".join(random.choices(WORDS[:6], k=3)),
        "title": " ".join(random.choices(WORDS, k=5)),
        "ref": Binary(uuid.uuid4().bytes, 4),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.randrange(10**10)),
        "flag": pick() < 0.5,
        "address": {"city": random.choice(WORDS), "zip": random.randrange(99_999), "tags": random.choices(WORDS, k=2)},
        "score": pick() * 1000,
        "views": Int64(random.randrange(10**12)),
        "note": None if pick() < 0.6 else "line one\nline two",
    }


def recorded(count: int, decimals: bool) -> list[bytes]:
    """Encode the replies of one read."""
    random.seed(1)
    replies = []
    for start in range(0, count, BATCH):
        batch = [document(decimals) for _ in range(min(BATCH, count - start))]
        cursor = {
            "id": Int64(0 if start + BATCH >= count else 1),
            "ns": "shop.c",
            "firstBatch" if not start else "nextBatch": batch,
        }
        replies.append(bson.encode({"cursor": cursor, "ok": 1.0}))
    return replies


def serve(listener: socket.socket, replies: Sequence[bytes]) -> None:
    """Answer every connection on a thread of its own."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=converse, args=(connection, replies), daemon=True).start()


def converse(connection: socket.socket, replies: Sequence[bytes]) -> None:
    """Replay the batches in order, again from the first with each `find`."""
    others, left = bson.encode(OTHERS), iter(replies)
    stream = connection.makefile("rb")
    while header := stream.read(HEADER.size):
        length, request, _, code = HEADER.unpack(header)
        body = stream.read(length - HEADER.size)
        name = "" if code == OP_QUERY else next(iter(RawBSONDocument(body[5:])))
        left = iter(replies) if name == "find" else left
        answer = next(left) if name in {"find", "getMore"} else others
        start = struct.pack("<iqii", 8, 0, 0, 1) if code == OP_QUERY else b"\0\0\0\0\0"
        size = HEADER.size + len(start) + len(answer)
        connection.sendall(HEADER.pack(size, 0, request, OP_REPLY if code == OP_QUERY else OP_MSG) + start + answer)


@contextmanager
def replaying(replies: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Run the server in a process of its own; yield its port and its id."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = multiprocessing.get_context("fork").Process(target=serve, args=(listener, replies), daemon=True)
        server.start()
        try:
            yield listener.getsockname()[1], server.pid or 0
        finally:
            server.terminate()
            server.join()


def raw(port: int) -> int:
    """Take the bytes and sign them."""
    seal, size = hmac.new(KEY, digestmod=hashlib.sha256), 0
    with MongoClient[Any]("127.0.0.1", port, directConnection=True) as client:
        for batch in client["shop"]["c"].find_raw_batches():
            seal.update(batch)
            size += len(batch)
    return size


def engine(port: int) -> int:
    """Read as the product does."""
    seal, size = hmac.new(KEY, digestmod=hashlib.sha256), 0
    to = Connection("bench", "mongodb", "127.0.0.1", port, "shop", "")
    columns = (Column("_id", "objectId", Encoding.TEXT), Column(REST, OPEN, Encoding.DOCUMENT))
    with mongodb.connect(to, Secret(""), seconds=300, application="bench") as session:
        for page in session.read(Query("c", ("c",), columns, columns[:1]), None):
            seal.update(page.body)
            size += len(page.body)
    return size


def dictionaries(port: int) -> int:
    """Decode to dictionaries and dump them: what most tools do, with the fastest libraries."""
    options: CodecOptions[Any] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    seal, size = hmac.new(KEY, digestmod=hashlib.sha256), 0
    with MongoClient[Any]("127.0.0.1", port, directConnection=True) as client:
        for found in client["shop"].get_collection("c", codec_options=options).find():
            body = orjson.dumps(found, _default)
            seal.update(body)
            size += len(body)
    return size


def _default(value: Any) -> Any:
    if isinstance(value, Binary):
        return str(value.as_uuid())
    return int(value) if isinstance(value, DatetimeMS) else str(value)


WAYS: dict[str, Callable[[int], int]] = {
    "find_raw_batches, HMAC of the BSON": raw,
    "fetcher": engine,
    "find(), dictionaries, orjson": dictionaries,
}


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Replay recorded replies, and yield the lines of a table for documents with and without Decimal128."""
    yield f"PyMongo {pymongo.version}; a process replays replies that were recorded once, of 1,000 documents each."
    yield ""
    count = max(BATCH, int(DOCUMENTS * scale))
    for decimals in (True, False):
        with replaying(recorded(count, decimals)) as (port, server):
            command = [sys.executable, "-m", "benchmarks.mongodb"]
            ways = {name: program([*command, name, str(port)], os.environ) for name in WAYS}
            title = "twelve fields" if decimals else "eleven fields, no Decimal128"
            yield from table(title, count, interleaved(ways, rounds, server))


def main(name: str, port: str) -> None:
    """Read in one way, and print what `measure.Cost` holds, without the interpreter's start."""
    began, worked = time.perf_counter(), time.process_time()
    size = WAYS[name](int(port))
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak() / 1024, "size": size}))


if __name__ == "__main__":
    main(*sys.argv[1:])
