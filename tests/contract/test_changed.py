"""A definition that changes between discovery and read, where a kind cannot hold its tables still."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pymysql
import pytest

from fetcher.core import document
from fetcher.core.checkpoint import Checkpoint, Mark
from fetcher.core.document import Meter, ResultWriter
from fetcher.core.progress import Progress
from fetcher.core.run import Reader, Source
from fetcher.core.stop import Stop
from fetcher.engines import engine
from fetcher.errors import ChangedError, UnavailableError
from fetcher.model import Limits, Query, Selection
from fetcher.ports import Holding
from tests.contract import kinds
from tests.rig import until

FORGED = '1},{"id":99'
"""The text of a column that was a number when the read was planned."""

PAGE = Query("", (), ()).page_bytes
TEXT = {"sqlserver": "nvarchar(99)", "oracle": "varchar"}
KINDS = sorted(TEXT)


def made(kind: str, *types: str) -> str:
    """Make the table anew: an `id`, and columns of these types."""
    columns = ", ".join(["id int NOT NULL PRIMARY KEY", *(f"c{n} {name}" for n, name in enumerate(types))])
    values = {"int": "7", TEXT.get(kind): f"'{FORGED}'"}
    row = ", ".join(["1", *(values[name] for name in types)])
    return f"DROP TABLE IF EXISTS changed; CREATE TABLE changed ({columns}); INSERT INTO changed VALUES ({row})"


class Sink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.body = b""

    def write(self, body: bytes, /) -> None:
        self.body += body


class Parts(Sink):
    """Keeps what is written with where a resumed read would go on behind it, as an upload does."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.marks: list[Mark | None] = []
        self._reader = reader

    def write(self, body: bytes, /) -> None:
        self.marks.append(self._reader.mark)
        super().write(body)


@contextmanager
def opened(at: kinds.Source, fields: Sequence[str] = ("*",)) -> Iterator[Reader]:
    """Plan a read of the table."""
    chosen = engine(at.to.kind)
    connecting = partial(chosen.connect, at.to, at.secret, application="changed")
    selection = Selection("changed", tuple(fields))
    source = Source("source", at.to, (selection,), chosen.NAMING, lambda seconds: connecting(seconds=seconds))
    with Reader([source], Limits(), Stop(60), Progress(1)) as reader:
        reader.plan()
        yield reader


@contextmanager
def planned(at: kinds.Source, fields: Sequence[str] = ("*",)) -> Iterator[Callable[..., Any]]:
    """Plan a read of the table, and yield the rest of it, which may go on from a checkpoint."""
    with opened(at, fields) as reader:

        def rest(folder: Path, checkpoint: Checkpoint | None = None) -> Any:
            sink, meter = Sink(), Meter(10_000)
            writer = ResultWriter(sink, None, meter, checkpoint.chunks if checkpoint else ())
            reader.read(writer, meter, folder, checkpoint)
            writer.end()
            return json.loads(sink.body)["source"]["changed"]

        yield rest


