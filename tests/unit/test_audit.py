"""The offline verifier: it finds everything, and says what."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.core.audit import tiles, verify_manifest
from fetcher.core.canonical import dumps
from fetcher.core.manifest import TRAILER, DatasourceEntry, Manifest, Part, ResultEntry, TableEntry, render, signature
from fetcher.core.seal import START_OF_CHAIN, Chunk, Seal, chained
from fetcher.model import Column, Encoding, Position, Query

KEY = bytes(range(32))
CHUNKS = (b'{"pg":{"t":[{"id":1}', b',{"id":2}', b"]}}")
RESULT = b"".join(CHUNKS)
ID = Column("id", "bigint", Encoding.INTEGER)


def position(number: int) -> Position:
    return Position((("bigint", str(number)),))


def signed(chunks: tuple[bytes, ...] = CHUNKS, parts: tuple[Part, ...] | None = None) -> bytes:
    seal, chain, entries = Seal(KEY), START_OF_CHAIN, []
    for body in chunks:
        seal.update(body)
        digest = sha256(body).hexdigest()
        chain = chained(chain, digest)
        entries.append(Chunk(len(body), digest, chain))
    table = TableEntry(Query("t", ("public", "t"), (ID,), (ID,)), parts or (Part(2),))
    manifest = Manifest(
        extraction_id="job-1",
        tenant="default",
        request_hash="",
        plan_digest="",
        datasources=(DatasourceEntry("pg", "postgresql", "repeatable read", (table,)),),
        result=ResultEntry("r", sum(map(len, chunks)), seal.sha256, seal.hmac, "1", tuple(entries)),
        created_at="",
        started_at="",
        completed_at="",
        attempts=1,
        engine_version="0",
    )
    return render(manifest, KEY)


def codes(manifest: bytes, result: bytes = RESULT, key: bytes = KEY) -> list[str]:
    return [finding.code for finding in verify_manifest(manifest, io.BytesIO(result), key)]


def forged(change: Callable[[Any], None]) -> bytes:
    """Change a manifest and sign it again, as only a defect of ours could."""
    told = json.loads(signed()[:-TRAILER] + b"}")
    change(told)
    body = dumps(told).encode()
    return b'%b,"hmac":"%b"}' % (body[:-1], signature(body, KEY).encode())


def test_what_was_written_holds() -> None:
    assert codes(signed()) == []


def test_a_large_result_is_read_in_blocks() -> None:
    large = (b"x" * 3_000_000, b"y")
    assert codes(signed(large), b"".join(large)) == []


def test_one_flipped_bit_of_the_manifest_is_found() -> None:
    manifest = signed()
    for bit in range(len(manifest) * 8):
        changed = bytearray(manifest)
        changed[bit // 8] ^= 1 << bit % 8
        assert codes(bytes(changed)) == ["signature"], bit


def test_one_flipped_bit_of_the_result_is_found_and_its_chunk_named() -> None:
    """R-000-79."""
    manifest = signed()
    for bit in range(len(RESULT) * 8):
        changed = bytearray(RESULT)
        changed[bit // 8] ^= 1 << bit % 8
        assert codes(manifest, bytes(changed))[:3] == ["result_sha256", "result_hmac", "chunk"], bit
    findings = verify_manifest(manifest, io.BytesIO(RESULT.replace(b"2", b"3")), KEY)
    assert "chunk 2 is not the one that was stored" in {finding.detail for finding in findings}


def test_another_key_does_not_verify() -> None:
    assert codes(signed(), key=bytes(32)) == ["signature"]


@pytest.mark.parametrize("manifest", [b"", b"{}", b"[]", b"\xff" * 200])
def test_what_is_no_manifest_does_not_verify(manifest: bytes) -> None:
    assert codes(manifest) == ["signature"]


@pytest.mark.parametrize("result", [b"", RESULT[:-1], RESULT + b" ", RESULT + bytes(2_000_000)])
def test_a_cut_or_grown_result_is_found(result: bytes) -> None:
    found = codes(signed(), result)
    assert found[:3] == ["result_size", "result_sha256", "result_hmac"]


def test_chunks_in_another_order_are_found() -> None:
    def swap(told: Any) -> None:
        told["result"]["chunks"][0]["chain"] = told["result"]["chunks"][1]["chain"]

    assert codes(forged(swap)) == ["chain"]


def test_a_missing_chunk_is_found() -> None:
    assert "result_size" in codes(signed(), CHUNKS[0] + CHUNKS[2])


def test_a_manifest_of_a_later_version_is_not_judged() -> None:
    def later(told: Any) -> None:
        told["version"] = "2"

    assert codes(forged(later)) == ["version"]


def test_rows_that_do_not_add_up_are_found() -> None:
    def of_table(told: Any) -> None:
        told["datasources"][0]["tables"][0]["parts"][0]["rows"] += 1

    def of_result(told: Any) -> None:
        told["result"]["rowCount"] += 1

    assert codes(forged(of_table)) == ["rows"]
    assert codes(forged(of_result)) == ["rows"]


def test_parts_with_a_gap_are_found() -> None:
    """R-002-82."""
    gap = (Part(1, high=position(5)), Part(1, low=position(6)))
    assert codes(signed(parts=gap)) == ["tiling"]


def parts_of(bounds: list[int]) -> list[dict[str, Any]]:
    edges = [None, *sorted(set(bounds)), None]
    return [{"low": low, "high": high, "rows": 0} for low, high in pairwise(edges)]


@given(st.lists(st.integers()))
def test_ranges_between_sorted_bounds_tile_the_key(bounds: list[int]) -> None:
    """R-002-82."""
    assert tiles(parts_of(bounds))


@given(st.lists(st.integers(), min_size=1, unique=True), st.data())
def test_ranges_without_one_of_them_do_not_tile(bounds: list[int], data: st.DataObject) -> None:
    """R-002-82."""
    parts = parts_of(bounds)
    del parts[data.draw(st.integers(0, len(parts) - 1))]
    assert not tiles(parts)


@given(st.lists(st.integers(), min_size=1, unique=True), st.data())
def test_ranges_with_one_twice_do_not_tile(bounds: list[int], data: st.DataObject) -> None:
    """R-002-82."""
    parts = parts_of(bounds)
    at = data.draw(st.integers(0, len(parts) - 1))
    assert not tiles([*parts[:at], parts[at], *parts[at:]])


def test_no_part_tiles_nothing() -> None:
    assert not tiles([])


def test_whole_tables_meet_only_at_their_ends() -> None:
    """Two unbounded parts are one table read twice, although their missing bounds are equal."""
    assert codes(signed(parts=(Part(1), replace(Part(1))))) == ["tiling"]
