"""Parameters, outputs, and what `samconfig.toml` makes of them."""

import json
import re
import tomllib

import pytest

from tests.template import ROOT, Deployment, deployed, translated

# The endpoint of a laptop refuses these, also as part of a stack it could otherwise make.
UNKNOWN_LOCALLY = {"AWS::Events::Archive", "AWS::S3::BucketPolicy"}


def test_what_others_rely_on_keeps_its_name(local: Deployment) -> None:
    ids = """Api SubmitFunction SweeperFunction ExtractFunction DeadLetterFunction NotifyFunction WorkQueue
        WorkDeadQueue NotificationsQueue NotificationsDeadQueue MainTable ConnectionsTable Bucket Bus Key
        MasterSecret EventsQueue"""
    outputs = """ApiUrl BucketName MainTableName ConnectionsTableName BusName WorkQueueUrl WorkDeadQueueUrl
        NotificationsQueueUrl NotificationsDeadQueueUrl EventsQueueUrl MasterSecretArn KeyArn AlarmTopicArn"""
    assert set(ids.split()) <= set(local.resources)
    assert set(translated()["Outputs"]) == set(outputs.split())


def test_a_secret_is_named_by_its_id_since_a_local_ref_gives_its_name() -> None:
    assert '{"Ref": "MasterSecret"}' not in json.dumps(translated())


def test_every_parameter_is_described_grouped_and_has_a_default() -> None:
    parameters = translated()["Parameters"]
    groups = translated()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(parameters)
    for name, parameter in parameters.items():
        assert parameter["Description"].endswith("."), name
        assert "Default" in parameter, name
        constrained = {"AllowedValues", "AllowedPattern", "MinValue"} & set(parameter)
        assert constrained, name


@pytest.mark.parametrize("environment", ["default", "local", "dev", "prod"])
def test_samconfig_deploys_each_environment_without_breaking_a_rule(environment: str) -> None:
    text = (ROOT / "samconfig.toml").read_text()
    chosen = tomllib.loads(text)[environment]
    deploy = chosen["deploy"]["parameters"]
    assert chosen["validate"]["parameters"]["lint"] is True
    assert deploy["capabilities"] == "CAPABILITY_IAM"
    assert deploy["resolve_s3"] is True
    assert deploy["fail_on_empty_changeset"] is False
    assert deploy["confirm_changeset"] is (environment == "prod")
    given = dict(pair.split("=", 1) for pair in deploy["parameter_overrides"])
    assert given["Stage"] == {"default": "dev"}.get(environment, environment)
    assert set(given) <= set(translated()["Parameters"])
    assert deployed(**given).broken_rules() == set()
    assert re.search(r"\d{12}", text) is None


def test_a_laptop_gets_nothing_that_its_endpoint_refuses(local: Deployment) -> None:
    assert {resource["Type"] for resource in local.resources.values()} & UNKNOWN_LOCALLY == set()
    assert [name for name, alarm in local.of_type("AWS::CloudWatch::Alarm").items() if "Metrics" in alarm] == []
    denies = [
        statement
        for policy in local.of_type("AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]
    assert denies == []
