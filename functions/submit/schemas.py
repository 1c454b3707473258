"""Bodies as pydantic sees them: what OpenAPI shows and what a request must look like, and nothing else."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, field_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fetcher.core.request import parse
from fetcher.model import OPERATORS, Request

API_KINDS = {
    "POSTGRESQL": "postgresql",
    "MYSQL": "mysql",
    "ORACLE": "oracle",
    "SQL_SERVER": "sqlserver",
    "MONGODB": "mongodb",
}
"""The names of the kinds in the API, which are the public system's, and in the code."""

_TLS_MODES = {
    "POSTGRESQL": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "MYSQL": ("false", "true", "skip-verify", "preferred"),
    "SQL_SERVER": ("disable", "false", "true", "strict"),
    "ORACLE": ("disable", "false", "true", "enable", "verify", "skip-verify"),
    "MONGODB": ("disable", "false", "true", "enable", "insecure"),
}

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
                            "items": {"type": "string", "minLength": 1},
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


class JobBody:
    """The body of `POST /v1/fetcher`: checked by the core, kept beside what it was parsed from."""

    def __init__(self, body: Any) -> None:
        self.request: Request = parse(body)
        self.data_request: dict[str, Any] = body["dataRequest"]
        self.metadata: dict[str, Any] = body["metadata"]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _JOB_SCHEMA


class Strict(BaseModel):
    """Unknown members are refused and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Tls(Strict):
    """How the wire is protected; modes are matched exactly."""

    mode: str
    ca: Annotated[str | None, Field(max_length=16_384)] = None
    cert: Annotated[str | None, Field(max_length=16_384)] = None
    key: Annotated[str | None, Field(max_length=16_384)] = None


_Text = Annotated[str, Field(min_length=1, max_length=255)]


class ConnectionBody(Strict):
    """The body that registers a connection; the password is kept sealed and never comes back."""

    configName: Annotated[str, Field(min_length=3, max_length=100, pattern=r"^[a-zA-Z0-9_-]+$")]  # noqa: N815
    type: Literal["POSTGRESQL", "MYSQL", "ORACLE", "SQL_SERVER", "MONGODB"]
    host: Annotated[str, Field(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65_535)]
    databaseName: _Text  # noqa: N815
    userName: _Text  # noqa: N815
    password: Annotated[str, Field(min_length=1, max_length=1024)]
    # `schema` would shadow a method of BaseModel
    schema_: Annotated[str | None, Field(alias="schema", max_length=255)] = None
    ssl: Tls | None = None
    metadata: dict[str, Any] | None = None

    @field_validator("host", "databaseName", "userName", "schema_", "password")
    @classmethod
    def without_controls(cls, value: str | None) -> str | None:
        """A NUL or another control character ends a name early in some driver."""
        if value is not None and any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in value):
            raise PydanticCustomError("control_character", "must not hold control characters")
        return value

    @field_validator("host")
    @classmethod
    def a_host(cls, value: str) -> str:
        """A name or an address alone: no scheme, port, path, user or blank."""
        if any(letter in "/@?#\\ ,;=[]" for letter in value):
            raise PydanticCustomError("host", "must be a host name or an IP address alone")
        return value.strip()

    def tls_problem(self) -> str | None:
        """Say what is wrong with the TLS mode for this kind, if anything."""
        modes = _TLS_MODES[self.type]
        if self.ssl is None or self.ssl.mode in modes:
            return None
        return f"ssl.mode must be one of {', '.join(modes)} for {self.type}"
