"""Every error of the API in one shape: RFC 9457 problem details with a stable `code` (`design.md` §2)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response

from fetcher.core.problems import SHOWN as SPELLED_OUT
from fetcher.core.problems import pointer
from fetcher.core.selection import Finding
from fetcher.errors import (
    FetcherError,
    InvalidRequestError,
    LimitError,
    NotReadyError,
    Problem,
    RefusedError,
    UnavailableError,
)
from submit.connection_bodies import UNION_TAGS

CONTENT_TYPE = "application/problem+json"
NO_STORE = {"Cache-Control": "no-store"}
UNAVAILABLE_SECONDS = 5
TOLD = 10
"""Problems of a body whose texts the detail joins; `errors` has more of them."""

SHOWN = 1_000
"""Findings that one answer lists: with the longest names they still fit what Lambda may answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a problem happened: the path asked for, and the id under which the logs know the request."""

    path: str
    request_id: str


TITLES: Mapping[str, str] = {
    "FET-0001": "Bad request",
    "FET-0002": "Internal error",
    "FET-0003": "Service unavailable",
    "FET-0005": "No such route",
    "FET-0400": "Unexpected member in the request",
    "FET-0401": "Invalid data request",
    "FET-0402": "Missing or invalid member",
    "FET-0403": "Invalid header",
    "FET-0404": "Invalid path parameter",
    "FET-0405": "Invalid query parameter",
    "FET-0406": "Page limit exceeded",
    "FET-0413": "Invalid TLS mode",
    "FET-0414": "Forbidden host",
    "FET-1001": "Not found",
    "FET-1002": "Name already in use",
    "FET-1014": "Connection belongs to no product",
    "FET-1015": "Connection belongs to a product already",
    "FET-1016": "Connection belongs to another product",
    "FET-1020": "Unknown datasource",
    "FET-1021": "Connection in use",
    "FET-1040": "Connection down",
    "FET-1060": "Schema validation failed",
    "FET-1061": "Validation limit exceeded",
    "FET-1062": "No such datasource",
    "FET-2001": "Unknown operator",
    "FET-2002": "Invalid filter values",
    "FET-2003": "Body too large",
    "FET-2004": "Unsupported media type",
    "FET-2005": "Not completed",
    "FET-2006": "Result gone",
    "FET-2007": "Already ended",
    "FET-2008": "Not signed in",
    "FET-2009": "Version mismatch",
    "FET-2011": "Too many tests",
    "FET-2012": "Scope missing",
    "FET-2013": "Product not yours",
    "FET-2014": "Not to be retried",
}

_STATUS: Mapping[str, HTTPStatus] = {
    "FET-0005": HTTPStatus.NOT_FOUND,
    "FET-1001": HTTPStatus.NOT_FOUND,
    "FET-1002": HTTPStatus.CONFLICT,
    "FET-1015": HTTPStatus.CONFLICT,
    "FET-1021": HTTPStatus.CONFLICT,
    "FET-1060": HTTPStatus.UNPROCESSABLE_ENTITY,
    "FET-2003": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "FET-2004": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "FET-2005": HTTPStatus.CONFLICT,
    "FET-2006": HTTPStatus.GONE,
    "FET-2007": HTTPStatus.CONFLICT,
    "FET-2008": HTTPStatus.UNAUTHORIZED,
    "FET-2009": HTTPStatus.PRECONDITION_FAILED,
    "FET-2011": HTTPStatus.TOO_MANY_REQUESTS,
    "FET-2012": HTTPStatus.FORBIDDEN,
    "FET-2013": HTTPStatus.FORBIDDEN,
    "FET-2014": HTTPStatus.CONFLICT,
}


class TooManyError(InvalidRequestError):
    """The caller asked too often; `seconds` from now it may again."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message, code="FET-2011")
        self.seconds = seconds


def from_error(error: FetcherError, at: Place) -> Response[str]:
    """Answer a domain error. What is not the caller's to change becomes 503 or 500 without detail."""
    match error:
        case TooManyError():
            return problem(error.code, error.message, at, after=error.seconds)
        case InvalidRequestError() | RefusedError() | LimitError():
            return problem(error.code, error.message, at, [_shown(found) for found in error.problems])
        case UnavailableError() | NotReadyError():
            return problem("FET-0003", "a service that this answer needs is not ready; try again later", at)
        case _:
            return problem("FET-0002", "the request could not be processed", at)


