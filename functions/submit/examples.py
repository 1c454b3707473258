"""One example of each answer, and which answers each route has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ID = "0a6f1c52-6d0b-4f7e-9b1c-2f1f0c9f6a11"
_JOB_ID = "3b0f7c58-2d0e-4a64-8b39-1c5c7c2a9d40"
_TIME = "2026-01-31T08:00:00.000Z"
_DIGEST = "9a47aced4801ba6122f7e346d0fe37b84b7b3274c011a7c86e17ca2c2f88c948"

CONNECTION: Mapping[str, Any] = {
    "id": _ID,
    "configName": "my_postgres",
    "type": "POSTGRESQL",
    "host": "db.example.com",
    "port": 5432,
    "databaseName": "payments",
    "userName": "reader",
    "productName": "payments",
    "ssl": {"mode": "verify-full"},
    "limits": {"maxWorkers": 5},
    "createdAt": _TIME,
    "updatedAt": _TIME,
}
_SCHEMA = {
    "id": _ID,
    "configName": "my_postgres",
    "databaseName": "payments",
    "type": "POSTGRESQL",
    "tables": [
        {
            "name": "accounts",
            "fields": [
                {"name": "id", "type": "bigint", "encoding": "integer", "nullable": False},
                {"name": "labels", "type": "text[]", "encoding": "array", "nullable": True, "element": "text"},
            ],
            "key": ["id"],
        }
    ],
}
_ACCEPTED = {"jobId": _JOB_ID, "status": "pending", "createdAt": _TIME, "message": "Job accepted and queued"}
_JOB = {
    "id": _JOB_ID,
    "status": "completed",
    "metadata": {"source": "payments"},
    "mappedFields": {"my_postgres": {"accounts": ["id", "email"]}},
    "requestHash": _DIGEST,
    "createdAt": _TIME,
    "startedAt": _TIME,
    "completedAt": _TIME,
    "attempts": 1,
    "progress": {"rows": 5000, "bytes": 231_000, "tables": {"done": 1, "total": 1}},
    "resultPath": f"results/default/{_JOB_ID}/7d1f.json",
    "resultHmac": _DIGEST,
    "resultSha256": _DIGEST,
    "keyVersion": "1",
    "sizeBytes": 231_000,
    "rowCount": 5000,
    "manifestPath": f"manifests/default/{_JOB_ID}/7d1f.1.json",
}
_SUMMARY = {"id": _JOB_ID, "status": "completed", "source": "payments", "createdAt": _TIME}


@dataclass(frozen=True, slots=True)
class Answered:
    """A good answer: the name of its shape (None: no body), an example, and its headers."""

    shape: str | None
    example: Any = None
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """What a route answers: the good ones by status, and the codes of its own problems.

    `product` says that it needs `X-Product-Name`.
    """

    good: Mapping[int, Answered]
    codes: tuple[str, ...] = ()
    product: bool = False


FINDINGS: Mapping[str, Mapping[str, Any]] = {
    "FET-0405": {"errors": [{"pointer": "/query/statsu", "detail": "unknown query parameter 'statsu'"}]},
    "FET-0400": {"errors": [{"pointer": "/filter", "detail": "there is no such member"}]},
    "FET-1060": {
        "instance": "/v1/management/connections/validate-schema",
        "errors": [
            {
                "pointer": "/mappedFields/my_postgres/accounts/1",
                "detail": "the table has no such field",
                "type": "FIELD_NOT_FOUND",
                "dataSourceId": "my_postgres",
                "table": "accounts",
                "field": "e_mail",
            }
        ],
    },
}
"""What the example of a code's problem has beside the text."""

_PAGED = ("FET-0406",)
_BODY = ("FET-0001", "FET-0400", "FET-2003", "FET-2004")
_CONNECTION_BODY = (*_BODY, "FET-0402", "FET-0413", "FET-0414", "FET-1002")
_NO_CONTENT = {204: Answered(None)}
_ONE_CONNECTION = Answered("Connection", CONNECTION, ("ETag",))
_MANAGED = "/v1/management/connections"
_ONE = f"{_MANAGED}/{{connection_id}}"
_FETCHER = "/v1/fetcher"
_ONE_JOB = f"{_FETCHER}/{{job_id}}"
_NOT_MODIFIED = {304: Answered(None, headers=("ETag",))}

