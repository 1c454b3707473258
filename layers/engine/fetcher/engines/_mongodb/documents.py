"""Documents as rows: whole, as they are stored, or the requested fields, where a missing one is null."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from fetcher.engines._mongodb.columns import MisfitError
from fetcher.engines._mongodb.cursor import Batch, Cursor
from fetcher.engines._mongodb.keys import KEY, apart, position
from fetcher.engines._mongodb.names import REST, path_of
from fetcher.engines._mongodb.shapes import Cut, Shape
from fetcher.engines._mongodb.values import ARRAY, OBJECT, elements, member, value, walk, whole
from fetcher.model import Column, Page, Position, Query

Row = Callable[[bytes, int], bytes]

LESSONS, LESSON = 8, 100
"""How often a read may learn what its documents look like, and from how many of them."""
TOLERATED = 0.1
"""The part of a batch that may miss the shape before it is learned again."""


def is_whole(columns: Sequence[Column]) -> bool:
    """Whether a query wants documents as they are: the wildcard is the only way to ask for `*`."""
    return any(column.name == REST for column in columns)


def projection(query: Query) -> Mapping[str, Any]:
    """Let the server send what is needed, unless some name is one that a projection takes for something else."""
    paths = [path_of(column) for column in query.columns]
    if is_whole(query.columns) or None in paths:
        return {}
    wanted = {_projected(path) for path in paths if path} | ({(KEY,)} if query.key else set())
    kept = {path for path in wanted if not any(path[:length] in wanted for length in range(1, len(path)))}
    return {"projection": {KEY: 0, **{".".join(path): 1 for path in sorted(kept)}}}


def _projected(path: Sequence[str]) -> tuple[str, ...]:
    """Cut a path before the index of an array's element, which a projection does not know."""
    numbers = [at for at, part in enumerate(path) if at and part.isdigit()]
    return tuple(path[: numbers[0]] if numbers else path)


def pages(cursor: Cursor, query: Query, beat: Callable[[], None], *, twins: bool = False) -> Iterator[Page]:
    """Render batches and cut pages of about the query's size.

    Where there may be `twins`, documents with one `_id`, a page has a position only if the next document is seen to
    have another one: a read that goes on behind a position would not meet the second twin.
    """
    writer, bodies, size = Writer(query.columns), list[bytes](), 0
    last = None
    while batch := cursor.batch():
        beat()
        found, starts = writer.rows(batch)
        cursor.seen(len(found), len(batch.data))
        sums = [*accumulate(map(len, found), initial=size)]
        size = first = 0
        while (end := bisect_left(sums, size + query.page_bytes, first + 1)) < len(sums):
            position = _position(batch.data, starts, end, twins=twins) if query.key else None
            yield _page([*bodies, *found[first:end]], position)
            bodies, size, first = [], sums[end], end
        bodies += found[first:]
        size, last = sums[-1] - size, (batch.data, starts[-1:])
    if bodies and last:
        yield _page(bodies, _position(*last, 1) if query.key else None)


class Writer:
    """Writes the rows of batches: by the shape of their documents, and one by one what does not fit it."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._one = _row(columns)
        self._wanted = None if is_whole(columns) else [column.name.encode() for column in columns]
        self._shape = Shape() if all(len(path_of(column) or ()) == 1 for column in columns) else None
        self._lessons = LESSONS

    def rows(self, batch: Batch) -> tuple[list[bytes], Sequence[int]]:
        """Write each document of a batch as a row, and say where each begins."""
        cut = self._cut(batch)
        try:
            quick = self._shape.rows(cut, self._wanted) if self._shape and cut else []
        except (MisfitError, UnicodeDecodeError):  # whether a text that is none matters, the exact way knows
            cut, quick = None, []
        if cut and not cut.missed:
            return quick, cut.starts
        starts, rows = cut.starts if cut else batch.starts(), iter(quick)
        missed = {*cut.missed} if cut else {*range(len(starts))}
        written = [self._checked(batch.data, at) if n in missed else next(rows) for n, at in enumerate(starts)]
        return written, starts

    def _checked(self, data: bytes, start: int) -> bytes:
        row = self._one(data, start)
        row.decode()
        return row

    def _cut(self, batch: Batch) -> Cut | None:
        """Cut a batch; learn again, a few times in a read, when much of it does not fit."""
        if self._shape is None:
            return None
        cut = self._shape.cut(batch)
        while self._lessons and (cut is None or len(cut.missed) > len(cut.starts) * TOLERATED):
            self._lessons -= 1
            missed = batch.starts() if cut is None else [cut.starts[at] for at in cut.missed]
            self._shape.learn(batch.data, missed[:LESSON])
            cut = self._shape.cut(batch)
        return cut


def _page(bodies: Sequence[bytes], position: Position | None) -> Page:
    return Page(b",".join(bodies), len(bodies), position)


def _position(data: bytes, starts: Sequence[int], end: int, *, twins: bool = False) -> Position | None:
    """Give the position behind the first `end` documents of a batch, unless the next one may be a twin of the last."""
    kind, raw = _id(data, starts[end - 1])
    if twins and (end == len(starts) or not apart((kind, raw), _id(data, starts[end]))):
        return None
    return position(kind, raw)


def _id(data: bytes, start: int) -> tuple[int, bytes]:
    return next((kind, data[at:end]) for kind, name, at, end in elements(data, start) if name == KEY.encode())


def _row(columns: Sequence[Column]) -> Row:
    if is_whole(columns):
        return lambda data, at: whole(data, at)[0]
    paths = [path_of(column) or [column.name] for column in columns]
    members = [member(column.name.encode()) for column in columns]
    names = [path[0].encode() for path in paths]
    if all(len(path) == 1 for path in paths):
        return lambda data, at: _flat(members, names, data, at)
    return lambda data, at: _nested(members, [[part.encode() for part in path] for path in paths], data, at)


def _flat(members: Sequence[bytes], names: Sequence[bytes], data: bytes, at: int) -> bytes:
    """Of fields with the same name, the first counts, as it does for the server."""
    given, values, _ = walk(data, at)
    found = dict(zip(reversed(given), reversed(values), strict=True))
    return b"{%b}" % b",".join([member + found.get(name, b"null") for member, name in zip(members, names, strict=True)])


def _nested(members: Sequence[bytes], paths: Sequence[Sequence[bytes]], data: bytes, at: int) -> bytes:
    walk(data, at)
    found = [_at_path(OBJECT, data, at, path) or b"null" for path in paths]
    return b"{%b}" % b",".join(map(bytes.__add__, members, found))


def _at_path(kind: int, data: bytes, at: int, path: Sequence[bytes]) -> bytes | None:
    """Follow a path as the server's expressions do: through an array, it gives the list of what its objects have."""
    if not path:
        return value(kind, data, at)[0]
    name, rest = path[0], path[1:]
    if kind == OBJECT or (kind == ARRAY and name.isdigit()):
        inner = ((k, begin) for k, given, begin, _ in elements(data, at) if given == name)
        return next((_at_path(k, data, begin, rest) for k, begin in inner), None)
    if kind == ARRAY:
        objects = [_at_path(k, data, begin, path) for k, _, begin, _ in elements(data, at) if k == OBJECT]
        return b"[%b]" % b",".join([found for found in objects if found is not None])
    return None
