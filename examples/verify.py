#!/usr/bin/env python3
"""Checks a result and its manifest, offline, with nothing but Python's standard library.

    python verify.py RESULT MANIFEST KEY

KEY is the verification key in hex (`fetcher derive-key` prints it). Exit code 0 if everything holds;
1, with a line for each thing that does not. Copy this file; it has no other part.
"""

import hashlib
import hmac
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

TRAILER = len(',"hmac":""}') + 64
BLOCK = 1024 * 1024


def findings(result: BinaryIO, manifest: bytes, key: bytes) -> Iterator[str]:
    """Yield what fails. What the manifest says is only believed once its own signature holds."""
    body = manifest[:-TRAILER] + b"}"
    expected = b',"hmac":"%b"}' % hmac.new(key, body, hashlib.sha256).hexdigest().encode()
    if not hmac.compare_digest(expected, manifest[-TRAILER:]):
        yield "signature: the manifest was changed, or signed with another key"
        return
    claimed = json.loads(body)
    yield from _bytes(claimed["result"], result, key)
    yield from _rows(claimed)


def _bytes(claimed: dict[str, Any], stream: BinaryIO, key: bytes) -> Iterator[str]:
    """Read the result once: size, digest, signature, and each chunk in its place in the chain."""
    digest, signature, size, chain = hashlib.sha256(), hmac.new(key, digestmod=hashlib.sha256), 0, ""
    for number, chunk in enumerate(claimed["chunks"], 1):
        own = hashlib.sha256()
        for block in _blocks(stream, chunk["size"]):
            size += len(block)
            for one in (digest, signature, own):
                one.update(block)
        chain = hashlib.sha256((chain + own.hexdigest()).encode()).hexdigest()
        if (own.hexdigest(), chain) != (chunk["sha256"], chunk["chain"]):
            yield f"chunk: number {number} is not what was stored there"
    if size != claimed["sizeBytes"] or stream.read(1):
        yield "result_size: the result is longer or shorter than the manifest says"
    if digest.hexdigest() != claimed["sha256"]:
        yield "result_sha256: the result is not the one that was digested"
    if not hmac.compare_digest(signature.hexdigest(), claimed["hmac"]):
        yield "result_hmac: the result is not the one that was signed"


def _blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (block := stream.read(min(size, BLOCK))):
        size -= len(block)
        yield block


def _rows(claimed: dict[str, Any]) -> Iterator[str]:
    """Parts must cover each table's key once, and rows must add up."""
    total = 0
    for source in claimed["datasources"]:
        for table in source["tables"]:
            parts = table["parts"]
            ends = [None, *(part["high"] for part in parts[:-1])]
            inner = [part["high"] for part in parts[:-1]]
            if not parts or [part["low"] for part in parts] != ends or None in inner or parts[-1]["high"] is not None:
                yield f"tiling: the parts of {source['name']}/{table['name']} leave a gap or overlap"
            if sum(part["rows"] for part in parts) != table["rows"]:
                yield f"rows: the parts of {source['name']}/{table['name']} do not add up"
            total += table["rows"]
    if total != claimed["result"]["rowCount"]:
        yield "rows: the tables do not add up to the rows of the result"


def main(arguments: list[str]) -> int:
    """Verify two files and say what fails."""
    if len(arguments) != 3:
        sys.stderr.write("usage: verify.py RESULT MANIFEST KEY\n")
        return 2
    result, manifest, key = arguments
    with Path(result).open("rb") as stream:
        found = list(findings(stream, Path(manifest).read_bytes(), bytes.fromhex(key)))
    sys.stdout.write("\n".join(found or ["verified"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
