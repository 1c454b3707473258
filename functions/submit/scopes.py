"""Which scope of a token a request needs: `connections` or `jobs`, to `read` or to `write`.

A rule over every path rather than a mark on each route, so that a new route is closed before anybody
thinks of it.
"""

from collections.abc import Mapping
from typing import Any

from fetcher.errors import InvalidRequestError
from submit.caller import claims_of

PUBLIC = frozenset({"/health", "/readyz", "/version", "/openapi.json", "/docs"})
CONNECTIONS = "/v1/management/connections"
SCOPES = ("connections:read", "connections:write", "jobs:read", "jobs:write")

_ASKING = ("/test", "/validate-schema")
"""Ends of paths whose POST changes nothing."""


def needed(method: str, path: str) -> str | None:
    """Return the scope that a request needs; None for what everybody may ask."""
    if path in PUBLIC:
        return None
    area = "connections" if path.startswith(CONNECTIONS) else "jobs"
    reads = method in {"GET", "HEAD"} or (method == "POST" and path.endswith(_ASKING))
    return f"{area}:{'read' if reads else 'write'}"


def check(context: Mapping[str, Any]) -> None:
    """Raise FET-2012 (403) when the verified token lacks the scope that the request needs."""
    scope = needed(context["http"]["method"], context["http"]["path"])
    if scope is not None and scope not in str(claims_of(context).get("scope", "")).split():
        raise InvalidRequestError(f"the token lacks the scope {scope}", code="FET-2012")
