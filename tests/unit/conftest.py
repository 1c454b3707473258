"""What unit tests share: a clock and a table of DynamoDB in memory, and the server that the command line talks to."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.commandline import Server

START = 1_800_000_000_000


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> Iterator[Any]:
    """A client whose table `main` has the keys and the indexes of the template's."""
    with mock_aws():
        made: Any = boto3.client("dynamodb", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        names = ("PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK")
        attributes = [{"AttributeName": name, "AttributeType": "S"} for name in names]
        made.create_table(
            TableName="main",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[*attributes, {"AttributeName": "lookAt", "AttributeType": "N"}],
            KeySchema=_keys("PK", "SK"),
            GlobalSecondaryIndexes=[
                {"IndexName": "GSI1", "KeySchema": _keys("GSI1PK", "GSI1SK"), "Projection": {"ProjectionType": "ALL"}},
                {
                    "IndexName": "GSI2",
                    "KeySchema": _keys("GSI2PK", "lookAt"),
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                },
            ],
        )
        yield made


def _keys(partition: str, sort: str) -> Any:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of whoever runs the tests, and a folder of one's own."""
    for name in [name for name in os.environ if name.startswith(("FETCHER_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)
