"""The API's description: paths, parameters and bodies from the routes, answers from the tables beside them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from submit import scopes
from submit.contract import SHAPES, ref
from submit.examples import FINDINGS, ROUTES, Answered, Route
from submit.problems import CONTENT_TYPE, TITLES, status_of

_EVERYWHERE = ("FET-0002", "FET-0003", "FET-0405")
_PROTECTED = ("FET-2008", "FET-2012")
_WITH_ID = ("FET-0404", "FET-1001")

_HEADERS: Mapping[str, Mapping[str, Any]] = {
    "Location": {"description": "where to go on", "schema": {"type": "string"}},
    "ETag": {"description": "the version shown", "schema": {"type": "string"}},
    "Retry-After": {"description": "whole seconds", "schema": {"type": "integer"}},
    "X-Request-Id": {"description": "the id under which the logs know the request", "schema": {"type": "string"}},
}
_SECURITY = {
    "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "where the authorizer is jwt"},
    "iam": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "Signature Version 4, where the authorizer is iam",
    },
}
PRODUCT = "X-Product-Name"
PRODUCT_PATTERN = "^[A-Za-z0-9_-]{1,100}$"

_NOT_OURS = ("HTTPValidationError", "ResponseValidationError", "ValidationError")


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Put the answers, their examples and the scopes into what the router described; in a stable order."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _NOT_OURS:
        schemas.pop(name, None)
    schemas.update(SHAPES)
    document["components"]["securitySchemes"] = _SECURITY
    document["components"]["headers"] = _HEADERS
    document["paths"] = {
        path: {method: _operation(method, path, document["paths"][path][method]) for method in sorted(methods)}
        for path, methods in sorted(document["paths"].items())
    }
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    used = json.dumps(document["paths"])
    document["components"]["examples"] = {code: _example(code) for code in sorted(TITLES) if f"/{code}" in used}
    return document


def text(document: Mapping[str, Any]) -> str:
    """Write the description as it is committed."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _operation(method: str, path: str, described: dict[str, Any]) -> dict[str, Any]:
    scope = scopes.needed(method.upper(), path)
    route = ROUTES[method, path]
    if "parameters" in described:
        described["parameters"] = [_parameter(one, route) for one in described["parameters"]]
    return {
        **described,
        "operationId": described["operationId"].split("_v1_")[0].removesuffix(f"_{path[1:]}_{method}"),
        "security": [] if scope is None else [{"jwt": [scope]}, {"iam": []}],
        "responses": dict(sorted(_responses(path, scope, route))),
    }


def _parameter(found: Mapping[str, Any], route: Route) -> dict[str, Any]:
    """Describe a parameter as it is on the wire: an absent one is absent, there is no null."""
    if found["in"] == "path":
        return {**found, "schema": {"type": "string", "format": "uuid"}}
    schema = found["schema"]
    name = str(schema.get("title", found["name"])) if found["in"] == "header" else found["name"]
    plain = next((one for one in schema.get("anyOf", ()) if one != {"type": "null"}), schema)
    kept = {key: value for key, value in {**plain, "default": schema.get("default")}.items() if value is not None}
    kept.pop("title", None)
    if name == PRODUCT:
        kept["pattern"] = PRODUCT_PATTERN
    needed = found["required"] or (name == PRODUCT and route.product)
    return {**found, "name": name, "required": needed, "schema": kept}


def _responses(path: str, scope: str | None, route: Route) -> Iterable[tuple[str, Any]]:
    for status, answered in route.good.items():
        yield str(status), _good(status, answered)
    given = (_PROTECTED if scope else (), _WITH_ID if "{" in path else (), _EVERYWHERE)
    codes = {*route.codes, *(code for some in given for code in some)}
    for status in {int(status_of(code)) for code in codes} - set(route.good):
        yield str(status), _bad(status, sorted(code for code in codes if status_of(code) == status))


def _good(status: int, answered: Answered) -> dict[str, Any]:
    found: dict[str, Any] = {"description": _DESCRIPTIONS[status], "headers": _headers(answered.headers)}
    if answered.shape is not None:
        found["content"] = {"application/json": {"schema": ref(answered.shape), "example": answered.example}}
    return found


def _bad(status: int, codes: list[str]) -> dict[str, Any]:
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    after = ("Retry-After",) if status in {429, 503} else ()
    return {
        "description": ", ".join(f"{code} {TITLES[code]}" for code in codes),
        "headers": _headers(after),
        "content": {CONTENT_TYPE: {"schema": ref("Problem"), "examples": examples}},
    }


def _example(code: str) -> dict[str, Any]:
    shown = {
        "type": f"urn:fetcher:problem:{code}",
        "title": TITLES[code],
        "status": int(status_of(code)),
        "detail": "what was wrong, and what to do",
        "instance": "/v1/fetcher",
        "code": code,
        "requestId": "Rk1xZhaeIAMEJQw=",
    }
    return {"summary": TITLES[code], "value": {**shown, **FINDINGS.get(code, {})}}


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*names, "X-Request-Id")}


_DESCRIPTIONS = {
    200: "As asked",
    201: "Made",
    202: "Accepted",
    204: "Done",
    303: "See the link; do not forward the token to it",
    304: "As seen",
    503: "Not ready",
}
