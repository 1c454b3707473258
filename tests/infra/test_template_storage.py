"""Tables, bucket and keys: what is kept, how long, and who can read it."""

import json

import pytest

from fetcher.aws.records import REQUEST_KEEP_SECONDS
from fetcher.core.lifecycle import KEEP_SECONDS
from tests.template import Deployment, plain_http_is_denied


@pytest.mark.parametrize("table", ["MainTable", "ConnectionsTable"])
def test_a_table_can_be_restored_expires_and_is_encrypted(aws: Deployment, table: str) -> None:
    """B-68: what has an end is removed."""
    properties = aws.properties(table)
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert properties["SSESpecification"] == {"SSEEnabled": True}
    assert properties["KeySchema"] == keys("PK", "SK")
    assert properties["GlobalSecondaryIndexes"][0]["KeySchema"] == keys("GSI1PK", "GSI1SK")


def test_a_request_is_kept_as_long_as_its_record_may_need_it(aws: Deployment) -> None:
    """B-68: the record lives on from the job's end, which the longest wait puts off; without its request it is 503."""
    parameters = aws.template["Parameters"]
    longest_wait = parameters["MaxQueuedHours"]["MaxValue"] * 3_600
    a_day = 86_400
    assert KEEP_SECONDS + longest_wait + a_day <= REQUEST_KEEP_SECONDS
    assert parameters["RequestRetentionDays"]["MinValue"] * a_day >= KEEP_SECONDS + longest_wait + a_day


def keys(partition: str, order: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": order, "KeyType": "RANGE"}]


def test_lists_read_an_index_with_summaries_and_the_sweeper_one_with_keys(aws: Deployment) -> None:
    lists, due = aws.properties("MainTable")["GlobalSecondaryIndexes"]
    shown = lists["Projection"]["NonKeyAttributes"]
    assert {"extractionId", "status", "source", "createdAt", "startedAt", "completedAt"} <= set(shown)
    assert {"progress", "checkpoint", "claimToken", "leaseUntil"} & set(shown) == set()
    assert len(shown) <= 20
    assert (due["IndexName"], due["KeySchema"]) == ("GSI2", keys("GSI2PK", "lookAt"))
    assert due["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    types = {a["AttributeName"]: a["AttributeType"] for a in aws.properties("MainTable")["AttributeDefinitions"]}
    assert types == {"PK": "S", "SK": "S", "GSI1PK": "S", "GSI1SK": "S", "GSI2PK": "S", "lookAt": "N"}


def test_the_index_of_connections_holds_no_secret(aws: Deployment) -> None:
    [lists] = aws.properties("ConnectionsTable")["GlobalSecondaryIndexes"]
    shown = lists["Projection"]["NonKeyAttributes"]
    assert lists["Projection"]["ProjectionType"] == "INCLUDE"
    assert len(shown) <= 20
    assert [name for name in shown if "secret" in name.lower() or "password" in name.lower()] == []


def test_deleting_the_stack_keeps_the_data_and_what_is_needed_to_read_it(aws: Deployment) -> None:
    kept = {name for name, resource in aws.resources.items() if resource.get("DeletionPolicy") == "Retain"}
    assert kept == {"MainTable", "ConnectionsTable", "Bucket", "BucketPolicy", "Key", "MasterSecret"}
    assert {aws.resources[name]["UpdateReplacePolicy"] for name in kept} == {"Retain"}


def test_the_bucket_is_private_encrypted_with_our_key_and_takes_tls_only(aws: Deployment) -> None:
    bucket = aws.properties("Bucket")
    block = bucket["PublicAccessBlockConfiguration"]
    assert set(block) == {"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"}
    assert set(block.values()) == {True}
    [encryption] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["BucketKeyEnabled"] is True
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "${Key.Arn}"}
    assert "VersioningConfiguration" not in bucket
    policy = aws.properties("BucketPolicy")
    assert policy["Bucket"] == "${Bucket}"
    assert plain_http_is_denied(policy["PolicyDocument"])
    assert policy["PolicyDocument"]["Statement"][0]["Resource"] == ["${Bucket.Arn}", "${Bucket.Arn}/*"]


def test_objects_expire_by_prefix_and_open_uploads_after_a_day(aws: Deployment) -> None:
    rules = aws.properties("Bucket")["LifecycleConfiguration"]["Rules"]
    assert all(rule["Status"] == "Enabled" for rule in rules)
    [abort] = [rule for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert abort["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert "Prefix" not in abort
    days = {rule["Prefix"]: int(rule["ExpirationInDays"]) for rule in rules if rule is not abort}
    assert days == {"requests/": 120, "results/": 30, "manifests/": 400, "bindings/": 1}


def test_the_key_rotates_and_leaves_the_decision_to_iam(aws: Deployment) -> None:
    key = aws.properties("Key")
    assert key["EnableKeyRotation"] is True
    account, alarms = key["KeyPolicy"]["Statement"]
    assert account["Principal"] == {"AWS": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}
    assert alarms["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert alarms["Condition"] == {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}


def test_the_master_secret_is_generated_as_64_letters_and_digits(aws: Deployment) -> None:
    secret = aws.properties("MasterSecret")
    generate = secret["GenerateSecretString"]
    assert secret["KmsKeyId"] == "${Key.Arn}"
    assert json.loads(generate["SecretStringTemplate"]) == {"current": generate["GenerateStringKey"]}
    assert generate["PasswordLength"] == 64
    assert generate["IncludeSpace"] is False
    assert set(generate["ExcludeCharacters"]) == {chr(c) for c in range(33, 127) if not chr(c).isalnum()}
