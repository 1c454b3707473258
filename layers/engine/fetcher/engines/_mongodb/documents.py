"""Documents as rows: whole, as they are stored, or the requested fields, where a missing one is null."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fetcher.engines._mongodb.cursor import Cursor
from fetcher.engines._mongodb.keys import KEY, position
from fetcher.engines._mongodb.names import REST, path_of
from fetcher.engines._mongodb.values import ARRAY, OBJECT, elements, member, value, walk, whole
from fetcher.model import Column, Page, Position, Query

Row = Callable[[bytes, int], bytes]


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


def pages(cursor: Cursor, query: Query, beat: Callable[[], None]) -> Iterator[Page]:
    """Render batches and cut pages of about the query's size, each checked to be UTF-8."""
    row, bodies, size = _row(query.columns), list[bytes](), 0
    last = b"", 0
    while batch := cursor.batch():
        beat()
        data, starts = batch
        for start in starts:
            body = row(data, start)
            bodies.append(body)
            size, last = size + len(body), (data, start)
            if size >= query.page_bytes:
                yield _page(bodies, query, *last)
                bodies, size = [], 0
    if bodies:
        yield _page(bodies, query, *last)


def _page(bodies: Sequence[bytes], query: Query, data: bytes, start: int) -> Page:
    body = b",".join(bodies)
    body.decode()
    return Page(body, len(bodies), _position(data, start) if query.key else None)


def _position(data: bytes, start: int) -> Position:
    kind, begin, end = next((kind, at, end) for kind, name, at, end in elements(data, start) if name == KEY.encode())
    return position(kind, data[begin:end])


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
