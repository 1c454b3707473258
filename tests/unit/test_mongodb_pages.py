"""Pages cut from recorded batches: sizes, positions, projections, and text that is not UTF-8."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from fetcher.engines._mongodb.cursor import Cursor
from fetcher.engines._mongodb.documents import pages, projection
from fetcher.engines._mongodb.errors import explained
from fetcher.engines._mongodb.names import OPEN, REST
from fetcher.errors import InvalidRequestError, UnavailableError
from fetcher.model import UNSAMPLED, Column, Encoding, Page, Position, Query

ID = Column("_id", "int", Encoding.INTEGER, nullable=False)
WILDCARD = (ID, Column(REST, OPEN, Encoding.DOCUMENT))


def replies(documents: Sequence[bytes], *sizes: int) -> Iterator[RawBSONDocument]:
    """A server's replies: batches of these sizes, then the rest."""
    field, left = "firstBatch", [RawBSONDocument(each) for each in documents]
    for size in [*sizes, len(documents)]:
        batch, left = left[:size], left[size:]
        cursor = {"id": bson.Int64(7 if left else 0), "ns": "d.c", field: batch}
        yield RawBSONDocument(bson.encode({"cursor": cursor, "ok": 1.0}))
        field = "nextBatch"


def read(documents: Sequence[bytes], *sizes: int, page_bytes: int = 50, columns: Any = WILDCARD) -> list[Page]:
    answers = replies(documents, *sizes)
    cursor = Cursor(lambda _: next(answers), "c", next(answers))
    return list(pages(cursor, Query("c", ("c",), columns, (ID,), page_bytes=page_bytes), lambda: None))


@pytest.mark.parametrize("sizes", [(), (1,), (0, 3, 0, 2), (10,)])
@pytest.mark.parametrize("page_bytes", [1, 40, 10**6])
def test_pages_do_not_depend_on_batches(sizes: tuple[int, ...], page_bytes: int) -> None:
    """R-000-83, R-002-9, 84: the same bytes, and the last key is the position; an empty batch is no end."""
    found = read([bson.encode({"_id": at, "t": "x" * at}) for at in range(10)], *sizes, page_bytes=page_bytes)
    rows = [json.loads(b"[" + page.body + b"]") for page in found]
    assert [row for page in rows for row in page] == [{"_id": at, "t": "x" * at} for at in range(10)]
    ends = [Position((("int", json.dumps({"$numberInt": str(page[-1]["_id"])})),)) for page in rows]
    assert [page.position for page in found] == ends


def test_a_key_may_stand_anywhere_in_a_document() -> None:
    found = read([bson.encode({"a": {"_id": 9}, "_id": 1})], columns=(Column("a", "object", Encoding.DOCUMENT),))
    assert found[0].body == b'{"a":{"_id":9}}'
    assert found[0].position == Position((("int", '{"$numberInt": "1"}'),))


@pytest.mark.parametrize("count", [1, 3])
def test_text_that_is_not_utf8_fails_the_read_clearly(count: int) -> None:
    """Never replaced, never dropped; and no other try would help."""
    broken = bson.encode({"_id": 1, "t": "abc"}).replace(b"abc", b"a\xffc")
    with pytest.raises(UnicodeDecodeError) as caught:
        read([broken] * count)
    assert isinstance(explained(caught.value), InvalidRequestError)


@pytest.mark.parametrize("reply", [b"", b"garbage", bson.encode({"cursor": {"id": 0}, "ok": 1})])
def test_a_reply_that_is_none_may_be_tried_again(reply: bytes) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the driver makes of it
        Cursor(lambda _: cast("Any", None), "c", RawBSONDocument(reply))
    assert isinstance(explained(caught.value), UnavailableError)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a"], {"_id": 1, "a": 1}),
        (["_id"], {"_id": 1}),
        (["a.b", "a"], {"_id": 1, "a": 1}),
        (["a.b.c", "a.b", "ab"], {"_id": 1, "a.b": 1, "ab": 1}),
        (["a.0.b"], {"_id": 1, "a": 1}),
        (["a", "$b"], None),
        (["a", ""], None),
        (["*"], None),
    ],
)
def test_the_server_sends_what_is_needed(names: list[str], expected: dict[str, int] | None) -> None:
    """No path twice, which MongoDB refuses; and whole documents where a name is no path."""
    columns = tuple(Column(name, UNSAMPLED, Encoding.DOCUMENT) for name in names)
    sent = projection(Query("c", ("c",), columns, (ID,)))
    assert sent == ({} if expected is None else {"projection": expected})


def test_a_view_sends_no_id_that_nobody_asked_for() -> None:
    columns = (Column("a", UNSAMPLED, Encoding.DOCUMENT),)
    assert projection(Query("c", ("c",), columns)) == {"projection": {"_id": 0, "a": 1}}
