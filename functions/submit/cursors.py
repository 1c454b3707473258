"""Opaque list cursors: where the next page starts. The tenant is never in them."""

import base64
import binascii
import json
import re

from fetcher.errors import InvalidRequestError, Problem

_POSITION = re.compile(r"[0-9TZ:.-]{24}#[0-9a-f-]{36}|![\x20-\x7e]{1,255}")
"""A time and an id, or the name of one of the operator's datasources."""


def written(position: str) -> str:
    """Wrap a position."""
    return base64.urlsafe_b64encode(json.dumps([1, position]).encode()).decode()


def position(cursor: str | None) -> str | None:
    """Unwrap a cursor. Raises FET-0405 for anything that `written` did not make."""
    if cursor is None:
        return None
    try:
        version, found = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        version, found = None, None
    if version != 1 or not isinstance(found, str) or not _POSITION.fullmatch(found):
        detail = "cursor: use the `next` of an earlier answer, unchanged"
        raise InvalidRequestError(detail, code="FET-0405", problems=(Problem("/query/cursor", detail),))
    return found
