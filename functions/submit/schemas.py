"""Bodies that the core checks, as OpenAPI shows them: a job, and a selection to validate."""

from collections.abc import Mapping
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fetcher.core import selection
from fetcher.core.limits import DEFAULTS
from fetcher.core.request import parse
from fetcher.core.shapes import LONGEST
from fetcher.model import OPERATORS, Request, Selection

_Filter = {"type": "object", "propertyNames": {"enum": list(OPERATORS)}, "additionalProperties": {"type": "array"}}
_JOB_SCHEMA: dict[str, Any] = {
    "title": "JobRequest",
    "type": "object",
    "required": ["dataRequest", "metadata"],
    "additionalProperties": False,
    "properties": {
        "dataRequest": {
            "type": "object",
            "required": ["mappedFields"],
            "additionalProperties": False,
            "properties": {
                "mappedFields": {
                    "description": 'datasource → table → fields, or ["*"] alone',
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 10,
                    "additionalProperties": {
                        "type": "object",
                        "minProperties": 1,
                        "maxProperties": 20,
                        "additionalProperties": {
                            "type": "array",
                            "items": {"type": "string", "minLength": 1, "maxLength": LONGEST},
                            "minItems": 1,
                            "maxItems": 50,
                        },
                    },
                },
                "filters": {
                    "description": "datasource → table → field → operator → values, joined with AND",
                    "anyOf": [
                        {
                            "type": "object",
                            "additionalProperties": {
                                "type": "object",
                                "additionalProperties": {"type": "object", "additionalProperties": _Filter},
                            },
                        },
                        {"type": "null"},
                    ],
                },
            },
        },
        "metadata": {
            "type": "object",
            "required": ["source"],
            "properties": {
                "source": {"type": "string", "minLength": 1, "description": "the product that owns the job"}
            },
        },
    },
    "example": {
        "dataRequest": {"mappedFields": {"my_postgres": {"public.accounts": ["id", "email", "created_at"]}}},
        "metadata": {"source": "payments", "correlationId": "settlement-2026-07-13"},
    },
}


_SELECTION_SCHEMA: dict[str, Any] = {
    "title": "SchemaSelection",
    "type": "object",
    "required": ["mappedFields"],
    "additionalProperties": False,
    "properties": {
        "mappedFields": {
            "description": 'datasource → table → fields, or ["*"] alone',
            "type": "object",
            "minProperties": 1,
            "maxProperties": 10,
            "additionalProperties": {
                "type": "object",
                "maxProperties": 20,
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": LONGEST},
                    "maxItems": 50,
                },
            },
        }
    },
    "example": {"mappedFields": {"my_postgres": {"public.accounts": ["id", "email"]}}},
}


class Checked:
    """A body that is not pydantic's to check: `_SCHEMA` describes it, the constructor checks it."""

    _SCHEMA: Mapping[str, Any]

    def __init__(self, body: Any) -> None:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(cls._SCHEMA)


class JobBody(Checked):
    """The body of `POST /v1/fetcher`: checked by the core, kept beside what it was parsed from."""

    _SCHEMA = _JOB_SCHEMA

    def __init__(self, body: Any) -> None:
        self.request: Request = parse(body)
        self.data_request: dict[str, Any] = body["dataRequest"]
        self.metadata: dict[str, Any] = body["metadata"]


class SelectionBody(Checked):
    """The body of `validate-schema`."""

    _SCHEMA = _SELECTION_SCHEMA

    def __init__(self, body: Any) -> None:
        self.datasources: dict[str, tuple[Selection, ...]] = selection.parse(body, DEFAULTS)