def from_findings(findings: Sequence[Finding], at: Place) -> Response[str]:
    """Answer a selection that the sources do not have, all of it at once."""
    shown = [_found(finding) for finding in findings[:SHOWN]]
    text = f"{len(findings)} parts of the selection cannot be extracted"
    more = f"; the first {SHOWN} are listed" if len(findings) > SHOWN else ""
    return problem("FET-1060", text + more, at, shown)


def problem(
    code: str, detail: str, at: Place, errors: Sequence[Mapping[str, str]] = (), *, after: int | None = None
) -> Response[str]:
    """Render one problem; `errors` carry JSON pointers, `after` is the wait in seconds."""
    status = status_of(code)
    body: dict[str, Any] = {
        "type": f"urn:fetcher:problem:{code}",
        "title": TITLES.get(code, "Request refused"),
        "status": int(status),
        "detail": detail,
        "instance": at.path,
        "code": code,
        "requestId": at.request_id,
    }
    if errors:
        body["errors"] = list(errors)
    if after is None and status is HTTPStatus.SERVICE_UNAVAILABLE:
        after = UNAVAILABLE_SECONDS
    headers = {**NO_STORE, **({} if after is None else {"Retry-After": str(after)})}
    return Response(int(status), CONTENT_TYPE, json.dumps(body, ensure_ascii=False), headers=headers)


def _shown(found: Problem) -> dict[str, str]:
    return {"pointer": found.pointer, "detail": found.detail}


def _found(finding: Finding) -> dict[str, str]:
    names = {"dataSourceId": finding.where.datasource, "table": finding.where.table, "field": finding.where.field}
    given = {name: value for name, value in names.items() if value is not None}
    return {"pointer": finding.pointer, "detail": finding.detail, "type": finding.kind, **given}


def status_of(code: str) -> HTTPStatus:
    """The HTTP status that belongs to a code: 400 unless the table says otherwise."""
    if code == "FET-0002":
        return HTTPStatus.INTERNAL_SERVER_ERROR
    if code == "FET-0003":
        return HTTPStatus.SERVICE_UNAVAILABLE
    return _STATUS.get(code, HTTPStatus.BAD_REQUEST)


def from_validation(errors: Sequence[Mapping[str, Any]], at: Place) -> Response[str]:
    """Answer what pydantic found, in our codes: unknown member, missing member, or a bad value."""
    found = [_finding(error) for error in errors]
    codes = [code for code, _ in found]
    code = next((wanted for wanted in ("FET-0400", "FET-0405", "FET-0406", "FET-0402") if wanted in codes), codes[0])
    shown = [_shown(problem) for _, problem in found[:SPELLED_OUT]]
    more = len(found) - len(shown)
    text = "; ".join(item["detail"] for item in shown[:TOLD]) + (f" (and {more} more)" if more else "")
    return problem(code, text, at, shown)


def _finding(error: Mapping[str, Any]) -> tuple[str, Problem]:
    place, *path = (part for part in error["loc"] if part not in UNION_TAGS)
    where = pointer(tuple(path))
    name = pointer(tuple(path[-1:]))[1:] or "body"
    if place != "body":
        over = name == "limit" and error["type"] == "less_than_equal"
        return "FET-0406" if over else "FET-0405", Problem(f"/{place}/{name}", f"{name}: {_plain(error)}")
    match error["type"]:
        case "extra_forbidden":
            return "FET-0400", Problem(where, f"unknown member {name!r}; remove it or correct its spelling")
        case "missing":
            return "FET-0402" if path else "FET-0001", Problem(where, f"{name} is required")
        case _:
            return "FET-0001", Problem(where, f"{name}: {_plain(error)}")


def _plain(error: Mapping[str, Any]) -> str:
    """Pydantic's message, which names the rule; the value itself is in `input` and stays there."""
    message = str(error["msg"])
    return message[:1].lower() + message[1:]