ROUTES: Mapping[tuple[str, str], Route] = {
    ("get", "/health"): Route({200: Answered("Health", {"status": "healthy"})}),
    ("get", "/version"): Route({200: Answered("Version", {"version": "1.0.0", "requestDate": _TIME})}),
    ("get", "/readyz"): Route(
        {
            200: Answered(
                "Ready",
                {"status": "healthy", "checks": {"bucket": {"status": "up", "latencyMs": 9}}, "version": "1.0.0"},
            ),
            503: Answered(
                "Ready",
                {
                    "status": "unhealthy",
                    "checks": {"bucket": {"status": "down", "latencyMs": 2000}},
                    "version": "1.0.0",
                },
            ),
        }
    ),
    ("post", _FETCHER): Route(
        {
            202: Answered("Accepted", _ACCEPTED, ("Location", "Retry-After")),
            200: Answered("Accepted", {**_ACCEPTED, "status": "completed"}, ("Location", "Retry-After")),
        },
        (
            *_BODY,
            "FET-0401",
            "FET-0402",
            "FET-0403",
            "FET-0414",
            "FET-1001",
            "FET-1014",
            "FET-1016",
            "FET-1020",
            "FET-1040",
            "FET-2001",
            "FET-2002",
            "FET-2013",
            "FET-2014",
        ),
    ),
    ("get", _FETCHER): Route({200: Answered("JobPage", {"items": [_SUMMARY], "limit": 10})}, _PAGED),
    ("get", _ONE_JOB): Route({200: Answered("Job", _JOB, ("ETag",)), **_NOT_MODIFIED}),
    ("get", f"{_ONE_JOB}/result"): Route({303: Answered(None, headers=("Location",))}, ("FET-2005", "FET-2006")),
    ("delete", f"{_ONE_JOB}/result"): Route(_NO_CONTENT, ("FET-2005",)),
    ("get", f"{_ONE_JOB}/manifest"): Route(
        {200: Answered("Manifest", {"result": {"sha256": _DIGEST}, "hmac": _DIGEST})}, ("FET-2005", "FET-2006")
    ),
    ("post", f"{_ONE_JOB}/cancel"): Route(
        {
            202: Answered(
                "Accepted",
                {"jobId": _JOB_ID, "status": "failed", "message": "Cancel accepted"},
                ("Location", "Retry-After"),
            )
        },
        ("FET-2007",),
    ),
    ("post", _MANAGED): Route(
        {201: Answered("Connection", CONNECTION, ("Location", "ETag"))},
        (*_CONNECTION_BODY, "FET-0403", "FET-2013"),
        product=True,
    ),
    ("get", _MANAGED): Route(
        {200: Answered("ConnectionPage", {"items": [CONNECTION], "limit": 10})}, (*_PAGED, "FET-0403")
    ),
    ("get", f"{_MANAGED}/unassigned"): Route({200: Answered("ConnectionPage", {"items": [], "limit": 10})}, _PAGED),
    ("post", f"{_MANAGED}/validate-schema"): Route(
        {200: Answered("Validated", {"status": "success", "message": "every datasource, table and field exists"})},
        (*_BODY, "FET-0401", "FET-0402", "FET-1060", "FET-1061", "FET-1062"),
    ),
    ("get", _ONE): Route({200: _ONE_CONNECTION, **_NOT_MODIFIED}),
    ("patch", _ONE): Route({200: _ONE_CONNECTION}, (*_CONNECTION_BODY, "FET-1021", "FET-2009")),
    ("delete", _ONE): Route(_NO_CONTENT, ("FET-1021", "FET-2009")),
    ("post", f"{_ONE}/assign"): Route({200: _ONE_CONNECTION}, ("FET-0403", "FET-1015", "FET-2009"), product=True),
    ("get", f"{_ONE}/schema"): Route({200: Answered("ConnectionSchema", _SCHEMA)}, ("FET-0414", "FET-1040")),
    ("post", f"{_ONE}/test"): Route(
        {200: Answered("ConnectionTest", {"status": "success", "message": "the connection works", "latencyMs": 12})},
        ("FET-2011",),
    ),
}
