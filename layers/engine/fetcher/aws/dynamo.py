"""Items as DynamoDB holds them, and the three ways a write can end.

A conditional write succeeds, is refused by its condition (`Refused`, which brings the item as it was),
or is unsure. Unsure transactions are repeated with the same token and the same bytes, which DynamoDB
answers as the first time for ten minutes.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from random import random
from typing import Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from fetcher.aws.errors import CONDITION, CONFLICT
from fetcher.aws.spelling import spell, spell_condition
from fetcher.core.rules import Condition, Given, Rule

T = TypeVar("T")
_TRIES = 6
_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


class Refused(Exception):  # noqa: N818 - an answer that callers match on, not a failure
    """The condition of action number `action` did not hold; `item` is what was there, if anything.

    `repeated` says that the client had to send the write more than once, so an earlier try may have done it.
    """

    def __init__(self, action: int, item: Mapping[str, Any] | None, *, repeated: bool = False) -> None:
        super().__init__(f"action {action} was refused by its condition")
        self.action = action
        self.item = item
        self.repeated = repeated

    def done_before(self, **written: Any) -> bool:
        """Whether an earlier try of this very write, whose answer was lost, put there what it wanted."""
        item = self.item or {}
        return self.repeated and all(item.get(name) == value for name, value in written.items())


def marshal(item: Mapping[str, Any]) -> dict[str, Any]:
    """Encode an item; integers, strings, lists, maps and booleans only."""
    return {name: _serialize(value) for name, value in item.items()}


def unmarshal(item: Mapping[str, Any]) -> dict[str, Any]:
    """Decode an item; every number we store is an integer."""
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case bool() | str() | None:
            return value
        case _:
            return int(value)


def token(*parts: str) -> str:
    """Derive a transaction's idempotency token from what makes it this transaction and no other."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:36]


def get(client: Any, table: str, key: Mapping[str, str]) -> dict[str, Any] | None:
    """Read one item, consistently."""
    answer = client.get_item(TableName=table, Key=marshal(key), ConsistentRead=True)
    return unmarshal(answer["Item"]) if "Item" in answer else None


def update(
    client: Any,
    table: str,
    key: Mapping[str, str],
    rule: Rule,
    given: Given,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Apply a rule to one item and return the item after it. Raises `Refused` with the item as it was."""

    def call() -> Any:
        return client.update_item(
            TableName=table,
            Key=marshal(key),
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **spell(rule, given),
        )

    try:
        answer = _past_conflicts(call, sleep)
    except ClientError as error:
        if not CONDITION.include(error):
            raise
        old = error.response.get("Item")
        repeated = error.response["ResponseMetadata"].get("RetryAttempts", 0) > 0
        raise Refused(0, unmarshal(old) if isinstance(old, dict) else None, repeated=repeated) from error
    return unmarshal(answer["Attributes"])


def transact(
    client: Any,
    actions: Sequence[Mapping[str, Any]],
    request_token: str,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write all actions or none. Raises `Refused` for the first action whose condition did not hold."""
    try:
        _past_conflicts(
            lambda: client.transact_write_items(TransactItems=list(actions), ClientRequestToken=request_token), sleep
        )
    except ClientError as error:
        for number, reason in enumerate(_reasons(error)):
            if CONDITION.hold(reason.get("Code", "")):
                old = reason.get("Item")
                raise Refused(number, unmarshal(old) if old else None) from error
        raise


def _past_conflicts(call: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Repeat, with jitter, a write that met another's transaction on the same item: that is no lost race."""
    for attempt in range(_TRIES - 1):
        try:
            return call()
        except ClientError as error:
            if not _conflicted(error):
                raise
        sleep(random() * 0.05 * 2**attempt)
    return call()


def _conflicted(error: ClientError) -> bool:
    codes = [reason.get("Code", "") for reason in _reasons(error)]
    return CONFLICT.include(error) or (not any(map(CONDITION.hold, codes)) and any(map(CONFLICT.hold, codes)))


def _reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    return error.response.get("CancellationReasons") or ()


def put_action(table: str, item: Mapping[str, Any], when: Condition | None = None, given: Given | None = None) -> Any:
    """A Put of a transaction; refused with the item that was there."""
    spelled = spell_condition(when, given or {}) if when else {}
    return {
        "Put": {
            "TableName": table,
            "Item": marshal(item),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **spelled,
        }
    }


def update_action(table: str, key: Mapping[str, str], rule: Rule, given: Given) -> Any:
    """An Update of a transaction; refused with the item as it was."""
    return {
        "Update": {
            "TableName": table,
            "Key": marshal(key),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **spell(rule, given),
        }
    }


def delete_action(table: str, key: Mapping[str, str]) -> Any:
    """A Delete of a transaction, whether or not the item exists."""
    return {"Delete": {"TableName": table, "Key": marshal(key)}}


def newest(
    client: Any, table: str, partition: str, before: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Read one page of a GSI1 list, newest first; `before` is a GSI1SK, exclusive."""
    condition = "GSI1PK = :pk AND GSI1SK < :before" if before else "GSI1PK = :pk"
    values = {":pk": partition, **({":before": before} if before else {})}
    answer = client.query(
        TableName=table,
        IndexName="GSI1",
        KeyConditionExpression=condition,
        ExpressionAttributeValues=marshal(values),
        ScanIndexForward=False,
        Limit=limit,
    )
    items = [unmarshal(item) for item in answer["Items"]]
    return items, items[-1]["GSI1SK"] if items and "LastEvaluatedKey" in answer else None
