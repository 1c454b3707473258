"""What every route needs of the request at hand: who calls, under which id, with which parameters."""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID, uuid4

from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Header

from fetcher.errors import InvalidRequestError, Problem
from submit.caller import Caller, caller_of
from submit.problems import Place
from submit.services import services

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="the `ETag` seen: 304 when nothing has changed since")
]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")


def request_id_of(event: Mapping[str, Any]) -> str:
    """Return the caller's `X-Request-Id` when it is usable, else the gateway's own."""
    given = str((event.get("headers") or {}).get("x-request-id") or "")
    return given if _REQUEST_ID.fullmatch(given) else str(event["requestContext"].get("requestId") or uuid4())


def caller(router: Router) -> Caller:
    """Return who makes the request at hand."""
    return caller_of(router.current_event.raw_event["requestContext"], services().settings)


def place(router: Router) -> Place:
    """Return where a problem of the request at hand happened."""
    event = router.current_event.raw_event
    return Place(event["rawPath"], request_id_of(event))


def identifier(text: str, where: str = "/path/id") -> str:
    """Check an id, which must be a UUID, and return its canonical form. Raises FET-0404, in a header FET-0403."""
    try:
        parsed = str(UUID(text))
    except ValueError:
        parsed = ""
    if parsed != text.lower():
        path = where.startswith("/path/")
        detail = "the id in the path must be a UUID" if path else f"{where.rpartition('/')[2]} must be a UUID"
        raise InvalidRequestError(detail, code="FET-0404" if path else "FET-0403", problems=(Problem(where, detail),))
    return parsed
