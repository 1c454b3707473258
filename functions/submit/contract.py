"""The shapes of the API's answers, as JSON Schema; those of its requests are made from the code that checks them."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def _text(**more: Any) -> Schema:
    return {"type": "string", **more}


def _whole(**more: Any) -> Schema:
    return {"type": "integer", "minimum": 0, **more}


def _object(required: str, properties: Mapping[str, Any], **more: Any) -> Schema:
    return {"type": "object", "required": required.split(), "properties": dict(properties), **more}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """Point at a shape of this file."""
    return {"$ref": f"#/components/schemas/{name}"}


def _page(item: str) -> Schema:
    properties = {
        "items": _list(ref(item)),
        "limit": _whole(),
        "next": _text(description="the cursor of the next page"),
    }
    return _object("items limit", properties, additionalProperties=False)


_ID = _text(format="uuid")
_TIME = _text(format="date-time")
_STATUS = _text(enum=["pending", "processing", "completed", "failed"])
_HEX = _text(pattern="^[0-9a-f]{64}$")
_FREE = {"type": "object"}
_FAMILY = _text(enum=["invalid", "refused", "unavailable", "limit", "timeout", "canceled", "internal"])

_PHASE = _text(description="what was being done: queued, starting, planning, reading or sealing; more may come")

_FINDING = _object(
    "pointer detail",
    {
        "pointer": _text(description="an RFC 6901 pointer into the request"),
        "detail": _text(),
        "type": _text(enum=["DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_DOWN", "TABLE_NOT_FOUND", "FIELD_NOT_FOUND"]),
        "dataSourceId": _text(),
        "table": _text(),
        "field": _text(),
    },
    additionalProperties=False,
)
_PROBLEM = _object(
    "type title status detail instance code requestId",
    {
        "type": _text(pattern="^urn:fetcher:problem:FET-[0-9]{4}$"),
        "title": _text(),
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": _text(),
        "instance": _text(),
        "code": _text(pattern="^FET-[0-9]{4}$"),
        "requestId": _text(),
        "errors": _list(_FINDING),
    },
    description="RFC 9457 problem details; `code` is stable, texts are not",
    additionalProperties=False,
)
_CONNECTION = _object(
    "id configName type host port databaseName userName limits",
    {
        "id": _ID,
        "productName": _text(),
        "configName": _text(),
        "type": _text(enum=["POSTGRESQL", "MYSQL", "ORACLE", "SQL_SERVER", "MONGODB"]),
        "host": _text(),
        "port": _whole(),
        "databaseName": _text(),
        "userName": _text(),
        "schema": _text(),
        "ssl": _object("mode", {"mode": _text()}, additionalProperties=False),
        "limits": _object("maxWorkers", {"maxWorkers": _whole()}, additionalProperties=False),
        "metadata": _FREE,
        "internal": {"const": True, "description": "the operator's own: of no product, and not to be changed here"},
        "createdAt": _TIME,
        "updatedAt": _TIME,
    },
    additionalProperties=False,
)
_FIELD = _object(
    "name type encoding nullable",
    {
        "name": _text(),
        "type": _text(description="the source's own name of the type"),
        "encoding": _text(description="how its values become JSON; see docs/values.md"),
        "nullable": {"type": "boolean"},
        "element": _text(description="the encoding of an array's members"),
    },
    additionalProperties=False,
)
_TABLE = _object(
    "name fields key",
    {"name": _text(), "fields": _list(_FIELD), "key": _list(_text())},
    additionalProperties=False,
)
_CONNECTION_SCHEMA = _object(
    "id configName databaseName type tables",
    {
        "id": _ID,
        "configName": _text(),
        "databaseName": _text(),
        "type": _text(),
        "tables": _list(_TABLE),
    },
    additionalProperties=False,
)
_CONNECTION_TEST = _object(
    "status message latencyMs",
    {
        "status": _text(enum=["success", "failure"]),
        "message": _text(),
        "latencyMs": _whole(),
        "reason": _FAMILY,
        "code": _text(),
    },
    additionalProperties=False,
)
_VALIDATED = _object("status message", {"status": {"const": "success"}, "message": _text()})
_ACCEPTED = _object(
    "jobId status message",
    {"jobId": _ID, "status": _STATUS, "createdAt": _TIME, "message": _text()},
    additionalProperties=False,
)
_PROGRESS = _object(
    "rows bytes tables",
    {
        "rows": _whole(),
        "bytes": _whole(),
        "tables": _object("done total", {"done": _whole(), "total": _whole()}),
        "current": _text(description="the table being read, as `<datasource>/<table>`, or `waiting for …`"),
        "rate": _object(
            "rows bytes",
            {"rows": _whole(), "bytes": _whole()},
            description="per second, over the last ten seconds, while tables are being read",
        ),
    },
)
_JOB = _object(
    "id status metadata mappedFields requestHash createdAt attempts progress",
    {
        "id": _ID,
        "status": _STATUS,
        "metadata": _FREE,
        "mappedFields": _FREE,
        "filters": _FREE,
        "requestHash": _HEX,
        "createdAt": _TIME,
        "startedAt": _TIME,
        "completedAt": _TIME,
        "cancelRequestedAt": _TIME,
        "retryOf": _text(format="uuid", description="the failed job that this one repeats"),
        "attempts": _whole(),
        "progress": _PROGRESS,
        "resultPath": _text(description="opaque"),
        "resultHmac": _HEX,
        "resultSha256": _HEX,
        "keyVersion": _text(),
        "sizeBytes": _whole(),
        "rowCount": _whole(),
        "manifestPath": _text(),
        "error": _object(
            "code family message",
            {
                "code": _text(),
                "family": _FAMILY,
                "message": _text(),
                "action": _text(description="what to do about it"),
                "phase": _PHASE,
                "datasource": _text(),
                "table": _text(),
                "field": _text(),
            },
        ),
    },
)
_JOB_SUMMARY = _object(
    "id status source createdAt",
    {
        "id": _ID,
        "status": _STATUS,
        "source": _text(),
        "createdAt": _TIME,
        "startedAt": _TIME,
        "completedAt": _TIME,
    },
)
_CHECK = _object(
    "status latencyMs",
    {"status": _text(enum=["up", "down"]), "latencyMs": _whole(), "problems": _list(_text())},
)
_READY = _object(
    "status checks version",
    {
        "status": _text(enum=["healthy", "unhealthy"]),
        "checks": {"type": "object", "additionalProperties": _CHECK},
        "version": _text(),
    },
)

SHAPES: Mapping[str, Schema] = {
    "Problem": _PROBLEM,
    "Connection": _CONNECTION,
    "ConnectionPage": _page("Connection"),
    "ConnectionSchema": _CONNECTION_SCHEMA,
    "ConnectionTest": _CONNECTION_TEST,
    "Validated": _VALIDATED,
    "Accepted": _ACCEPTED,
    "Job": _JOB,
    "JobSummary": _JOB_SUMMARY,
    "JobPage": _page("JobSummary"),
    "Manifest": _object("result hmac", {"result": _FREE, "hmac": _HEX}),
    "Ready": _READY,
    "Health": _object("status", {"status": {"const": "healthy"}}),
    "Version": _object("version requestDate", {"version": _text(), "requestDate": _TIME}),
}
