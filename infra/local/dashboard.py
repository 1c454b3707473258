"""`make dashboard`: jobs of every fate on a local stack, and docs/dashboard.svg from what they measured.

The widgets are those of the deployed dashboard, the numbers those in the functions' logs: nothing is made up.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psycopg
from rich.console import Console

from fetcher.core.faults import ARMED, Point
from infra.local import drawing, metrics, stack
from infra.local.api import Answer, Api
from infra.local.demo import register
from infra.local.places import ROOT, Place, StackError

PICTURE = ROOT / "docs" / "dashboard.svg"
PARAMETERS = {"MaxResultBytes": str(24 * 2**20), "LeaseSeconds": "10"}
"""The sample's largest table is over the bound, behind two parts; a take-over comes soon enough to be seen."""

REQUESTS = 44
PAUSE = 0.8
"""Seconds between two posts."""
PATIENCE = 240
"""Seconds until every job must have ended."""

ACCOUNTS, INVOICES, TOO_MUCH, UNKNOWN = "public.accounts", "accounting.invoices", "public.movements", "public.absent"
SLOW, ROLLED_BACK = "public.slow", "public.rolled_back"
FATES = (ACCOUNTS, "again", SLOW, SLOW, UNKNOWN, INVOICES, "cancel", TOO_MUCH, ROLLED_BACK, INVOICES, "retry")
"""Tables to read, and things to do beside reading one."""

ONE_READER = "one_reader"
VIEWS = """
CREATE VIEW public.slow AS SELECT n, pg_sleep(0.1)::text AS s FROM generate_series(1, 30) n;
CREATE FUNCTION public.unlucky() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
    IF random() < 0.5 THEN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END IF;
    RETURN 1;
END $$;
CREATE VIEW public.rolled_back AS SELECT public.unlucky() AS n;
"""
"""Of the first, `one_reader` lets nobody read while somebody does; the second one's every other read is rolled back."""


def run(place: Place, picture: Path = PICTURE) -> None:
    """Run the jobs and draw. Raises `StackError` when something is not as it should be."""
    console = Console(soft_wrap=True)
    console.print("Starting the stack")
    with stack.running(place, PARAMETERS) as description:
        api, session = Api(description["apiUrl"]), stack.session(place)
        database = description["databases"]["my_postgres"]
        _views(database)
        register(api, "my_postgres", database)
        register(api, ONE_READER, database, limits={"maxWorkers": 1})
        _kill_one(session.client("lambda", endpoint_url=description["endpointUrl"]), place.folder / "killed")
        console.print(f"Posting {REQUESTS} requests, some to fail")
        jobs = set(_submitted(api))
        _until_ended(api, jobs)
        found = _measured(session.client("logs", endpoint_url=description["endpointUrl"]), len(jobs))
        widgets = _widgets(session, description)
    picture.write_text(drawing.draw(widgets, found))
    console.print(f"{picture.relative_to(ROOT)}: {len(found)} samples, {picture.stat().st_size:,} bytes")


def _views(at: Mapping[str, Any]) -> None:
    """Add to the sample what makes a job wait, and what makes it try again."""
    names = {"host": at["host"], "port": at["port"], "dbname": at["database"]}
    with psycopg.connect(**names, user=at["user"], password=at["password"], autocommit=True) as connection:
        connection.execute(VIEWS.encode())


def _kill_one(functions: Any, flag: Path) -> None:
    """Let the first worker that has stored a part die, once; another goes on behind it when the lease is over."""
    [extract] = [each for each in functions.list_functions()["Functions"] if each["Handler"] == "extract.app.handler"]
    variables = {**extract["Environment"]["Variables"], ARMED: f"{Point.PART_STORED}:{flag}"}
    functions.update_function_configuration(FunctionName=extract["FunctionName"], Environment={"Variables": variables})


def _submitted(api: Api) -> Iterator[str]:
    """Post the jobs, a few each second, and yield their ids."""
    body, failed = _request(ACCOUNTS), ""
    for fate in islice(cycle(FATES), REQUESTS):
        time.sleep(PAUSE)
        if fate == "again":
            yield _accepted(api.post("/v1/fetcher", body))
        elif fate == "retry":
            yield _accepted(api.post("/v1/fetcher", _asked_by(api, failed), x_retry_of=failed))
        else:
            body = _request(INVOICES if fate == "cancel" else fate)
            job_id = _accepted(api.post("/v1/fetcher", body))
            yield job_id
            if fate == "cancel":
                api.post(f"/v1/fetcher/{job_id}/cancel", b"")
            if fate == UNKNOWN:
                failed = job_id


def _request(table: str) -> dict[str, Any]:
    metadata = {"source": "payments", "correlationId": uuid4().hex}
    datasource = ONE_READER if table == SLOW else "my_postgres"
    return {"dataRequest": {"mappedFields": {datasource: {table: ["*"]}}}, "metadata": metadata}


def _asked_by(api: Api, job_id: str) -> dict[str, Any]:
    _until_ended(api, {job_id})
    job = api.get(f"/v1/fetcher/{job_id}").json()
    return {"dataRequest": {"mappedFields": job["mappedFields"]}, "metadata": job["metadata"]}


def _accepted(answer: Answer) -> str:
    if answer.status not in {200, 202}:
        raise StackError(f"the API answered {answer.status}: {answer.body[:500].decode()}")
    return str(answer.json()["jobId"])


def _until_ended(api: Api, jobs: set[str]) -> None:
    waiting, until = set(jobs), time.monotonic() + PATIENCE
    while waiting:
        seen = {job_id: api.get(f"/v1/fetcher/{job_id}").json()["status"] for job_id in waiting}
        waiting = {job_id for job_id, status in seen.items() if status in {"pending", "processing"}}
        if time.monotonic() > until:
            raise StackError(f"{len(waiting)} jobs have not ended")
        time.sleep(0.5)


def _measured(logs: Any, jobs: int) -> list[metrics.Sample]:
    """Read what was measured once every job's event was published, which comes last."""
    until = time.monotonic() + PATIENCE
    while True:
        found = metrics.read(logs)
        if sum(sample.value for sample in found if sample.name == "EventsPublished") >= jobs:
            return found
        if time.monotonic() > until:
            raise StackError("not every event was published")
        time.sleep(1)


def _widgets(session: boto3.Session, description: stack.Description) -> Sequence[drawing.Widget]:
    """Read the widgets of the dashboard that the stack made."""
    client = session.client("cloudwatch", endpoint_url=description["endpointUrl"])
    [entry] = client.list_dashboards()["DashboardEntries"]
    body = client.get_dashboard(DashboardName=entry["DashboardName"])["DashboardBody"]
    widgets: Sequence[drawing.Widget] = json.loads(body)["widgets"]
    return widgets
