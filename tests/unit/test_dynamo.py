"""What the model proves is what DynamoDB is asked: the same histories, in memory and in a table."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from moto import mock_aws

from fetcher.aws import dynamo
from fetcher.aws.dynamo import Refused
from fetcher.core.lifecycle import TABLE, Event
from fetcher.core.rules import Absent, Put, Rule, applied, holds
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
        asked = values(now, worker, item, old=old_message)
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


class Contended:
    """A table whose item is in the transactions of others so many times: moto knows no such conflict."""

    def __init__(self, client: Any, times: int) -> None:
        self._client = client
        self._left = times

    def update_item(self, **write: Any) -> Any:
        if self._left:
            self._left -= 1
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, "UpdateItem")
        return self._client.update_item(**write)


@pytest.mark.parametrize(("times", "written"), [(1, True), (5, True), (6, False)])
def test_a_conflict_is_no_lost_race(client: Any, times: int, written: bool) -> None:
    """Design §4: a single write meets others' transactions too; it is repeated with jitter, six times at most."""
    waits: list[float] = []
    key = {"PK": f"contended {times}", "SK": "META"}
    rule = Rule(Absent("PK"), (Put("n", 1),))
    if written:
        assert dynamo.update(Contended(client, times), "main", key, rule, {}, sleep=waits.append)["n"] == 1
        assert len(waits) == times
    else:
        with pytest.raises(ClientError):
            dynamo.update(Contended(client, times), "main", key, rule, {}, sleep=waits.append)


def test_values_come_back_as_they_went() -> None:
    """Integers stay integers, at any depth."""
    item = {"a": 1, "b": {"c": [True, None, "x", -(2**60)]}}
    assert dynamo.unmarshal(dynamo.marshal(item)) == item


def test_a_token_depends_on_every_part_and_its_place() -> None:
    """Two steps of one extraction never share a token."""
    assert dynamo.token("a", "bc") != dynamo.token("ab", "c")
    assert len(dynamo.token("a")) == 36


class Flaky:
    """A client whose first calls of an operation fail, as AWS words it; the rest reach the table."""

    def __init__(self, client: Any, *failures: Any) -> None:
        self._client = client
        self.failures = list(failures)

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            if self.failures:
                raise ClientError(self.failures.pop(0), name)
            return getattr(self._client, name)(**asked)

        return call


CONFLICT: Any = {"Error": {"Code": "TransactionConflictException"}, "ResponseMetadata": {}}
CANCELED: Any = {
    "Error": {"Code": "TransactionCanceledException"},
    "CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict"}],
}


def test_a_write_that_meets_a_transaction_is_no_lost_race(client: Any) -> None:
    """Design §4: repeated with jitter, an update as well as a transaction, and given up after six tries."""
    slept: list[float] = []
    client.put_item(TableName="main", Item=dynamo.marshal({**NEW, "SK": "META"}))
    asked = values(0, "w1", NEW, old=False)
    claimed = dynamo.update(Flaky(client, *[CONFLICT] * 5), "main", KEY, TABLE[Event.CLAIM], asked, sleep=slept.append)
    assert claimed["claimToken"] == "w1"
    put = [dynamo.put_action("main", {"PK": "met", "SK": "X"})]
    dynamo.transact(Flaky(client, *[CANCELED] * 5), put, dynamo.token("met"), slept.append)
    assert dynamo.get(client, "main", {"PK": "met", "SK": "X"}) is not None
    assert len(slept) == 10
    with pytest.raises(ClientError):
        dynamo.update(Flaky(client, *[CONFLICT] * 6), "main", KEY, TABLE[Event.BEAT], asked, sleep=slept.append)


def test_a_refusal_beside_a_conflict_is_a_refusal(client: Any) -> None:
    """A condition that did not hold is final, whatever else the transaction met."""
    reasons = [{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}]
    flaky = Flaky(client, {**CANCELED, "CancellationReasons": reasons})
    with pytest.raises(Refused) as refused:
        dynamo.transact(flaky, [], dynamo.token("beside"), lambda _: None)
    assert refused.value.action == 1


@pytest.mark.parametrize(("tries", "mine"), [(0, False), (1, True)])
def test_only_a_repeated_write_may_find_that_it_was_done_before(tries: int, mine: bool) -> None:
    """R-AWS-10: another sweep of the same instant is no earlier try of this one."""
    answer: Any = {
        "Error": {"Code": "ConditionalCheckFailedException"},
        "Item": dynamo.marshal({"lookAt": 7}),
        "ResponseMetadata": {"RetryAttempts": tries},
    }
    with pytest.raises(Refused) as refused:
        dynamo.update(Flaky(None, answer), "main", KEY, TABLE[Event.SWEEP], {"seen": 1, "lookAt": 7})
    assert refused.value.done_before(lookAt=7) == mine
    assert not refused.value.done_before(lookAt=8)
