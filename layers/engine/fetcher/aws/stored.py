"""A connection as it is stored: items 1 and 1n of `design.md` §4, their keys and their attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fetcher.aws.secrets import Reference, Sealed
from fetcher.model import DEFAULT_WORKERS, Connection, Secret


@dataclass(frozen=True, slots=True)
class Stored:
    """A connection that jobs may name. `product` is lower-case; `metadata` is JSON text, or empty.

    `secret` is sealed, or in memory alone for an internal datasource, which the operator's environment
    describes. `references` are the members of the secret (by their name in `Secret`) that Secrets
    Manager holds. `max_workers` is None where the default is meant.
    """

    tenant: str
    id: str
    product: str | None
    connection: Connection
    secret: Sealed | Secret = field(repr=False)
    metadata: str
    created_at: str
    updated_at: str
    version: int = 1
    deleted_at: str | None = None
    references: Mapping[str, Reference] = field(default_factory=dict)
    max_workers: int | None = None

    @property
    def workers(self) -> int:
        """How many extractions may read it at once."""
        return DEFAULT_WORKERS if self.max_workers is None else self.max_workers

    @property
    def internal(self) -> bool:
        """Whether the operator made it: it belongs to no product and the API cannot change it."""
        return isinstance(self.secret, Secret)

    def serves(self, product: str) -> bool:
        """Whether a job of this product may read it."""
        return self.internal or self.product == product


def key(tenant: str, connection_id: str) -> dict[str, str]:
    """Name the record of a connection."""
    return {"PK": f"T#{tenant}#CONNECTION#{connection_id}", "SK": "META"}


def name_key(tenant: str, name: str) -> dict[str, str]:
    """Name the item that keeps a connection's name unique in its tenant."""
    return {"PK": f"T#{tenant}#CONNECTIONNAME#{name}", "SK": "UNIQUE"}


def name_item(stored: Stored) -> dict[str, Any]:
    """Render that item: it leads from the name to the connection."""
    return {**name_key(stored.tenant, stored.connection.name), "connectionId": stored.id}


def to_item(stored: Stored) -> dict[str, Any]:
    """Render a registered connection; an internal one is never written."""
    if not isinstance(stored.secret, Sealed):
        raise TypeError("an internal datasource is not stored")
    to = stored.connection
    optional = {"schema": to.schema, "tlsMode": to.tls_mode, "productName": stored.product}
    references = {
        name: {"secretId": reference.secret_id, "field": reference.field}
        for name, reference in stored.references.items()
    }
    return {
        **key(stored.tenant, stored.id),
        "GSI1PK": f"{stored.tenant}#CONNECTIONS",
        "GSI1SK": f"{stored.created_at}#{stored.id}",
        "tenant": stored.tenant,
        "connectionId": stored.id,
        "configName": to.name,
        "type": to.kind,
        "host": to.host,
        "port": to.port,
        "databaseName": to.database,
        "userName": to.user,
        "options": dict(to.options),
        "metadata": stored.metadata,
        "secretCiphertext": stored.secret.ciphertext,
        "secretDataKey": stored.secret.data_key,
        "createdAt": stored.created_at,
        "updatedAt": stored.updated_at,
        "version": stored.version,
        **({"references": references} if references else {}),
        **({"limits": {"maxWorkers": stored.max_workers}} if stored.max_workers is not None else {}),
        **{name: value for name, value in optional.items() if value is not None},
    }


def from_item(item: Mapping[str, Any]) -> Stored:
    """Read what `to_item` rendered."""
    return Stored(
        tenant=item["tenant"],
        id=item["connectionId"],
        product=item.get("productName"),
        connection=Connection(
            name=item["configName"],
            kind=item["type"],
            host=item["host"],
            port=item["port"],
            database=item["databaseName"],
            user=item["userName"],
            schema=item.get("schema"),
            tls_mode=item.get("tlsMode"),
            options=item["options"],
        ),
        secret=Sealed(item["secretCiphertext"], item["secretDataKey"]),
        metadata=item["metadata"],
        created_at=item["createdAt"],
        updated_at=item["updatedAt"],
        version=item["version"],
        deleted_at=item.get("deletedAt"),
        references={
            name: Reference(found["secretId"], found["field"]) for name, found in item.get("references", {}).items()
        },
        max_workers=item.get("limits", {}).get("maxWorkers"),
    )
