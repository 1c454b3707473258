"""Connections in DynamoDB: the table `connections` (`design.md` §4, items 1 and 1n), and the internal datasources."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import dynamo, trail
from fetcher.aws.dynamo import Refused
from fetcher.aws.internals import Internals, identity
from fetcher.aws.operated import deployed
from fetcher.aws.stored import Stored, from_item, key, name_item, name_key, to_item
from fetcher.core.clock import rfc3339
from fetcher.core.faults import Point, reach
from fetcher.core.rules import Absent, Equal, Of, Put, Rule, every
from fetcher.errors import NotReadyError
from fetcher.ports import Clock

ERASE_SECONDS = 7 * 86_400

_UNCHANGED = every(Equal("version", Of("version")), Absent("deletedAt"))
_UNASSIGNED = every(_UNCHANGED, Absent("productName"))
_DELETED = Rule(
    _UNCHANGED,
    (Put("deletedAt", Of("time")), Put("expiresAt", Of("expiresAt")), Put("GSI1PK", Of("graveyard"))),
)


class NameTaken(Exception):  # noqa: N818 - an answer that callers match on, not a failure
    """A living connection of the tenant, or an internal datasource, has this name."""


class Stale(Exception):  # noqa: N818 - an answer that callers match on, not a failure
    """The connection changed or went since it was read; nothing was written."""


class Connections:
    """Create, find, list, change and delete; names are unique in a tenant while they live.

    Every change names who made it, and its audit item is part of the same transaction.
    """

    def __init__(
        self, client: Any, table: str, main_table: str, clock: Clock, internals: Callable[[], Internals] = deployed
    ) -> None:
        self._client = client
        self._table = table
        self._main_table = main_table
        self._clock = clock
        self._internals = internals
        # What is wrong with the operator's variables is logged from the start; AWS, if it fails now, is asked again.
        with suppress(ClientError, BotoCoreError):
            internals()

    @property
    def internals(self) -> Internals:
        """The operator's datasources."""
        return self._internals()

    def create(self, new: Stored, who: str) -> None:
        """Register a connection under its name. Raises `NameTaken`, and `NotReadyError` when that cannot be said."""
        self._check_name(new)
        actions = [
            dynamo.put_action(self._table, name_item(new), Absent("PK")),
            dynamo.put_action(self._table, to_item(new), Absent("PK")),
            trail.entry(self._main_table, who, "connection.create", None, new, self._clock()),
        ]
        reach(Point.CHANGING)
        try:
            dynamo.transact(self._client, actions, dynamo.token(new.id, "create"))
        except Refused as refused:
            raise NameTaken from refused
        reach(Point.CHANGED)

    def get(self, tenant: str, connection_id: str) -> Stored | None:
        """Read a living connection, consistently, or an internal datasource."""
        return self.internals.get(tenant, connection_id) or self._registered(tenant, connection_id)

    def again(self, tenant: str, name: str, connection_id: str) -> Stored | None:
        """Find what a job was accepted with under this name.

        Raises `NotReadyError` for one of the operator's that may be missing only as long as variables cannot be used.
        """
        internals = self.internals
        found = internals.get(tenant, connection_id)
        if found is None and internals.problems and connection_id == identity(tenant, name):
            raise NotReadyError("the operator's datasources cannot be used now")
        return found or self._registered(tenant, connection_id)

    def named(self, tenant: str, name: str) -> Stored | None:
        """Find a living connection by its exact name, consistently; internal names come first.

        Raises `NotReadyError` when nobody else has the name, and it cannot be said whether the operator has.
        """
        internals = self.internals
        if internals.reserves(tenant, name):
            return internals.named(tenant, name)
        item = self._read(name_key(tenant, name))
        if item is None and not internals.complete:
            raise _unsure()
        return self._registered(tenant, item["connectionId"]) if item else None

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

    def change(self, old: Stored, new: Stored, who: str) -> Stored:
        """Replace what was read by what it shall be, in its next version. Raises `Stale`, and as `create`."""
        now = self._clock()
        changed = replace(new, version=old.version + 1, updated_at=rfc3339(now))
        actions = [
            dynamo.put_action(self._table, to_item(changed), _UNCHANGED, {"version": old.version}),
            trail.entry(self._main_table, who, "connection.patch", old, changed, now),
        ]
        if changed.connection.name != old.connection.name:
            self._check_name(changed)
            actions.append(dynamo.put_action(self._table, name_item(changed), Absent("PK")))
            actions.append(dynamo.delete_action(self._table, name_key(old.tenant, old.connection.name)))
        self._write(actions, old, "change")
        return changed

    def assign(self, old: Stored, product: str, who: str) -> Stored:
        """Give an unassigned connection its product, once. Raises `Stale`."""
        now = self._clock()
        assigned = replace(old, product=product, version=old.version + 1, updated_at=rfc3339(now))
        actions = [
            dynamo.put_action(self._table, to_item(assigned), _UNASSIGNED, {"version": old.version}),
            trail.entry(self._main_table, who, "connection.assign", old, assigned, now),
        ]
        self._write(actions, old, "assign")
        return assigned

    def delete(self, old: Stored, who: str) -> None:
        """Delete softly; the name is free at once. Raises `Stale`."""
        now = self._clock()
        given = {
            "version": old.version,
            "time": rfc3339(now),
            "expiresAt": now // 1000 + ERASE_SECONDS,
            "graveyard": f"{old.tenant}#DELETED",
        }
        actions = [
            dynamo.update_action(self._table, key(old.tenant, old.id), _DELETED, given),
            dynamo.delete_action(self._table, name_key(old.tenant, old.connection.name)),
            trail.entry(self._main_table, who, "connection.delete", old, None, now),
        ]
        self._write(actions, old, "delete")

    def _write(self, actions: list[Any], old: Stored, step: str) -> None:
        """Write a change of an existing connection; the first action carries its version."""
        # The audit item's id is in the actions, so that no two changes share a token.
        reach(Point.CHANGING)
        try:
            dynamo.transact(self._client, actions, dynamo.token(old.id, step, str(actions)))
        except Refused as refused:
            raise (Stale if refused.action == 0 else NameTaken) from refused
        reach(Point.CHANGED)

    def _check_name(self, wanted: Stored) -> None:
        internals = self.internals
        if internals.reserves(wanted.tenant, wanted.connection.name):
            raise NameTaken
        if not internals.complete:
            raise _unsure()

    def _registered(self, tenant: str, connection_id: str) -> Stored | None:
        item = self._read(key(tenant, connection_id))
        return None if item is None or "deletedAt" in item else from_item(item)

    def _read(self, where: Mapping[str, str]) -> dict[str, Any] | None:
        return dynamo.get(self._client, self._table, where)


def _unsure() -> NotReadyError:
    return NotReadyError("whether a name is the operator's cannot be said now")