def read(at: kinds.Source, folder: Path, fields: Sequence[str] = ("*",)) -> Any:
    """Plan and read the table at once."""
    with planned(at, fields) as rest:
        return rest(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_became_text_forges_no_row(
    sources: Callable[[str], kinds.Source], tmp_path: Path, kind: str
) -> None:
    """R-000-21, R-002-1: framed as a number its text would be rows; the next try frames it as the text it is."""
    at = sources(kind)
    at.run(made(kind, "int"))
    assert read(at, tmp_path) == [{"id": 1, "c0": 7}]
    with planned(at) as rest:
        at.run(made(kind, TEXT[kind]))
        with pytest.raises(ChangedError) as caught:
            rest(tmp_path)
    assert isinstance(caught.value, UnavailableError), "so it is tried again"
    assert caught.value.where.datasource == "source"
    assert read(at, tmp_path) == [{"id": 1, "c0": FORGED}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_came_meanwhile_is_missing_in_no_result(
    sources: Callable[[str], kinds.Source], tmp_path: Path, kind: str
) -> None:
    """R-000-21: `*` is every field; whoever named his own is not disturbed by another's."""
    at = sources(kind)
    at.run(made(kind, "int"))
    with planned(at) as rest, planned(at, ["id", "c0"]) as named:
        at.run(made(kind, "int", "int"))
        with pytest.raises(ChangedError):
            rest(tmp_path)
        assert named(tmp_path) == [{"id": 1, "c0": 7}]
    assert read(at, tmp_path) == [{"id": 1, "c0": 7, "c1": 7}]


def in_parts(reader: Reader, folder: Path) -> Parts:
    """Read what was planned, a part for each page; return what became of it, also when the read failed."""
    parts, meter = Parts(reader), Meter(10_000_000)
    writer = ResultWriter(parts, None, meter)
    with suppress(ChangedError):
        reader.read(writer, meter, folder)
        writer.end()
    return parts


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_false_plan_is_nothing_to_go_on_from(
    sources: Callable[[str], kinds.Source], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-000-21, R-002-13: the worker may die behind it, and the column be the number again that the next one plans."""
    monkeypatch.setattr(document, "CHUNK", 1)
    at = sources(kind)
    at.run(made(kind, "int"))
    with opened(at) as reader:
        assert [mark and mark.rows for mark in in_parts(reader, tmp_path).marks] == [(1,), None]
    with opened(at) as reader:
        at.run(made(kind, TEXT[kind]))
        at.run("INSERT INTO changed VALUES (2, '7')")
        assert in_parts(reader, tmp_path).marks == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_looked_at_once_while_it_is_read_in_parts(
    sources: Callable[[str], kinds.Source], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that runs keeps its table as it is, or its snapshot does; so one look between two pages is enough."""
    monkeypatch.setattr(document, "CHUNK", 1)
    at = sources(kind)
    at.run(made(kind, TEXT[kind]))
    for number in range(2, 5):
        at.run(f"INSERT INTO changed VALUES ({number}, '{'x' * PAGE}')")
    with opened(at) as reader:
        session = reader._session(reader._planned[0])
        looks = Mock(side_effect=session.discover)
        monkeypatch.setattr(session, "discover", looks)
        parts = in_parts(reader, tmp_path)
    assert [mark and mark.rows for mark in parts.marks] == [(2,), (3,), (4,), None]
    assert looks.call_count == 2, "while it is read and behind it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_cannot_be_looked_at_meanwhile_is_read_all_the_same(
    sources: Callable[[str], kinds.Source], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may let nobody in a second time: then a resumed read has nothing to go on from, and this one ends."""
    monkeypatch.setattr(document, "CHUNK", 1)
    at = sources(kind)
    at.run(made(kind, "int"))
    with opened(at) as reader:
        session = reader._session(reader._planned[0])
        looks = Mock(side_effect=[UnavailableError("no connection is left"), session.discover([at.default_schema])])
        monkeypatch.setattr(session, "discover", looks)
        parts = in_parts(reader, tmp_path)
    assert set(parts.marks) == {None}
    assert json.loads(parts.body)["source"]["changed"] == [{"id": 1, "c0": 7}]


@pytest.mark.parametrize(
    "change",
    [
        "RENAME TABLE changed TO changed_before, changed_next TO changed",
        "TRUNCATE changed",
        "ALTER TABLE changed MODIFY c0 varchar(99)",
        "ALTER TABLE changed DROP COLUMN c0, ADD COLUMN c0 int",
    ],
)
def test_a_change_waits_for_the_session_that_holds_its_table(
    sources: Callable[[str], kinds.Source], change: str
) -> None:
    """R-002-1: a snapshot is of rows, a name of now; MariaDB reads a table that took the name behind it as empty."""
    at = sources("mysql")
    at.run("DROP TABLE IF EXISTS changed_before, changed_next")
    at.run(f"{made('mysql', 'int')}; CREATE TABLE changed_next LIKE changed; CREATE OR REPLACE TABLE ahead (id int)")
    waiting = "SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for table metadata lock'"
    connect = engine("mysql").connect
    with ThreadPoolExecutor(1) as threads:
        with connect(at.to, at.secret, seconds=60, application="changed") as session:
            assert isinstance(session, Holding)
            session.hold([("ahead",), ("changed",), ("no such table",)])
            tables = session.discover(()).tables
            before = tables["changed",].columns
            list(session.read(Query("ahead", ("ahead",), tables["ahead",].columns), None))
            changing = threads.submit(_changed, at, "INSERT INTO changed_next VALUES (1, 7), (2, 8)", change)
            until(lambda: at.run(waiting) == ((1,),) or changing.done(), "the change waits")
            pages = list(session.read(Query("changed", ("changed",), before, before[:1]), None))
            assert [page.body for page in pages] == [b'{"id":1,"c0":7}']
            assert not changing.done()
        changing.result(60)


def _changed(at: kinds.Source, *statements: str) -> None:
    """Run statements over a connection of this thread's own."""
    with pymysql.connect(
        host=at.to.host,
        port=at.to.port,
        user=at.to.user,
        password=at.secret.password,
        database=at.to.database,
        autocommit=True,
    ) as connection:
        for statement in statements:
            connection.cursor().execute(statement)
