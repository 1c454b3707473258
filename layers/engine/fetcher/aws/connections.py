"""Connections in DynamoDB: the table `connections` (`design.md` §4, items 1 and 1n)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.aws.secrets import Sealed
from fetcher.core.clock import rfc3339
from fetcher.core.rules import Absent, Equal, Of, Put, Rule, every
from fetcher.model import Connection
from fetcher.ports import Clock

ERASE_SECONDS = 7 * 86_400

_DELETED = Rule(
    every(Equal("version", Of("version")), Absent("deletedAt")),
    (Put("deletedAt", Of("time")), Put("expiresAt", Of("expiresAt")), Put("GSI1PK", Of("graveyard"))),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A registered connection. `product` is lower-case; `secret` is sealed; `metadata` is JSON text, or empty."""

    tenant: str
    id: str
    product: str | None
    connection: Connection
    secret: Sealed = field(repr=False)
    metadata: str
    created_at: str
    updated_at: str
    version: int = 1
    deleted_at: str | None = None


class Connections:
    """Create, find, list and delete; names are unique in a tenant while they live."""

    def __init__(self, client: Any, table: str, main_table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._main_table = main_table
        self._clock = clock

    def create(self, new: Stored) -> bool:
        """Register a connection under its name; False when the name is taken."""
        actions = [
            dynamo.put_action(self._table, _name_item(new), Absent("PK")),
            dynamo.put_action(self._table, _item(new), Absent("PK")),
        ]
        try:
            dynamo.transact(self._client, actions, dynamo.token(new.id, "create"))
        except Refused:
            return False
        return True

    def get(self, tenant: str, connection_id: str) -> Stored | None:
        """Read a living connection, consistently."""
        item = self._read(_key(tenant, connection_id))
        return None if item is None or "deletedAt" in item else _stored(item)

    def named(self, tenant: str, name: str) -> Stored | None:
        """Find a living connection by its exact name, consistently."""
        item = self._read(_name_key(tenant, name))
        return self.get(tenant, item["connectionId"]) if item else None

    def listed(self, tenant: str, before: str | None, limit: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """Return up to `limit` ids with their summary, newest first, and where the next page starts."""
        items, after = dynamo.newest(self._client, self._table, f"{tenant}#CONNECTIONS", before, limit)
        return list(items), after

    def in_use(self, tenant: str, connection_id: str) -> bool:
        """Whether an extraction that has not ended names this connection."""
        answer = self._client.query(
            TableName=self._main_table,
            KeyConditionExpression="PK = :pk AND begins_with(SK, :active)",
            ExpressionAttributeValues=dynamo.marshal(
                {":pk": f"T#{tenant}#SOURCE#{connection_id}", ":active": "ACTIVE#"}
            ),
            ConsistentRead=True,
            Limit=1,
        )
        return bool(answer["Items"])

    def delete(self, stored: Stored) -> bool:
        """Delete softly; the name is free at once. False when it changed or went meanwhile."""
        now = self._clock()
        given = {
            "version": stored.version,
            "time": rfc3339(now),
            "expiresAt": now // 1000 + ERASE_SECONDS,
            "graveyard": f"{stored.tenant}#DELETED",
        }
        actions = [
            dynamo.update_action(self._table, _key(stored.tenant, stored.id), _DELETED, given),
            dynamo.delete_action(self._table, _name_key(stored.tenant, stored.connection.name)),
        ]
        try:
            dynamo.transact(self._client, actions, dynamo.token(stored.id, "delete", str(now)))
        except Refused:
            return False
        return True

    def _read(self, where: Mapping[str, str]) -> dict[str, Any] | None:
        answer = self._client.get_item(TableName=self._table, Key=dynamo.marshal(where), ConsistentRead=True)
        return dynamo.unmarshal(answer["Item"]) if "Item" in answer else None


def _key(tenant: str, connection_id: str) -> dict[str, str]:
    return {"PK": f"T#{tenant}#CONNECTION#{connection_id}", "SK": "META"}


def _name_key(tenant: str, name: str) -> dict[str, str]:
    return {"PK": f"T#{tenant}#CONNECTIONNAME#{name}", "SK": "UNIQUE"}


def _name_item(new: Stored) -> dict[str, Any]:
    return {**_name_key(new.tenant, new.connection.name), "connectionId": new.id}


def _item(new: Stored) -> dict[str, Any]:
    to = new.connection
    optional = {"schema": to.schema, "tlsMode": to.tls_mode, "productName": new.product}
    return {
        **_key(new.tenant, new.id),
        "GSI1PK": f"{new.tenant}#CONNECTIONS",
        "GSI1SK": f"{new.created_at}#{new.id}",
        "tenant": new.tenant,
        "connectionId": new.id,
        "configName": to.name,
        "type": to.kind,
        "host": to.host,
        "port": to.port,
        "databaseName": to.database,
        "userName": to.user,
        "options": dict(to.options),
        "metadata": new.metadata,
        "secretCiphertext": new.secret.ciphertext,
        "secretDataKey": new.secret.data_key,
        "createdAt": new.created_at,
        "updatedAt": new.updated_at,
        "version": new.version,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _stored(item: Mapping[str, Any]) -> Stored:
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
    )
