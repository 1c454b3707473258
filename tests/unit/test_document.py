"""Framing, bounding and cutting the result document."""

import json
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.core.document import CHUNK, PIECE, DatasourceOutlet, Meter, ResultWriter, Spool
from fetcher.core.seal import START_OF_CHAIN, Chunk, Seal, chained
from fetcher.core.stop import Stop
from fetcher.errors import LimitError, TimedOutError
from fetcher.ports import Exchange, Sink

KEY = bytes(32)
ROOMY = 256 * 1024 * 1024

Pages = list[list[dict[str, Any]]]
Document = dict[str, dict[str, Pages]]

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
rows = st.dictionaries(names, st.none() | st.booleans() | st.integers() | names)
documents = st.dictionaries(
    names, st.dictionaries(names, st.lists(st.lists(rows, min_size=1, max_size=3), max_size=3), max_size=3), max_size=4
)


class Kept(list[bytes]):
    """A sink that keeps its chunks."""

    def write(self, body: bytes, /) -> None:
        self.append(body)

    @property
    def body(self) -> bytes:
        return b"".join(self)


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def fill(outlet: DatasourceOutlet, tables: dict[str, Pages]) -> None:
    for name, pages in tables.items():
        outlet.begin_table(name)
        for page in pages:
            outlet.page(b",".join(map(compact, page)), len(page))
        outlet.end_table()
    outlet.end()


def write(document: Document, folder: Path, meter: Meter) -> Kept:
    """Stream the first datasource and spool the others, as a reader does."""
    sink = Kept()
    writer = ResultWriter(sink, Seal(KEY), meter)
    for index, (name, tables) in enumerate(document.items()):
        if index == 0:
            fill(writer.begin(name), tables)
            continue
        with Spool(folder, meter) as spool:
            fill(DatasourceOutlet(spool), tables)
            writer.copy(name, spool)
    writer.end()
    return sink


def whole(document: Document) -> dict[str, dict[str, list[dict[str, Any]]]]:
    return {
        datasource: {table: [row for page in pages for row in page] for table, pages in tables.items()}
        for datasource, tables in document.items()
    }


@settings(deadline=None)
@given(documents)
def test_the_document_equals_the_naive_dump_of_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, document: Document
) -> None:
    meter = Meter(ROOMY)
    sink = write(document, tmp_path_factory.getbasetemp(), meter)
    assert sink.body == compact(whole(document))
    assert meter.size == len(sink.body)
    assert meter.rows == sum(len(rows) for tables in whole(document).values() for rows in tables.values())


def test_an_empty_table_is_an_empty_list_and_names_are_as_requested(tmp_path: Path) -> None:
    document: Document = {"pg": {"public.users": [], 'we"ird': [[{"id": 1}]]}, "mongo": {"fs.files": [[{"_id": "ä"}]]}}
    assert write(document, tmp_path, Meter(ROOMY)).body == (
        '{"pg":{"public.users":[],"we\\"ird":[{"id":1}]},"mongo":{"fs.files":[{"_id":"ä"}]}}'.encode()
    )


SMALL: Document = {"a": {"t": [[{"id": 1}], [{"id": 2}]]}, "b": {"u": [[{"id": 3}]], "v": []}}


def test_a_result_of_exactly_the_bound_is_written(tmp_path: Path) -> None:
    """R-000-41."""
    size = len(compact(whole(SMALL)))
    assert len(write(SMALL, tmp_path, Meter(size)).body) == size


def test_no_byte_over_the_bound_is_written(tmp_path: Path) -> None:
    """R-000-41, R-000-43: measured on the serialised bytes, spooled ones included."""
    for limit in range(len(compact(whole(SMALL)))):
        meter = Meter(limit)
        with pytest.raises(LimitError):
            write(SMALL, tmp_path, meter)
        assert meter.size <= limit


def test_a_spooled_byte_counts_when_it_is_read_and_not_again_when_it_is_copied(tmp_path: Path) -> None:
    meter = Meter(ROOMY)
    writer = ResultWriter(Kept(), None, meter)
    with Spool(tmp_path, meter) as spool:
        fill(DatasourceOutlet(spool), {"t": [[{"id": 1}]]})
        spooled = meter.size
        writer.copy("a", spool)
    assert meter.size == spooled + len('"a":')
    assert meter.rows == 1


def test_threads_never_count_past_the_bound_together() -> None:
    """R-000-47."""
    meter = Meter(10_000)

    def count(_: int) -> int:
        taken = 0
        for _ in range(1_000):
            try:
                meter.add(3, 1)
            except LimitError:
                break
            taken += 1
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(count, range(8)))
    assert (meter.size, meter.rows, taken) == (9_999, 3_333, 3_333)


PAGE = b'{"id":"' + b"x" * 300_000 + b'"}'


def stream(writer: ResultWriter, pages: int) -> None:
    outlet = writer.begin("a")
    outlet.begin_table("t")
    for _ in range(pages):
        outlet.page(PAGE, 1)
    outlet.end_table()
    outlet.end()


def test_chunks_end_with_the_first_page_at_or_over_8_mib_and_only_the_last_is_smaller() -> None:
    sink = Kept()
    writer = ResultWriter(sink, None, Meter(ROOMY))
    stream(writer, 60)
    writer.end()
    assert all(CHUNK <= len(chunk) < CHUNK + len(PAGE) + 1 for chunk in sink[:-1])
    assert all(chunk.endswith(b'"}') for chunk in sink[:-1])
    assert len(sink) == 3
    assert len(sink[-1]) < CHUNK


