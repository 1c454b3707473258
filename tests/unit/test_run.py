"""What a read does with pages that no table with a key can give.

The session is scripted: databases that mask values (Oracle's Data Redaction, SQL Server's dynamic data masking) do not
run here, and a mask is all that is looked at.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from fetcher.core.checkpoint import Checkpoint, Mark
from fetcher.core.document import Meter, ResultWriter
from fetcher.core.progress import Progress
from fetcher.core.run import Reader, Source
from fetcher.core.stop import Stop
from fetcher.engines._names import WholeNames
from fetcher.errors import RefusedError
from fetcher.model import Catalog, Column, Connection, Encoding, Limits, Page, Position, Query, Selection, Table

ID = Column("id", "number", Encoding.INTEGER, nullable=False)
CATALOG = Catalog({("masked",): Table(("masked",), (ID,), ("id",))})
CHUNK = 8 * 1024 * 1024


class Scripted:
    """A `Session` whose pages show these keys; None for one behind which nothing can go on."""

    isolation = "read committed"

    def __init__(self, keys: Sequence[str | None]) -> None:
        self._keys = keys

    def discover(self, _scope: Sequence[str]) -> Catalog:
        return CATALOG

    def read(self, _query: Query, _after: Position | None) -> Iterator[Page]:
        for key in self._keys:
            yield Page(b'{"id":0}', 1, at(key) if key is not None else None)

    def cancel(self) -> None:
        """Nothing waits."""


class Sink:
    """Forgets what is written."""

    def write(self, _body: bytes, /) -> None:
        """Take it."""


def at(key: str) -> Position:
    """Stand behind a row of this key."""
    return Position((("number", key),))


def read(keys: Sequence[str | None], folder: Path, after: str | None = None) -> int:
    """Read the table, behind `after` if it is given, and count the rows of this attempt."""
    to = Connection("source", "oracle", "127.0.0.1", 1, "d", "u")
    source = Source(
        "source", to, (Selection("masked", ("*",)),), WholeNames(), lambda _seconds: nullcontext(Scripted(keys))
    )
    mark = Mark(0, at(after), (0,)) if after is not None else None
    with Reader([source], Limits(), Stop(60), Progress(1)) as reader:
        reader.plan()
        meter = Meter(CHUNK)
        (entry,) = reader.read(ResultWriter(Sink(), None, meter), meter, folder, Checkpoint("t", "k", mark=mark))
    return entry.tables[0].rows


@pytest.mark.parametrize(
    ("keys", "after"),
    [(("0", "0"), None), (("1", "2", "2"), None), (("0", None, "0"), None), (("0",), "0")],
    ids=["from the start", "later", "behind a huge row", "resumed"],
)
def test_a_key_that_stands_still_is_refused(tmp_path: Path, keys: Sequence[str | None], after: str | None) -> None:
    """R-002-18: `key > mask` would read the table anew, or lose the rest of it, and be signed as unique rows."""
    with pytest.raises(RefusedError, match="same key") as caught:
        read(keys, tmp_path, after)
    assert caught.value.where.table == "masked"


@pytest.mark.parametrize(("keys", "after"), [(("1", "2"), None), ((None, None), None), (("2", "3"), "1"), ((), "1")])
def test_a_key_that_moves_is_read(tmp_path: Path, keys: Sequence[str | None], after: str | None) -> None:
    """R-002-16: and so is a table without one."""
    assert read(keys, tmp_path, after) == len(keys)
