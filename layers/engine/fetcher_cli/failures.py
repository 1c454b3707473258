"""The commands of jobs that failed: list them with what to do, and retry one."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from fetcher.core.canonical import dumps, strict_loads
from fetcher_cli import console
from fetcher_cli.api import Answer, Api, connect
from fetcher_cli.errors import RefusedError
from fetcher_cli.jobs import PATH, Wait, job_of, place_of, submitted
from fetcher_cli.options import Api as ApiOption
from fetcher_cli.options import Iam, JobId, Json

COLUMNS = ("id", "when", "family", "phase", "where", "what to do")
PAGE = 100
NOT_FOUND = 404


def failed(
    source: Annotated[str | None, typer.Option("--source", help="Only jobs of this product.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, newest first.")] = 20,
    json_: Json = False,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """List failed jobs: when, why, while doing what, where, and what to do."""
    with connect(api, iam=iam) as client:
        found = list(islice(_failed(client, source), limit))
    if json_:
        console.raw("[" + ",".join(answer.body.decode() for answer in found) + "]")
        return
    console.table(COLUMNS, [_row(answer.json()) for answer in found])


def retry(job_id: JobId, wait: Wait = False, json_: Json = False, api: ApiOption = None, iam: Iam = False) -> None:
    """Submit the request of a failed job again and print the new job's id."""
    with connect(api, iam=iam) as client:
        job = strict_loads(job_of(client, job_id).body)
        answer = client.post(PATH, request_of(job), {"X-Retry-Of": str(job["id"])})
        submitted(client, answer, wait=wait, json_=json_)


def request_of(job: Mapping[str, Any]) -> bytes:
    """Write the request that a job was made for, as it was: every number by its own text.

    `job` is what `strict_loads` makes of the API's answer.
    """
    asked = {name: job[name] for name in ("mappedFields", "filters") if name in job}
    return dumps({"dataRequest": asked, "metadata": job["metadata"]}).encode()


def _failed(client: Api, source: str | None) -> Iterator[Answer]:
    """Yield failed jobs in full, newest first. The list lags: one that is gone by now is left out."""
    query = {"status": "failed", "limit": str(PAGE), **({"source": source} if source else {})}
    while True:
        page = client.get(f"{PATH}?{urlencode(query)}").json()
        for item in page["items"]:
            try:
                yield job_of(client, str(item["id"]))
            except RefusedError as error:
                if error.status != NOT_FOUND:
                    raise
        if "next" not in page:
            return
        query["cursor"] = page["next"]


def _row(job: Mapping[str, Any]) -> list[str]:
    error = job.get("error") or {}
    return [
        str(job["id"]),
        str(job.get("completedAt", "")),
        str(error.get("family", "")),
        str(error.get("phase", "")),
        place_of(error),
        str(error.get("action", "")),
    ]
