"""Opaque list cursors: where the next page starts. The tenant is never in them."""

import base64
import binascii
import json

from fetcher.errors import InvalidRequestError, Problem


def written(position: str | None) -> str | None:
    """Wrap a position."""
    return None if position is None else base64.urlsafe_b64encode(json.dumps([1, position]).encode()).decode()


def position(cursor: str | None) -> str | None:
    """Unwrap a cursor. Raises FET-0405 for anything that `written` did not make."""
    if cursor is None:
        return None
    try:
        version, found = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        version, found = None, None
    if version != 1 or not isinstance(found, str):
        detail = "cursor: use the `next` of an earlier answer, unchanged"
        raise InvalidRequestError(detail, code="FET-0405", problems=(Problem("/query/cursor", detail),))
    return found
