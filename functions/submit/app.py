"""The HTTP API: routes say what, the exception handlers say how it fails, the last function is Lambda's."""

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestUnsupportedContentType,
    RequestValidationError,
)
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from fetcher import __version__
from fetcher.aws.telemetry import logger, metrics
from fetcher.core.canonical import strict_loads
from fetcher.core.problems import LONGEST_NAME, Report
from fetcher.core.request import check_size
from fetcher.errors import FetcherError
from submit import describing, jobs, registry, scopes, status
from submit.answers import JSON
from submit.context import request_id_of
from submit.problems import Place, from_error, from_validation, problem
from submit.services import services

TITLE = "fetcher"
MERGE_PATCH = "application/merge-patch+json"
OTHER = "application/octet-stream"
FREE = ("/docs",)
"""The page of the stage `local`: whatever a browser asks it for is nobody's business."""

DESCRIPTION = "Extraction jobs: rows out of databases, complete, repeatable and proven."


def _body(text: str) -> Any:
    """Parse a body once, strictly: duplicate members, NaN and oversize are refused here."""
    check_size(len(text.encode()))
    return strict_loads(text)


def _strict(resolver: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Refuse query parameters that the route does not have: a typo must not widen a list (FET-0405)."""
    route, report = resolver.context["_route"], Report()
    known = {found.alias for found in route.dependant.query_params}
    given = resolver.current_event.query_string_parameters or {}
    for name in sorted(given.keys() - known if route.path not in FREE else ()):
        may = f"use {', '.join(sorted(known))}" if known else "this route has none"
        report.add("FET-0405", ("query", name), f"unknown query parameter {name[:LONGEST_NAME]!r}; {may}")
    report.raise_if_any()
    return next_middleware(resolver)


app = APIGatewayHttpResolver(enable_validation=True, json_body_deserializer=_body)
app.use([_strict])
app.include_router(status.router)
app.include_router(jobs.router)
app.include_router(registry.router)


@app.get("/openapi.json", include_in_schema=False)
def openapi() -> Response[Any]:
    """Describe the API as OpenAPI 3.1, made from the routes."""
    return Response(200, JSON, described())


def described() -> str:
    """Return the OpenAPI document as text."""
    made = app.get_openapi_json_schema(title=TITLE, version=__version__, description=DESCRIPTION)
    return describing.text(describing.complete(json.loads(made)))


def _place() -> Place:
    return _place_of(app.current_event.raw_event)


def _place_of(event: Mapping[str, Any]) -> Place:
    return Place(event["rawPath"], request_id_of(event))


@app.exception_handler(FetcherError)
def domain_error(error: FetcherError) -> Response[Any]:
    """Answer what the core, an engine or a route raised."""
    return domain_error_at(error, _place())


def domain_error_at(error: FetcherError, at: Place) -> Response[Any]:
    """Log and answer an error of ours."""
    logger.info("refused", extra={"code": error.code, "family": error.family})
    return from_error(error, at)


@app.exception_handler(RequestValidationError)
def validation_error(error: RequestValidationError) -> Response[Any]:
    """Answer what pydantic found."""
    return from_validation(error.errors(), _place())


@app.exception_handler(RequestUnsupportedContentType)
def media_type_error(_: RequestUnsupportedContentType) -> Response[Any]:
    """Answer a body that is not sent as JSON."""
    return problem("FET-2004", "send the body as application/json", _place())


@app.exception_handler([ClientError, BotoCoreError])
def service_error(_: Exception) -> Response[Any]:
    """Answer when AWS itself is not ready; the text of its error stays in the log."""
    logger.exception("a service did not answer")
    return problem("FET-0003", "a service that this answer needs is not ready; try again later", _place())


@app.exception_handler(Exception)
def defect(_: Exception) -> Response[Any]:
    """Answer a defect of ours."""
    logger.exception("a defect")
    return problem("FET-0002", "the request could not be processed", _place())


@app.not_found
def no_route(_: NotFoundError) -> Response[Any]:
    """Answer an unknown path or method."""
    return problem("FET-0005", "there is no such route", _place())


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Serve one request of the HTTP API (payload 2.0)."""
    request_id = request_id_of(event)
    logger.append_keys(request_id=request_id)
    answer = _refusal(event) or _unreadable(event) or app.resolve(_plain(event), context)
    answer.setdefault("headers", {})["X-Request-Id"] = request_id
    return answer


def _refusal(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Refuse a token without the scope before its body is looked at."""
    try:
        if services().settings.authorizer == "jwt":
            scopes.check(event["requestContext"])
    except FetcherError as error:
        refused = domain_error_at(error, _place_of(event))
        return {"statusCode": refused.status_code, "headers": refused.headers, "body": refused.body}
    return None


def _unreadable(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Refuse a body that the gateway sent as base64 and that is no UTF-8, before the router decodes it."""
    if not event.get("isBase64Encoded"):
        return None
    try:
        base64.b64decode(event.get("body") or "", validate=True).decode()
    except ValueError:
        refused = problem("FET-0001", "the body is not UTF-8 text", _place_of(event))
        return {"statusCode": refused.status_code, "headers": refused.headers, "body": refused.body}
    return None


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    """Let a merge patch pass as the JSON that it is, and no form as anything: the router would read it."""
    headers = event.get("headers") or {}
    given = str(headers.get("content-type", "")).strip().lower()
    if not given:
        return event
    return {**event, "headers": {**headers, "content-type": JSON if given.startswith((JSON, MERGE_PATCH)) else OTHER}}


if os.environ.get("FETCHER_STAGE") == "local":
    from submit.page import page  # here: no other stage is to pay for it at each cold start

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response[Any]:
        """Show the description on a page to try it on."""
        return Response(200, "text/html; charset=utf-8", page(described()))
