"""The bodies of connections as pydantic sees them: what OpenAPI shows and what a request must look like."""

from ipaddress import IPv6Address
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from fetcher.core.canonical import dumps
from fetcher.core.kinds import CONFIG_NAME, tls_problem
from fetcher.core.request import MAX_METADATA_BYTES
from fetcher.errors import InvalidRequestError, Problem
from fetcher.model import DEFAULT_WORKERS, MOST_WORKERS
from submit.schemas import Checked

PEM_LENGTH = 16_384
UNION_TAGS = ("<text>", "<reference>")
"""What pydantic adds to the place of an error inside a credential; it is no member of the body."""


class Strict(BaseModel):
    """Unknown members are refused and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SecretReference(Strict):
    """A member of a JSON secret in Secrets Manager, under `fetcher/connections/<tenant>/`."""

    secretId: Annotated[str, Field(min_length=1, max_length=512)]  # noqa: N815 - the API's name
    field: Annotated[str, Field(min_length=1, max_length=255)] = "password"


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _tag(value: Any) -> str:
    return UNION_TAGS[isinstance(value, dict | SecretReference)]


_Password = Annotated[
    Annotated[str, Field(min_length=1, max_length=1024), Tag(UNION_TAGS[0])]
    | Annotated[SecretReference, Tag(UNION_TAGS[1])],
    Discriminator(_tag),
]
_Key = Annotated[
    Annotated[str, Field(max_length=PEM_LENGTH), Tag(UNION_TAGS[0])] | Annotated[SecretReference, Tag(UNION_TAGS[1])],
    Discriminator(_tag),
]
_Text = Annotated[str, Field(min_length=1, max_length=255)]


class Tls(Strict):
    """How the wire is protected; modes are matched exactly."""

    mode: str
    ca: Annotated[str | None, Field(max_length=PEM_LENGTH)] = None
    cert: Annotated[str | None, Field(max_length=PEM_LENGTH)] = None
    key: Annotated[_Key | None, Field(repr=False)] = None


class ConnectionLimits(Strict):
    """What the source is to bear; a member that is absent or null has its default."""

    maxWorkers: Annotated[  # noqa: N815 - the API's name
        int | None, Field(ge=1, le=MOST_WORKERS, description=f"jobs that read at once; {DEFAULT_WORKERS} by default")
    ] = None


class ConnectionBody(Strict):
    """The body that registers a connection; the password is kept sealed and never comes back."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "configName": "my_postgres",
                "type": "POSTGRESQL",
                "host": "db.example.com",
                "port": 5432,
                "databaseName": "payments",
                "userName": "reader",
                "password": {"secretId": "fetcher/connections/default/payments", "field": "password"},
                "ssl": {"mode": "verify-full"},
                "limits": {"maxWorkers": 3},
            }
        }
    )

    configName: Annotated[str, Field(min_length=3, max_length=100, pattern=CONFIG_NAME)]  # noqa: N815 - the API's name
    type: Literal["POSTGRESQL", "MYSQL", "ORACLE", "SQL_SERVER", "MONGODB"]
    host: Annotated[str, Field(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65_535)]
    databaseName: _Text  # noqa: N815 - the API's name
    userName: _Text  # noqa: N815 - the API's name
    password: Annotated[_Password, Field(repr=False)]
    # `schema` would shadow a method of BaseModel
    schema_: Annotated[str | None, Field(alias="schema", min_length=1, max_length=255)] = None
    ssl: Tls | None = None
    limits: ConnectionLimits | None = None
    metadata: dict[str, Any] | None = None

    @field_validator("host", "databaseName", "userName", "schema_", "password")
    @classmethod
    def without_controls(cls, value: Any) -> Any:
        """A NUL or another control character ends a name early in some driver."""
        if isinstance(value, str) and any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in value):
            raise PydanticCustomError("control_character", "must not hold control characters")
        return value

    @field_validator("host")
    @classmethod
    def a_host(cls, value: str) -> str:
        """A name or an address alone: no scheme, port, path, user or blank."""
        if any(letter in "/@?#\\ ,;=[]" for letter in value) or (":" in value and not _is_ipv6(value)):
            raise PydanticCustomError("host", "must be a host name or an IP address alone")
        return value

    @field_validator("metadata")
    @classmethod
    def not_too_large(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """What is stored with a connection stays far below an item's bound."""
        if value is not None and len(dumps(value).encode()) > MAX_METADATA_BYTES:
            raise PydanticCustomError("too_large", "must have at most {most} bytes", {"most": MAX_METADATA_BYTES})
        return value

    @property
    def max_workers(self) -> int | None:
        """The number of readers that was asked for, or None for the default."""
        return self.limits.maxWorkers if self.limits else None

    def tls_problem(self) -> str | None:
        """Say what is wrong with the TLS mode for this kind, if anything."""
        problem = tls_problem(self.type, self.ssl.mode if self.ssl else None)
        return None if problem is None else f"ssl.mode {problem}"

    def references(self) -> dict[str, SecretReference]:
        """Return what Secrets Manager holds, by the pointer's path in this body."""
        given = {"/password": self.password, "/ssl/key": self.ssl.key if self.ssl else None}
        return {path: value for path, value in given.items() if isinstance(value, SecretReference)}


def _patch_schema() -> dict[str, Any]:
    """Every member of the whole body, none required; null clears what is optional."""
    schema = ConnectionBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs")
    schema.pop("required")
    tls = Tls.model_json_schema(ref_template="#/components/schemas/{model}")
    tls.pop("$defs")
    tls.pop("required")
    schema["properties"]["ssl"] = {"anyOf": [tls, {"type": "null"}]}
    return {
        **schema,
        "title": "ConnectionPatch",
        "description": "A JSON merge patch (RFC 7396): null clears an optional member.",
        "minProperties": 1,
        "example": {"port": 5433, "schema": None},
    }


class PatchBody(Checked):
    """A merge patch; what it makes of the connection is checked as a whole."""

    _SCHEMA = _patch_schema()

    def __init__(self, body: Any) -> None:
        if not isinstance(body, dict) or not body:
            detail = "the patch must be a JSON object with at least one member to change"
            raise InvalidRequestError(detail, code="FET-0001", problems=(Problem("", detail),))
        self.patch: dict[str, Any] = body