def test_every_chunk_is_digested_and_chained_to_those_before_it() -> None:
    sink = Kept()
    seal = Seal(KEY)
    writer = ResultWriter(sink, seal, Meter(ROOMY))
    stream(writer, 60)
    writer.end()
    chain, expected = START_OF_CHAIN, []
    for body in sink:
        chain = chained(chain, sha256(body).hexdigest())
        expected.append(Chunk(len(body), sha256(body).hexdigest(), chain))
    assert writer.chunks == expected
    assert seal.sha256 == sha256(sink.body).hexdigest()


def test_spooled_pages_are_never_split_between_chunks(tmp_path: Path) -> None:
    sink, meter = Kept(), Meter(ROOMY)
    writer = ResultWriter(sink, None, meter)
    with Spool(tmp_path, meter) as spool:
        fill(DatasourceOutlet(spool), {"t": [[{"id": "x" * 400_000}] for _ in range(60)]})
        writer.copy("a", spool)
    writer.end()
    assert len(sink) == 3
    assert all(chunk.endswith(b'"}') for chunk in sink[:-1])
    assert len(json.loads(sink.body)["a"]["t"]) == 60


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 3 * PIECE), max_size=6))
def test_a_spool_gives_back_what_it_took_in_pieces_of_at_most_1_mib(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    pages = [bytes([index]) * size for index, size in enumerate(sizes)]
    with Spool(tmp_path_factory.getbasetemp(), Meter(ROOMY)) as spool:
        for page in pages:
            spool.put(page)
            spool.boundary()
        spool.put(b"}")
        pieces = [piece for piece, _ in spool.pieces()]
    assert b"".join(pieces) == b"".join(pages) + b"}"
    assert all(0 < len(piece) <= PIECE for piece in pieces)


def test_a_spool_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    with Spool(tmp_path, Meter(ROOMY)) as spool:
        spool.put(b"row")
        spool.close()
    assert not list(tmp_path.iterdir())


def test_a_stop_ends_the_copy_of_a_spool_within_a_piece(tmp_path: Path) -> None:
    """Design §6: whatever the sink, the deadline and a cancel count while bytes are only copied."""
    meter, stop = Meter(ROOMY), Stop(60)
    writer = ResultWriter(Kept(), None, meter)
    with Spool(tmp_path, meter) as spool:
        spool.put(bytes(5 * PIECE))
        checks: list[int] = []

        def check() -> None:
            checks.append(writer._size)
            if len(checks) == 3:
                stop.set(TimedOutError("over"))
            stop.check()

        with pytest.raises(TimedOutError):
            writer.copy("a", spool, check)
    assert len(checks) == 3
    assert writer._size - checks[0] == 2 * PIECE


def test_a_resumed_writer_goes_on_where_the_last_chunk_ended() -> None:
    """R-002-3: the bytes and the chain equal those of an attempt that was never interrupted."""
    straight = Kept()
    untouched = ResultWriter(straight, None, Meter(ROOMY))
    stream(untouched, 40)
    untouched.end()
    first, second = Kept(), Kept()
    before = ResultWriter(first, None, Meter(ROOMY))
    outlet = before.begin("a")
    outlet.begin_table("t")
    pages = 0
    while not before.chunks:
        outlet.page(PAGE, 1)
        pages += 1
    meter = Meter(ROOMY, size=sum(chunk.size for chunk in before.chunks), rows=pages)
    after = ResultWriter(second, None, meter, before.chunks)
    resumed = after.resume()
    for _ in range(40 - pages):
        resumed.page(PAGE, 1)
    resumed.end_table()
    resumed.end()
    after.end()
    assert first.body + second.body == straight.body
    assert after.chunks == untouched.chunks
    assert (meter.size, meter.rows) == (len(straight.body), 40)


def test_a_writer_that_is_left_alone_finalises_nothing() -> None:
    sink = Kept()
    outlet = ResultWriter(sink, None, Meter(ROOMY)).begin("a")
    outlet.begin_table("t")
    outlet.page(b"{}", 1)
    assert sink == []


class InExchange:
    """A sink like the upload: it holds the chunk being stored and gives the one before it back; notes copies."""

    def __init__(self, *, keep: bool) -> None:
        self.copies: list[bytes] = []
        self._held = bytearray()
        self._keep = keep

    def exchange(self, body: bytearray, /) -> bytearray:
        if self._keep:
            self.copies.append(bytes(body))
        free, self._held = self._held, body
        return free


def paged(sink: Sink | Exchange, sizes: Iterable[int]) -> ResultWriter:
    """Write a document of one table, a page of one row of each size."""
    writer = ResultWriter(sink, Seal(KEY), Meter(ROOMY))
    outlet = writer.begin("a")
    outlet.begin_table("t")
    for index, size in enumerate(sizes):
        outlet.page((b"%07d" % index * (size // 7 + 1))[:size], 1)
    outlet.end_table()
    outlet.end()
    writer.end()
    return writer


def test_a_chunk_in_memory_that_came_back_holds_nothing_of_the_chunk_before() -> None:
    """R-000-47: chunks that are longer and shorter than those whose memory they got, and a last one of few bytes."""
    sizes = [PIECE, 3 * PIECE, CHUNK, 7 * PIECE, 3 * PIECE, CHUNK + PIECE, CHUNK - 1, 100, CHUNK - 200, PIECE, 1, PIECE]
    kept, exchanged = Kept(), InExchange(keep=True)
    assert paged(exchanged, sizes).chunks == paged(kept, sizes).chunks
    assert exchanged.copies == list(kept)
    assert len(kept) > 5
    assert len(kept[-1]) < PIECE * 3


def test_memory_stays_near_one_chunk_in_flight_and_one_being_filled() -> None:
    """R-000-47."""
    tracemalloc.start()
    writer = paged(InExchange(keep=False), [126_000] * 600)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(writer.chunks) > 7
    assert peak < 2.5 * CHUNK
