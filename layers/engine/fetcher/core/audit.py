"""Checks a manifest and its result offline, with the key alone, and names what fails.

signature → result size, digest, signature → chunks and their chain → tiling of the key → row sums
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

from fetcher.core.manifest import TRAILER, VERSION, signature
from fetcher.core.seal import BLOCK, START_OF_CHAIN, Chunk, Seal, chained, same


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: a stable code, and where."""

    code: str
    detail: str


def verify_manifest(manifest: bytes, result: BinaryIO, key: bytes) -> list[Finding]:
    """Return what fails; an empty list means that everything holds.

    Nothing more is looked at when the manifest itself is not the one that was signed. The result is
    read once, in blocks. Which key: `result.keyVersion`, and the tenant's.
    """
    body = manifest[:-TRAILER] + b"}"
    given = signature(body, key)
    if not same(f',"hmac":"{given}"}}', manifest[-TRAILER:].decode("utf-8", "replace")):
        return [Finding("signature", "the manifest was changed, or signed with another key")]
    claimed = json.loads(body)
    if claimed["version"] != VERSION:
        return [Finding("version", f"this verifier does not know version {claimed['version']}")]
    return [*_result(claimed["result"], result, key), *_tables(claimed)]


def _result(claimed: Mapping[str, Any], stream: BinaryIO, key: bytes) -> Iterator[Finding]:
    seal = Seal(key)
    chunks = list(_chunks([chunk["size"] for chunk in claimed["chunks"]], stream, seal))
    if sum(chunk.size for chunk in chunks) != claimed["sizeBytes"]:
        yield Finding("result_size", "the result is longer or shorter than the manifest says")
    if not same(seal.sha256, claimed["sha256"]):
        yield Finding("result_sha256", "the result is not the one that was digested")
    if not same(seal.hmac, claimed["hmac"]):
        yield Finding("result_hmac", "the result is not the one that was signed")
    yield from _chunk_findings(claimed["chunks"], chunks)


def _chunks(sizes: Sequence[int], stream: BinaryIO, seal: Seal) -> Iterator[Chunk]:
    """Cut the stream as the manifest says; what is left over is one more chunk."""
    chain = START_OF_CHAIN
    for size in sizes:
        taken, digest = _digested(stream, size, seal)
        chain = chained(chain, digest)
        yield Chunk(taken, digest, chain)
    while rest := stream.read(BLOCK):
        seal.update(rest)
        yield Chunk(len(rest), "", "")


def _digested(stream: BinaryIO, size: int, seal: Seal) -> tuple[int, str]:
    digest = hashlib.sha256()
    left = size
    while left and (block := stream.read(min(left, BLOCK))):
        digest.update(block)
        seal.update(block)
        left -= len(block)
    return size - left, digest.hexdigest()


def _chunk_findings(claimed: Sequence[Mapping[str, Any]], found: Sequence[Chunk]) -> Iterator[Finding]:
    for number, (said, is_) in enumerate(zip(claimed, found, strict=False), 1):
        if is_.size != said["size"] or not same(is_.sha256, said["sha256"]):
            yield Finding("chunk", f"chunk {number} is not the one that was stored")
        elif not same(is_.chain, said["chain"]):
            yield Finding("chain", f"chunk {number} does not follow the chunks before it")


def _tables(claimed: Mapping[str, Any]) -> Iterator[Finding]:
    rows = 0
    for datasource in claimed["datasources"]:
        for table in datasource["tables"]:
            name = f"{datasource['name']}/{table['name']}"
            if not tiles(table["parts"]):
                yield Finding("tiling", f"the parts of {name} leave a gap or overlap")
            if sum(part["rows"] for part in table["parts"]) != table["rows"]:
                yield Finding("rows", f"the parts of {name} do not add up to its rows")
            rows += table["rows"]
    if rows != claimed["result"]["rowCount"]:
        yield Finding("rows", "the tables do not add up to the rows of the result")


def tiles(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the ranges cover the key once: from −∞ to +∞, each beginning where the last one ended."""
    if not parts or parts[0]["low"] is not None or parts[-1]["high"] is not None:
        return False
    return all(one["high"] is not None and one["high"] == two["low"] for one, two in pairwise(parts))
