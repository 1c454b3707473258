"""What the model proves is what DynamoDB is asked: the same histories, in memory and in a table."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from hypothesis import given, settings
from moto import mock_aws

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.core.lifecycle import TABLE, Event
from fetcher.core.rules import Absent, applied, holds
from tests.unit.test_lifecycle import NEW, steps, values

KEY = {"PK": NEW["PK"], "SK": "META"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with mock_aws():
        made = boto3.client("dynamodb", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        made.create_table(
            TableName="main",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "PK", "AttributeType": "S"},
                {"AttributeName": "SK", "AttributeType": "S"},
            ],
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        )
        yield made


@given(history=steps)
@settings(max_examples=60, deadline=None)
def test_a_rule_means_the_same_in_memory_and_in_the_table(
    client: Any, history: list[tuple[Event, str, int, bool]]
) -> None:
    """Every event of a random history is refused by both or has the same effect in both."""
    item: dict[str, Any] = {**NEW, "SK": "META"}
    client.put_item(TableName="main", Item=dynamo.marshal(item))
    now = 0
    for event, worker, passed, old_message in history:
        now += passed
        asked = values(now, worker, item["generation"] - int(old_message), item.get("lookAt", -1))
        expected = applied(TABLE[event], item, asked) if holds(TABLE[event].when, item, asked) else None
        if expected is None:
            with pytest.raises(Refused) as refused:
                dynamo.update(client, "main", KEY, TABLE[event], asked)
            assert refused.value.item == item
        else:
            item = dynamo.update(client, "main", KEY, TABLE[event], asked)
            assert item == expected


def test_a_refused_transaction_names_the_action_and_brings_what_was_there(client: Any) -> None:
    """Design §4: the loser learns the winner in the same round trip."""
    first = {"PK": "lock", "SK": "LOCK", "extractionId": "a"}
    dynamo.transact(client, [dynamo.put_action("main", first, Absent("PK"))], dynamo.token("a"))
    other = [
        dynamo.put_action("main", {"PK": "other", "SK": "LOCK"}),
        dynamo.put_action("main", {**first, "extractionId": "b"}, Absent("PK")),
    ]
    with pytest.raises(Refused) as refused:
        dynamo.transact(client, other, dynamo.token("b"))
    assert refused.value.action == 1
    assert refused.value.item == first
    assert "Item" not in client.get_item(TableName="main", Key=dynamo.marshal({"PK": "other", "SK": "LOCK"}))


def test_values_come_back_as_they_went() -> None:
    """Integers stay integers, at any depth."""
    item = {"a": 1, "b": {"c": [True, None, "x", -(2**60)]}}
    assert dynamo.unmarshal(dynamo.marshal(item)) == item


def test_a_token_depends_on_every_part_and_its_place() -> None:
    """Two steps of one extraction never share a token."""
    assert dynamo.token("a", "bc") != dynamo.token("ab", "c")
    assert len(dynamo.token("a")) == 36
