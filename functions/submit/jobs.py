"""The routes of one-shot jobs: `/v1/fetcher`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query
from botocore.exceptions import ClientError

from fetcher.aws.results import erase
from fetcher.aws.telemetry import about, count
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import Status
from fetcher.errors import InvalidRequestError
from submit import cursors
from submit.accepting import accept
from submit.answers import answer, check_size, tagged
from submit.canceling import end_canceled
from submit.context import IfNoneMatch, caller, identifier
from submit.paging import Row, page
from submit.schemas import JobBody
from submit.services import services
from submit.views import accepted_view, job_view, summary_view

PATH = "/v1/fetcher"
POLL_SECONDS = "2"
LINK_SECONDS = 900

RetryOf = Annotated[str | None, Header(alias="X-Retry-Of", description="the id of a failed job that this repeats")]

router = Router()  # type: ignore[no-untyped-call] # Powertools' constructor has no types


@router.post(PATH, summary="Post an extraction job", tags=["jobs"])
def post_job(body: Annotated[JobBody, Body()], retry_of: RetryOf = None) -> Response[Any]:
    """Accept a job (202), or answer with the live duplicate of the last five minutes (200).

    With `X-Retry-Of`, only if that job failed and was made for this very request.
    """
    failed = None if retry_of is None else _job(retry_of, "/headers/X-Retry-Of")
    result = accept(services(), caller(router), body, failed)
    count("JobsCreated" if result.new else "JobsDuplicate")
    if result.new and failed is not None:
        count("JobsRetried")
    headers = {"Location": f"{PATH}/{result.extraction.id}", "Retry-After": POLL_SECONDS}
    return answer(202 if result.new else 200, accepted_view(result.extraction, new=result.new), headers)


@router.get(PATH, summary="List jobs, newest first", tags=["jobs"])
def list_jobs(
    status: Annotated[Literal["pending", "processing", "completed", "failed"] | None, Query()] = None,
    source: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    cursor: Annotated[str | None, Query()] = None,
) -> Response[Any]:
    """List the jobs that the caller may see; the list may lag by seconds."""
    who = caller(router)
    product = source.strip().lower() if source else None

    def chosen(row: Row) -> dict[str, Any] | None:
        wanted = status in {None, row["status"]} and product in {None, row["source"]}
        return summary_view(row) if wanted and who.may_see(row["source"]) else None

    def read(before: str | None, most: int) -> tuple[list[Row], str | None]:
        rows, following = services().extractions.listed(who.tenant, before, most)
        return list(rows), following

    items, following = page(read, chosen, limit, cursors.position(cursor))
    body: dict[str, Any] = {"items": items, "limit": limit}
    if following is not None:
        body["next"] = cursors.written(following)
    return answer(200, body)


@router.get(f"{PATH}/<job_id>", summary="One job", tags=["jobs"])
def get_job(job_id: str, if_none_match: IfNoneMatch = None) -> Response[Any]:
    """Show a job, with its progress while it runs."""
    extraction = _job(job_id)
    poll = {} if extraction.terminal else {"Retry-After": POLL_SECONDS}
    return tagged(job_view(services(), extraction), if_none_match, poll)


@router.get(f"{PATH}/<job_id>/result", summary="The result of a job", tags=["jobs"])
def get_result(job_id: str) -> Response[Any]:
    """Redirect (303) to a link that lives at most 15 minutes. Do not forward the token to it."""
    where = _stored(_job(job_id))["path"]
    link = services().s3.generate_presigned_url("get_object", Params=_object(where), ExpiresIn=LINK_SECONDS)
    return Response(303, None, None, headers={"Location": link, "Cache-Control": "no-store"})


@router.get(f"{PATH}/<job_id>/manifest", summary="The signed manifest of a job", tags=["jobs"])
def get_manifest(job_id: str) -> Response[Any]:
    """Return the manifest's exact bytes: they are what is signed."""
    where = _stored(_job(job_id))["manifestPath"]
    body = services().s3.get_object(**_object(where))["Body"].read().decode()
    check_size(body, "the manifest is larger than an answer may be; it is in the bucket, at the job's manifestPath")
    return Response(200, "application/json", body, headers={"Cache-Control": "no-store"})


@router.post(f"{PATH}/<job_id>/cancel", summary="Cancel a job", tags=["jobs"])
def cancel_job(job_id: str) -> Response[Any]:
    """Ask a job to stop; it ends as failed, family `canceled`, within seconds and at the source too."""
    extraction = _job(job_id)
    reach(Point.CANCELING)
    if not services().extractions.cancel(extraction.tenant, extraction.id):
        raise InvalidRequestError("the job has ended already", code="FET-2007")
    reach(Point.CANCEL_MARKED)
    canceled = end_canceled(services(), _job(job_id))
    headers = {"Location": f"{PATH}/{canceled.id}", "Retry-After": POLL_SECONDS}
    return answer(202, {"jobId": canceled.id, "status": str(canceled.status), "message": "Cancel accepted"}, headers)


@router.delete(f"{PATH}/<job_id>/result", summary="Erase the result of a job", tags=["jobs"])
def delete_result(job_id: str) -> Response[Any]:
    """Delete result and manifest now, and whatever else the job has left in the bucket. Repeating it is fine."""
    extraction = _job(job_id)
    if not extraction.terminal:
        raise InvalidRequestError("the job has not ended; cancel it or wait", code="FET-2005")
    reach(Point.ERASING)
    # Noted first: from then on nothing answers with this job, and whatever fails below, a repeat erases.
    services().extractions.erased(extraction)
    reach(Point.ERASED)
    erase(services().s3, services().settings.bucket, extraction.tenant, extraction.id)
    reach(Point.OBJECTS_ERASED)
    return Response(204, None, None)


def _job(text: str, where: str = "/path/id") -> Extraction:
    """Find a job of the caller's tenant and products; everything else does not exist."""
    who = caller(router)
    extraction = services().extractions.get(who.tenant, identifier(text, where))
    if extraction is None or not who.may_see(extraction.source):
        raise InvalidRequestError("there is no job of this id", code="FET-1001")
    about(extraction.message)
    return extraction


def _stored(extraction: Extraction) -> Mapping[str, Any]:
    """Return where result and manifest are. Raises FET-2005 (409) or FET-2006 (410)."""
    if extraction.status is not Status.COMPLETED or extraction.result is None:
        raise InvalidRequestError(f"the job is {extraction.status}; it has no result", code="FET-2005")
    if extraction.deleted_at is not None or not _exists(extraction.result["path"]):
        raise InvalidRequestError("the result was deleted or has expired", code="FET-2006")
    return extraction.result


def _exists(where: str) -> bool:
    try:
        services().s3.head_object(**_object(where))
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return False
    return True


def _object(where: str) -> dict[str, str]:
    return {"Bucket": services().settings.bucket, "Key": where}
