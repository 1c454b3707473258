"""What is stored when all jobs of a soak have ended: the results they name, and nothing that outlives its rule."""

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from tests.rig import every
from tests.soak.client import Posted
from tests.stack import Stack

PIECE = 1024 * 1024


def stored(stack: Stack, jobs: Sequence[Posted]) -> None:
    """Each result is the object that its job names, also where several workers wrote."""
    s3 = stack.client("s3")
    for job in [posted.job for posted in jobs if posted.completed]:
        digest = hashlib.sha256()
        for piece in s3.get_object(Bucket=stack["bucket"], Key=job["resultPath"])["Body"].iter_chunks(PIECE):
            digest.update(piece)
        assert digest.hexdigest() == job["resultSha256"], job


def nothing_left(stack: Stack, jobs: Sequence[Posted]) -> None:
    """No second extraction of a request, no marker, no held slot, no open result and no dead letter is left."""
    items = _items(stack)
    records = [item for item in items if item["SK"]["S"] == "META" and "extractionId" in item]
    known = {posted.job["id"] for posted in jobs}
    assert known <= {item["extractionId"]["S"] for item in records}
    unknown = [item for item in records if item["extractionId"]["S"] not in known]
    # Only a job that failed before its poster heard of it: posted again, it became a new one.
    assert not [item for item in unknown if item["status"] != {"S": "failed"}]
    assert not [item["SK"]["S"] for item in items if item["SK"]["S"].startswith("ACTIVE#")]
    assert not [
        item["SK"]["S"] for item in items if "holder" in item and float(item["leaseUntil"]["N"]) > time.time() * 1000
    ]
    _no_result_open(stack, {item["resultPath"]["S"] for item in records if "resultPath" in item})
    assert not _dead_letters(stack)


def _no_result_open(stack: Stack, results: set[str]) -> None:
    """A worker that dies behind the making of an upload leaves it to the rule of `results/`; it is never a result."""
    uploads = every(stack.client("s3"), "list_multipart_uploads", "Uploads", Bucket=stack["bucket"])
    keys = {upload["Key"] for upload in uploads}
    assert not results & keys
    assert all(key.startswith("results/") for key in keys), keys


def _dead_letters(stack: Stack) -> dict[str, int]:
    sqs, waiting = stack.client("sqs"), "ApproximateNumberOfMessages"
    dead = [url for url in sqs.list_queues()["QueueUrls"] if "Dead" in url.rpartition("/")[2]]
    assert len(dead) > 1, "the template's dead-letter queues"
    told = {url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[waiting])["Attributes"] for url in dead}
    return {url: count for url, attributes in told.items() if (count := int(attributes[waiting]))}


def _items(stack: Stack) -> list[dict[str, Any]]:
    return every(stack.client("dynamodb"), "scan", "Items", TableName=stack["tables"]["main"], ConsistentRead=True)
