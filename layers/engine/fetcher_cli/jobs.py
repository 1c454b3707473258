"""The commands of jobs: submit, status, cancel, download."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fetcher_cli import console, progress
from fetcher_cli.api import Answer, Api, connect, retry_after
from fetcher_cli.downloads import download_result
from fetcher_cli.errors import FailedError, UnreachableError, UsageError
from fetcher_cli.options import Api as ApiOption
from fetcher_cli.options import Iam, JobId, Json, Key
from fetcher_cli.places import verify_key

PATH = "/v1/fetcher"
POLL_SECONDS = 2.0
TRIES = 5
"""Polls in a row that may fail before waiting is given up; the job goes on either way."""

ENDED = frozenset({"completed", "failed"})


Wait = Annotated[bool, typer.Option("--wait", help="Follow the job to its end; exit 1 if it fails.")]


def submit(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="The request as JSON; - reads stdin.")],
    wait: Wait = False,
    json_: Json = False,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """Submit a request and print the job's id."""
    with connect(api, iam=iam) as client:
        submitted(client, client.post(PATH, file.read()), wait=wait, json_=json_)


def submitted(client: Api, answer: Answer, *, wait: bool, json_: bool) -> None:
    """Say what became of a post, and follow its job if that was asked for."""
    job_id = str(answer.json()["jobId"])
    console.err().print("accepted" if answer.status == 202 else "a live job answers for the same request")
    text = _waited(client, job_id) if wait else answer.body.decode()
    console.raw(text if json_ else job_id)
    if wait:
        _expect_completed(json.loads(text))


def status(job_id: JobId, json_: Json = False, api: ApiOption = None, iam: Iam = False) -> None:
    """Show a job."""
    with connect(api, iam=iam) as client:
        answer = job_of(client, job_id)
    console.raw(answer.body.decode() if json_ else "\n".join(summary(answer.json())))


def cancel(job_id: JobId, api: ApiOption = None, iam: Iam = False) -> None:
    """Ask a job to stop; it ends as failed, family canceled."""
    with connect(api, iam=iam) as client:
        answer = client.post(f"{PATH}/{quote(job_id, safe='')}/cancel")
    console.out().print(str(answer.json()["message"]))


def download(
    job_id: JobId,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check digest, signature and manifest; keep nothing that fails.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Where the result goes; default ID.json.")] = None,
    key: Key = None,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """Download a result, and with --verify its manifest beside it."""
    secret = verify_key(key) if verify else None
    with connect(api, iam=iam) as client:
        job = job_of(client, job_id).json()
        if job["status"] not in ENDED:
            raise UsageError(f"The job is {job['status']}: wait for it, for example with `submit --wait`.")
        _expect_completed(job)
        lines = download_result(client, job, out or Path(f"{job['id']}.json"), secret)
    console.out().print("\n".join(lines))


def follow(
    client: Api, job_id: str, show: progress.Show, sleep: Callable[[float], object] = time.sleep
) -> tuple[Mapping[str, Any], str]:
    """Poll as often as the API asks for until the job has ended; return it, parsed and as text.

    Polls that fail for a while are repeated; the last failure is raised.
    """
    job: Mapping[str, Any] = {}
    text, tag, failed = "", "", 0
    while True:
        try:
            answer = job_of(client, job_id, tag)
        except UnreachableError as error:
            failed += 1
            if failed == TRIES:
                raise
            sleep(POLL_SECONDS if error.after is None else error.after)
            continue
        failed = 0
        if answer.status != 304:
            job, text, tag = answer.json(), answer.body.decode(), answer.headers.get("ETag", "")
            show(job)
        if job["status"] in ENDED:
            return job, text
        sleep(retry_after(answer.headers, POLL_SECONDS))


def summary(job: Mapping[str, Any]) -> list[str]:
    """Say what matters about a job, a line each."""
    shown = {
        "id": job["id"],
        "status": progress.described(job),
        "source": job["metadata"]["source"],
        "created": job["createdAt"],
        "started": job.get("startedAt"),
        "completed": job.get("completedAt"),
        "attempts": job["attempts"],
        "rows": job.get("rowCount"),
        "bytes": job.get("sizeBytes"),
        "sha256": job.get("resultSha256"),
        "hmac": job.get("resultHmac"),
        "key version": job.get("keyVersion"),
        "retry of": job.get("retryOf"),
        "error": failure(job) if "error" in job else None,
        "to do": (job.get("error") or {}).get("action"),
    }
    return [f"{name + ':':<13}{value}" for name, value in shown.items() if value is not None]


def failure(job: Mapping[str, Any]) -> str:
    """Say why a job failed, where in the request, and what was being done."""
    error = job.get("error") or {}
    where = place_of(error)
    text = f"{error.get('code', 'FET-2090')} ({error.get('family', 'internal')}): {error.get('message', '')}"
    text += f" at {where}" if where else ""
    return f"{text}, while {error['phase']}" if "phase" in error else text


def place_of(error: Mapping[str, Any]) -> str:
    """Say which part of the request an error is about; empty when it is about all of it."""
    return "/".join(error[name] for name in ("datasource", "table", "field") if name in error)


def _waited(client: Api, job_id: str) -> str:
    with progress.shown(console.err()) as show:
        try:
            _, text = follow(client, job_id, show)
        except (KeyboardInterrupt, UnreachableError):
            console.err().print(f"The job goes on; see `fetcher status {job_id}`.")
            raise
    return text


def job_of(client: Api, job_id: str, tag: str = "") -> Answer:
    """Read a job; with `tag`, only if it is another than was seen."""
    return client.get(f"{PATH}/{quote(job_id, safe='')}", {"If-None-Match": tag} if tag else {})


def _expect_completed(job: Mapping[str, Any]) -> None:
    if job["status"] != "completed":
        action = (job.get("error") or {}).get("action")
        raise FailedError(f"The job failed: {failure(job)}" + (f"\n→ {action}" if action else ""))
