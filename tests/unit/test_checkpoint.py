"""What an extraction's record keeps of a read: exact, and small enough whatever was read."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from fetcher.aws import dynamo, queues
from fetcher.aws.results import PART_MINIMUM
from fetcher.core.checkpoint import LARGEST_POSITION, Checkpoint, Mark, Part, from_item, marked, to_item
from fetcher.core.document import CHUNK
from fetcher.core.extraction import Message
from fetcher.model import Limits, Page, Position
from infra.local.places import ROOT

ITEM_LIMIT = 400 * 1024
MOST_PARTS = 10_000


def largest_result() -> int:
    """The largest bound of a result that can be deployed, in bytes."""
    (most,) = re.findall(
        r"^  MaxResultBytes:\n(?:    .*\n)*?    MaxValue: (\d+)$", (ROOT / "template.yaml").read_text(), re.M
    )
    return int(most)


def size(value: Any) -> int:
    """Bytes that DynamoDB counts for a value: User Guide, «item sizes and formats»; 21 for any number."""
    match value:
        case Mapping():
            return 3 + sum(1 + len(name.encode()) + size(inner) for name, inner in value.items())
        case list() | tuple():
            return 3 + sum(1 + size(inner) for inner in value)
        case int():
            return len(str(value)) // 2 + 2
        case _:
            return len(str(value).encode())


@pytest.mark.parametrize(
    "values",
    [
        [("timestamp without time zone", "2026-01-31 08:00:00.123456")],
        [("datetime2", "2026-01-31T08:00:00.1234567"), ("timestamp(9)", "2026-01-31 08:00:00.123456789")],
        [("numeric", "0.10"), ("bigint", "9223372036854775807"), ("text", "é\u0000\n\"'"), ("text", "")],
    ],
)
def test_a_position_is_kept_as_it_was_written(values: list[tuple[str, str]]) -> None:
    """R-002-11: type and exact text, through the table and back; no fraction is rounded, no zero dropped."""
    mark = Mark(3, Position(tuple(values)), (10, 0, 7))
    kept = Checkpoint("t", "results/t", "u", "d", {"c": 2}, 2, (Part(1, '"e"', CHUNK, "f" * 64),), mark)
    assert from_item(dynamo.unmarshal(dynamo.marshal(to_item(kept)))) == kept


def test_the_record_of_the_largest_job_is_an_item() -> None:
    """R-AWS-3: every part of the largest result, in the checkpoint and in the seal beside it, with the largest mark."""
    limits = Limits()
    parts = tuple(
        Part(MOST_PARTS, f'"{"e" * 32}"', 2 * CHUNK, "f" * 64) for _ in range(-(-largest_result() // CHUNK) + 1)
    )
    connections = {f"{number:0100}": "i" * 36 for number in range(limits.datasources)}
    tables = [2**62] * limits.tables
    mark = Mark(limits.tables, Position((("character varying(16384)", "x" * LARGEST_POSITION),)), tuple(tables))
    versions = dict.fromkeys(connections, 10**6)
    sealed = {
        "parts": [asdict(part) for part in parts],
        "planDigest": "d" * 64,
        "datasources": [{"name": name, "kind": "k" * 20, "isolation": "i" * 40, "rows": tables} for name in versions],
    }
    checkpoint = to_item(Checkpoint("t" * 32, "k" * 400, "u" * 200, "d" * 64, versions, 2**31, parts, mark))
    most = {"checkpoint": checkpoint, "sealed": sealed, "connections": connections}
    assert size(most) < ITEM_LIMIT - 16 * 1024


def test_a_huge_key_is_no_place_to_go_on_from() -> None:
    """R-AWS-3: an `_id` may be a document of megabytes; its part is kept with a later one."""
    longest = Position((("a", "é" * (LARGEST_POSITION // 2)),))
    assert marked(Page(b"{}", 1, longest), 1, [5, 2]) == Mark(1, longest, (5, 3))
    assert marked(Page(b"{}", 1, Position((*longest.values, ("b", "x")))), 1, [5, 2]) is None


def test_parts_are_of_a_size_and_a_number_that_s3_takes() -> None:
    """R-AWS-7: also when every worker of a job begins a block of part numbers of its own."""
    assert PART_MINIMUM == 5 * 1024 * 1024 <= CHUNK == 8 * 1024 * 1024
    assert largest_result() // CHUNK + 2 < MOST_PARTS // 4


def test_a_message_holds_ids_only() -> None:
    """R-AWS-2: whatever the request, with the longest tenant."""
    message = Message("t" * 256, "e" * 36, 10**9)
    assert queues.read(queues.written(message)) == message
    assert len(queues.written(message).encode()) < 1024
