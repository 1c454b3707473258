"""The result document of `design.md` §5, framed around rows that the engines rendered.

    writer ─ "a":{…} straight ──┐
    spool  ─ {…} in a file ─────┼─► chunks of 8 MiB ─► sink, and the seal beside it
    spool  ─ {…} in a file ─────┘

The first datasource streams through `ResultWriter.begin`; the others are read at the same time
into a `Spool` each and follow through `ResultWriter.copy`. One `Meter` counts every byte once.
"""

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from fetcher.core.canonical import dumps
from fetcher.core.seal import START_OF_CHAIN, Chunk, Seal, chained
from fetcher.errors import LimitError
from fetcher.ports import Exchange, Sink

CHUNK = 8 * 1024 * 1024
PIECE = 1024 * 1024


class Meter:
    """Bytes and rows of a result over all threads; nothing over the bound is let through.

    A resumed attempt begins with what its checkpoint holds.
    """

    def __init__(self, limit: int, size: int = 0, rows: int = 0) -> None:
        self.limit = limit
        self.size = size
        self.rows = rows
        self._lock = threading.Lock()

    def add(self, size: int, rows: int = 0) -> None:
        """Count before writing; raise `LimitError` and count nothing if the bound would be crossed."""
        with self._lock:
            if self.size + size > self.limit:
                raise LimitError(f"the result is larger than {self.limit} bytes; ask for fewer fields or rows")
            self.size += size
            self.rows += rows


class Target(Protocol):
    """Where the bytes of one datasource go."""

    def put(self, body: bytes, rows: int = 0) -> None:
        """Take the next bytes, and count them."""
        ...

    def boundary(self) -> None:
        """Note that the bytes so far end with a whole row."""
        ...


class DatasourceOutlet:
    """Frames the tables of one datasource: `{"<table as requested>":[<row>,…],…}`.

    Used by one thread. Left without `end`, it leaves the document unfinished on purpose.
    `resumed` continues after a row of an open table.
    """

    def __init__(self, target: Target, *, resumed: bool = False) -> None:
        self._target = target
        self._tables = resumed
        self._rows = resumed
        if not resumed:
            target.put(b"{")

    def begin_table(self, name: str) -> None:
        """Open a table; it stays `[]` when no page follows."""
        self._target.put(f"{',' if self._tables else ''}{dumps(name)}:[".encode())
        self._tables, self._rows = True, False

    def page(self, body: bytes, rows: int) -> None:
        """Write the next rows. When a chunk was cut, it ends exactly with this page."""
        if self._rows:
            self._target.put(b",")
        self._target.put(body, rows)
        self._rows = True
        self._target.boundary()

    def end_table(self) -> None:
        """Close the open table."""
        self._target.put(b"]")

    def end(self) -> None:
        """Close the datasource."""
        self._target.put(b"}")


class ResultWriter:
    """Frames datasources in the order given and hands the sink one chunk a call.

    A chunk ends with the first whole page at or over 8 MiB; only the last one may be smaller. So a
    chunk can be one S3 part, and the page that cut it is a place to resume from. `chunks` lists what
    the sink took; give the list back to a new writer, whose first call then is `resume`. A resumed
    writer has no whole stream to seal: pass None and seal the stored object.
    """

    def __init__(self, sink: Sink | Exchange, seal: Seal | None, meter: Meter, chunks: Sequence[Chunk] = ()) -> None:
        self.chunks = list(chunks)
        self._sink = sink
        self._seal = seal
        self._meter = meter
        self._datasources = bool(chunks)
        self._chunk = bytearray()
        self._size = 0
        if not chunks:
            self.put(b"{")

    def begin(self, datasource: str) -> DatasourceOutlet:
        """Open the next datasource to be streamed; `end` it before anything else is written."""
        self._name(datasource)
        return DatasourceOutlet(self)

    def resume(self) -> DatasourceOutlet:
        """Go on inside the table whose page ended the last of the chunks given."""
        return DatasourceOutlet(self, resumed=True)

    def copy(self, datasource: str, spool: "Spool", check: Callable[[], None] = lambda: None) -> None:
        """Append a datasource that was spooled, already counted; `check` is called before each MiB."""
        self._name(datasource)
        for piece, whole in spool.pieces():
            check()
            self._append(piece)
            if whole:
                self.boundary()

    def end(self) -> None:
        """Close the document and hand over the last chunk."""
        self.put(b"}")
        self._cut()

    def put(self, body: bytes, rows: int = 0) -> None:
        """Count the next bytes and keep them until a chunk is full."""
        self._meter.add(len(body), rows)
        self._append(body)

    def boundary(self) -> None:
        """Cut a chunk here if one is full."""
        if self._size >= CHUNK:
            self._cut()

    def _name(self, datasource: str) -> None:
        self.put(f"{',' if self._datasources else ''}{dumps(datasource)}:".encode())
        self._datasources = True

    def _append(self, body: bytes) -> None:
        """Put bytes behind the others: over what an earlier chunk has left there, as far as it reaches."""
        end = self._size + len(body)
        if end <= len(self._chunk):
            memoryview(self._chunk)[self._size : end] = body
        else:
            del self._chunk[self._size :]
            self._chunk += body
        self._size = end

    def _cut(self) -> None:
        body = self._chunk
        del body[self._size :]
        digest = hashlib.sha256(body).hexdigest()
        previous = self.chunks[-1].chain if self.chunks else START_OF_CHAIN
        taken = Chunk(len(body), digest, chained(previous, digest))
        if self._seal:
            self._seal.update(body)
        self._chunk, self._size = self._given(body), 0
        self.chunks.append(taken)

    def _given(self, body: bytearray) -> bytearray:
        """Give a chunk away and return memory for the next one. A sink that may keep it gets a copy."""
        if isinstance(self._sink, Exchange):
            return self._sink.exchange(body)
        self._sink.write(bytes(body))
        return body


class Spool:
    """One datasource on disk until its turn comes. The file has no name and is gone when closed."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self._meter = meter
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 — this object is its context manager
        self._size = 0
        self._ends = [0]

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def put(self, body: bytes, rows: int = 0) -> None:
        """Count and keep the next bytes; a full bound stops them before the disk is full."""
        self._meter.add(len(body), rows)
        self._file.write(body)
        self._size += len(body)

    def boundary(self) -> None:
        """Remember this end of a page, unless another one is less than a piece away."""
        if self._size - self._ends[-1] >= PIECE:
            self._ends.append(self._size)

    def pieces(self) -> Iterator[tuple[bytes, bool]]:
        """Yield what was written, at most 1 MiB at a time, each with whether it ends a page."""
        at = 0
        self._file.seek(0)
        for end in self._ends:
            while at < end:
                piece = self._file.read(min(end - at, PIECE))
                at += len(piece)
                yield piece, at == end
        while piece := self._file.read(PIECE):
            yield piece, False

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()
