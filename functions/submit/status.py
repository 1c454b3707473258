"""Liveness, readiness, version and the API's own description; public, and without a secret or a host."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from botocore.exceptions import BotoCoreError, ClientError

from fetcher import __version__
from fetcher.aws.clients import client
from fetcher.core.clock import rfc3339
from submit.answers import answer
from submit.services import Services, services

CHECK_SECONDS = 2.0

router = Router()  # type: ignore[no-untyped-call] # Powertools' constructor has no types


@router.get("/health", summary="The process answers", tags=["status"])
def health() -> Response[Any]:
    """Say that the function runs; nothing behind it is asked."""
    return answer(200, {"status": "healthy"})


@router.get("/version", summary="What is deployed", tags=["status"])
def version() -> Response[Any]:
    """Name the deployed version."""
    return answer(200, {"version": __version__, "requestDate": rfc3339(services().clock())})


@router.get("/readyz", summary="Everything behind the API answers", tags=["status"])
def ready() -> Response[Any]:
    """Ask every dependency at once, each for at most two seconds."""
    with ThreadPoolExecutor(8, thread_name_prefix="ready") as threads:
        started = {name: threads.submit(_timed, check) for name, check in _checks(services()).items()}
        checks = {name: future.result() for name, future in started.items()}
    checks |= _datasources(services())
    healthy = all(check["status"] == "up" for check in checks.values())
    body = {"status": "healthy" if healthy else "unhealthy", "checks": checks, "version": __version__}
    return answer(200 if healthy else 503, body)


def _checks(at: Services) -> dict[str, Callable[[], object]]:
    settings = at.settings
    dynamodb = client("dynamodb", seconds=CHECK_SECONDS)
    sqs, s3 = client("sqs", seconds=CHECK_SECONDS), client("s3", seconds=CHECK_SECONDS)
    return {
        "mainTable": lambda: dynamodb.describe_table(TableName=settings.main_table),
        "connectionsTable": lambda: dynamodb.describe_table(TableName=settings.connections_table),
        "workQueue": lambda: _queue(sqs, settings.work_queue),
        "notificationsQueue": lambda: _queue(sqs, settings.notifications_queue),
        "bucket": lambda: s3.head_bucket(Bucket=settings.bucket),
        "key": lambda: client("kms", seconds=CHECK_SECONDS).describe_key(KeyId=settings.key_id),
    }


def _datasources(at: Services) -> dict[str, dict[str, Any]]:
    """Say whether the operator's variables can be used; what is wrong names a variable, never its value."""
    try:
        internals = at.connections.internals
    except (ClientError, BotoCoreError):
        return {"datasources": {"status": "down", "latencyMs": 0}}
    if not internals.found and not internals.problems:
        return {}
    state = {"status": "down", "problems": list(internals.problems)} if internals.problems else {"status": "up"}
    return {"datasources": {**state, "latencyMs": 0}}


def _queue(sqs: Any, url: str) -> object:
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])


def _timed(check: Callable[[], object]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        check()
    except Exception:
        state = "down"
    else:
        state = "up"
    return {"status": state, "latencyMs": round((time.monotonic() - began) * 1000)}
