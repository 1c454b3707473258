"""Accepting a job: `design.md` §6, steps b to g. Whatever fails before f leaves nothing behind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from fetcher import engines
from fetcher.aws import queues
from fetcher.aws.records import Accepted
from fetcher.aws.results import request_key
from fetcher.aws.stored import Stored
from fetcher.aws.telemetry import about, logger
from fetcher.core.canonical import dumps, request_hash
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import Status
from fetcher.core.problems import pointer
from fetcher.errors import InvalidRequestError, Problem, UnavailableError, Where
from submit.caller import Caller
from submit.probes import probe_all
from submit.registered import visible
from submit.schemas import JobBody
from submit.services import Services

INLINE_BYTES = 100 * 1024
_LOCK_TRIES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """The extraction that answers for a request, and whether this request made it."""

    extraction: Extraction
    new: bool


def accept(services: Services, caller: Caller, job: JobBody, retry_of: Extraction | None = None) -> Answer:
    """Turn a checked body into an extraction, or find the one that already answers for it.

    `retry_of` is the job that the caller wants repeated; it changes nothing but what the new one says of itself.
    Raises `InvalidRequestError` for connections that are unknown, foreign or down, for what they can never answer, and
    for a `retry_of` that did not fail or asked for something else.
    """
    source = Problem("/metadata/source", "metadata.source is a product that the token is not for")
    caller.check_product(job.request.source, source)
    digest = request_hash(job.data_request, job.metadata)
    if retry_of is not None:
        _check_retry(retry_of, digest)
    duplicate, replaces = services.extractions.duplicate(caller.tenant, digest)
    if duplicate is not None:
        return _existing(duplicate)
    named = resolve(services, caller, job)
    for name, stored in named.items():
        engines.narrowed(stored.connection, job.request.datasources[name], job.metadata)
    try:
        probe_all(services.sources, {name: stored for name, stored in named.items() if not stored.internal})
    except InvalidRequestError:
        appeared, _ = services.extractions.duplicate(caller.tenant, digest)
        if appeared is None:
            raise
        return _existing(appeared)
    fresh = replace(_accepted(services, caller, job, digest, named), retry_of=retry_of.id if retry_of else None)
    accepted = _store_body(services, fresh)
    return _create(services, caller, accepted, replaces)


def _check_retry(retry_of: Extraction, digest: str) -> None:
    """Raise FET-2014 (409) unless this job failed and the request is the one that it was made for."""
    if retry_of.status is not Status.FAILED:
        text = f"the job is {retry_of.status}; only a failed job is retried"
    elif retry_of.request_hash != digest:
        text = "the request is another than that job's; post it without X-Retry-Of"
    else:
        return
    raise InvalidRequestError(text, code="FET-2014", problems=(Problem("/headers/X-Retry-Of", text),))


def resolve(services: Services, caller: Caller, job: JobBody) -> dict[str, Stored]:
    """Find the connection behind each datasource name and check that the product may read it."""
    found = {name: services.connections.named(caller.tenant, name) for name in job.request.datasources}
    missing = [name for name, stored in found.items() if stored is None or not visible(caller, stored)]
    if missing:
        raise _refused("FET-1020", missing, "no connection of this name; register it or correct the name")
    stored = {name: item for name, item in found.items() if item is not None}
    orphans = [name for name, item in stored.items() if item.product is None and not item.internal]
    if orphans:
        raise _refused("FET-1014", orphans, "the connection belongs to no product; assign it first")
    foreign = [name for name, item in stored.items() if not item.serves(job.request.source)]
    if foreign:
        raise _refused("FET-1016", foreign, "the connection belongs to another product than metadata.source names")
    return stored


def _refused(code: str, names: list[str], detail: str) -> InvalidRequestError:
    problems = tuple(Problem(pointer(("dataRequest", "mappedFields", name)), f"{name}: {detail}") for name in names)
    text = "; ".join(problem.detail for problem in problems)
    return InvalidRequestError(text, code=code, where=Where(datasource=names[0]), problems=problems)


def _accepted(services: Services, caller: Caller, job: JobBody, digest: str, named: Mapping[str, Stored]) -> Accepted:
    return Accepted(
        tenant=caller.tenant,
        id=str(uuid4()),
        source=job.request.source,
        request_hash=digest,
        connections={name: stored.id for name, stored in named.items()},
        tables=sum(len(selections) for selections in job.request.datasources.values()),
        metadata=dumps(job.metadata),
        request=dumps(job.data_request),
        request_key=None,
        created_ms=services.clock(),
    )


def _store_body(services: Services, accepted: Accepted) -> Accepted:
    """Move a body that is too large for an item to S3; what a crash leaves there expires."""
    body = (accepted.request or "").encode()
    if len(body) <= INLINE_BYTES:
        return accepted
    where = request_key(accepted.tenant, accepted.id)
    reach(Point.STORING_BODY)
    services.s3.put_object(Bucket=services.settings.bucket, Key=where, Body=body, ContentType="application/json")
    reach(Point.BODY_STORED)
    return accepted.stored_at(where)


def _create(services: Services, caller: Caller, accepted: Accepted, replaces: str | None) -> Answer:
    """Write lock and extraction in one transaction; the loser of a race answers with the winner."""
    for _ in range(_LOCK_TRIES):
        reach(Point.ACCEPTING)
        outcome = services.extractions.accept(accepted, replaces)
        if isinstance(outcome, Extraction):
            reach(Point.ACCEPTED)
            about(outcome.message)
            dispatch(services, outcome)
            return Answer(outcome, new=True)
        duplicate, replaces = services.extractions.duplicate(caller.tenant, accepted.request_hash)
        if duplicate is not None:
            return _existing(duplicate)
    raise UnavailableError("too many requests for the same job at once")


def dispatch(services: Services, extraction: Extraction) -> None:
    """Queue the extraction and note it. A failure here is harmless: the sweeper sends it (R-000-74, 75)."""
    try:
        queues.send(services.sqs, services.settings.work_queue, extraction.message)
        reach(Point.SENT)
        services.extractions.dispatched(extraction)
        reach(Point.DISPATCHED)
    except (ClientError, BotoCoreError):
        logger.exception("the job is accepted but could not be queued yet; the sweeper will do it")


def _existing(extraction: Extraction) -> Answer:
    """Answer with it as it was found: read once more it may have failed, and a failed job answers for nothing."""
    about(extraction.message)
    return Answer(extraction, new=False)
