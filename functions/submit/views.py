"""What the API shows of a job: `design.md` §6.1."""

from collections.abc import Mapping
from typing import Any

from fetcher.aws.results import request_body
from fetcher.core.canonical import strict_loads
from fetcher.core.extraction import Extraction
from fetcher.errors import UnavailableError
from submit.services import Services


def accepted_view(extraction: Extraction, *, new: bool) -> dict[str, Any]:
    """The answer to a post: enough to follow the job."""
    message = "Job accepted and queued" if new else "The same request was made a short while ago; this is its job"
    return {
        "jobId": extraction.id,
        "status": str(extraction.status),
        "createdAt": extraction.created_at,
        "message": message,
    }


def job_view(services: Services, extraction: Extraction) -> dict[str, Any]:
    """The job in full. Raises `UnavailableError` while its request cannot be read."""
    item = services.extractions.request(extraction.tenant, extraction.id)
    if item is None:
        raise UnavailableError("the request of this job is not readable")
    asked = strict_loads(request_body(services.s3, services.settings.bucket, item))
    view: dict[str, Any] = {
        "id": extraction.id,
        "status": str(extraction.status),
        "metadata": strict_loads(item["metadata"]),
        "mappedFields": asked["mappedFields"],
        "requestHash": extraction.request_hash,
        "createdAt": extraction.created_at,
        "attempts": extraction.attempts,
        "progress": _progress(extraction),
    }
    optional = {
        "filters": asked.get("filters") or None,
        "startedAt": extraction.started_at,
        "completedAt": extraction.completed_at,
        "cancelRequestedAt": extraction.cancel_requested_at,
        "retryOf": extraction.retry_of,
        "error": extraction.error,
    }
    view.update({name: value for name, value in optional.items() if value is not None})
    if extraction.result is not None:
        view.update(_result_view(extraction.result))
    return view


def summary_view(item: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the list."""
    optional = ("startedAt", "completedAt")
    return {
        "id": item["extractionId"],
        "status": item["status"],
        "source": item["source"],
        "createdAt": item["createdAt"],
        **{name: item[name] for name in optional if name in item},
    }


def _progress(extraction: Extraction) -> Mapping[str, Any]:
    """The progress as last saved; between two workers and after the end nothing is read at any rate."""
    if extraction.claim is not None and not extraction.terminal:
        return extraction.progress
    return {name: value for name, value in extraction.progress.items() if name != "rate"}


def _result_view(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "resultPath": result["path"],
        "resultHmac": result["hmac"],
        "resultSha256": result["sha256"],
        "keyVersion": result["keyVersion"],
        "sizeBytes": result["sizeBytes"],
        "rowCount": result["rowCount"],
        "manifestPath": result["manifestPath"],
    }
