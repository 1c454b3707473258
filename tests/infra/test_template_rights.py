"""The roles: each may do exactly what is listed here."""

import re
from collections.abc import Mapping

import pytest

from fetcher.aws.secrets import Reference, reference_problem
from tests.template import FUNCTIONS, Deployment, deployed, statements

LOG_ACTIONS = {"logs:CreateLogStream", "logs:PutLogEvents"}
CONNECTION_SECRETS = (
    "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:fetcher/connections/*"
)
WRITE = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
CONSUME = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
CLEAN_UP = {
    "${MainTable.Arn}": {*WRITE, "dynamodb:GetItem", "dynamodb:Query"},
    "${Bucket.Arn}": {"s3:ListBucket"},
    "${Bucket.Arn}/results/*": {"s3:AbortMultipartUpload", "s3:DeleteObject"},
    "${Bucket.Arn}/manifests/*": {"s3:DeleteObject"},
}
RIGHTS: Mapping[str, Mapping[str, set[str]]] = {
    "SubmitRole": {
        "${SubmitLogGroup.Arn}": LOG_ACTIONS,
        "${MainTable.Arn}": {*WRITE, "dynamodb:GetItem", "dynamodb:Query", "dynamodb:DescribeTable"},
        "${MainTable.Arn}/index/GSI1": {"dynamodb:Query"},
        "${ConnectionsTable.Arn}": {*WRITE, "dynamodb:GetItem", "dynamodb:DescribeTable"},
        "${ConnectionsTable.Arn}/index/GSI1": {"dynamodb:Query"},
        "${WorkQueue.Arn}": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        "${NotificationsQueue.Arn}": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        "${Bucket.Arn}": {"s3:ListBucket"},
        "${Bucket.Arn}/requests/*": {"s3:GetObject", "s3:PutObject"},
        "${Bucket.Arn}/results/*": {"s3:GetObject", "s3:DeleteObject", "s3:AbortMultipartUpload"},
        "${Bucket.Arn}/manifests/*": {"s3:GetObject", "s3:DeleteObject"},
        "${Key.Arn}": {"kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"},
        CONNECTION_SECRETS: {"secretsmanager:GetSecretValue"},
    },
    "SweeperRole": {
        **CLEAN_UP,
        "${SweeperLogGroup.Arn}": LOG_ACTIONS,
        "${MainTable.Arn}/index/GSI2": {"dynamodb:Query"},
        "${WorkQueue.Arn}": {"sqs:SendMessage"},
        "${NotificationsQueue.Arn}": {"sqs:SendMessage"},
    },
    "ExtractRole": {
        "${ExtractLogGroup.Arn}": LOG_ACTIONS,
        "${MainTable.Arn}": {*WRITE, "dynamodb:GetItem", "dynamodb:Query"},
        "${ConnectionsTable.Arn}": {"dynamodb:GetItem"},
        "${WorkQueue.Arn}": {*CONSUME, "sqs:ChangeMessageVisibility", "sqs:SendMessage"},
        "${NotificationsQueue.Arn}": {"sqs:SendMessage"},
        "${Bucket.Arn}": {"s3:ListBucket"},
        "${Bucket.Arn}/requests/*": {"s3:GetObject"},
        "${Bucket.Arn}/results/*": {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"},
        "${Bucket.Arn}/manifests/*": {"s3:PutObject", "s3:DeleteObject"},
        "${Key.Arn}": {"kms:Decrypt", "kms:GenerateDataKey"},
        "${MasterSecret.Id}": {"secretsmanager:GetSecretValue"},
        CONNECTION_SECRETS: {"secretsmanager:GetSecretValue"},
    },
    "DeadLetterRole": {
        **CLEAN_UP,
        "${DeadLetterLogGroup.Arn}": LOG_ACTIONS,
        "${WorkDeadQueue.Arn}": CONSUME,
        "${NotificationsQueue.Arn}": {"sqs:SendMessage"},
    },
    "NotifyRole": {
        "${NotifyLogGroup.Arn}": LOG_ACTIONS,
        "${MainTable.Arn}": {"dynamodb:GetItem", "dynamodb:UpdateItem"},
        "${NotificationsQueue.Arn}": CONSUME,
        "${Bus.Arn}": {"events:PutEvents"},
    },
}


@pytest.mark.parametrize("role", RIGHTS)
@pytest.mark.parametrize("stage", ["local", "prod"])
def test_a_role_may_do_exactly_this(role: str, stage: str) -> None:
    rights: dict[str, set[str]] = {}
    for statement in statements(deployed(Stage=stage).properties(role)):
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            rights.setdefault(resource, set()).update(statement["Action"])
    assert rights == RIGHTS[role]


def test_every_role_is_listed_here_and_none_has_a_managed_policy(aws: Deployment) -> None:
    roles = aws.of_type("AWS::IAM::Role")
    assert set(roles) == set(RIGHTS)
    for role in roles.values():
        assert "ManagedPolicyArns" not in role
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}


@pytest.mark.parametrize("role", RIGHTS)
def test_no_right_is_a_pattern_of_actions_or_on_everything(role: str) -> None:
    inside = deployed(VpcSubnetIds="subnet-0a", VpcSecurityGroupIds="sg-0c")
    for statement in statements(inside.properties(role)):
        if statement["Effect"] == "Deny":
            continue
        assert [action for action in statement["Action"] if "*" in action] == []
        if "*" in statement["Resource"]:
            assert statement["Sid"] == "Interfaces", "EC2 alone has no resource-level rights here"


@pytest.mark.parametrize("role", RIGHTS)
def test_network_interfaces_are_lambdas_business_and_only_inside_a_vpc(role: str) -> None:
    inside = deployed(VpcSubnetIds="subnet-0a", VpcSecurityGroupIds="sg-0c")
    network = [s for s in statements(inside.properties(role)) if s["Action"][0].startswith("ec2:")]
    if role not in {"SubmitRole", "ExtractRole"}:
        assert network == []
        return
    allow, deny = network
    assert (allow["Effect"], deny["Effect"]) == ("Allow", "Deny")
    assert list(deny["Condition"]["ArnLike"]) == ["lambda:SourceFunctionArn"]


SECRET = "fetcher/datasources/prod"


def test_the_operators_secret_is_read_by_submit_and_extract_alone_and_only_when_there_is_one(aws: Deployment) -> None:
    """Reference 2.7 on a deployed stack: the parameter is a name, so no password is in a variable or an output."""
    given = deployed(InternalDatasourcesSecretId=SECRET)
    arn = "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:" + SECRET + "-??????"
    found = {
        role: statement
        for role in RIGHTS
        for statement in statements(given.properties(role))
        if statement["Sid"] == "InternalDatasources"
    }
    assert found.keys() == {"SubmitRole", "ExtractRole"}
    for statement in found.values():
        assert (statement["Action"], statement["Resource"]) == (["secretsmanager:GetSecretValue"], [arn])
    assert not [s for role in RIGHTS for s in statements(aws.properties(role)) if s["Sid"] == "InternalDatasources"]
    for name in FUNCTIONS:
        told = given.properties(name)["Environment"]["Variables"].get("FETCHER_DATASOURCES_SECRET_ID")
        assert told == (SECRET if name in {"SubmitFunction", "ExtractFunction"} else None)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("", True),
        (SECRET, True),
        ("fetcher/datasources/", False),
        ("fetcher/connections/default/x", False),
        ("fetcher/datasources/*", False),
        ("fetcher/datasources/x?", False),
        ('{"DATASOURCE_1_PASSWORD":"x"}', False),
        (f"arn:aws:secretsmanager:eu-west-1:123456789012:secret:{SECRET}-a1B2c3", False),
    ],
)
def test_the_operators_secret_lies_where_no_connection_may_refer_to(aws: Deployment, name: str, fits: bool) -> None:
    """A tenant that could name it would have the operator's passwords sent to its own host."""
    pattern = aws.template["Parameters"]["InternalDatasourcesSecretId"]["AllowedPattern"]
    assert (re.fullmatch(pattern, name) is not None) is fits
    assert reference_problem("default", Reference(SECRET, "DATASOURCE_1_PASSWORD")) is not None


def test_the_key_is_used_through_a_service_or_for_one_connection(aws: Deployment) -> None:
    uses = {
        (role, statement["Sid"]): statement.get("Condition")
        for role in RIGHTS
        for statement in statements(aws.properties(role))
        if {"kms:Decrypt", "kms:GenerateDataKey"} & set(statement["Action"])
    }
    through = {"kms:ViaService": "s3.${AWS::Region}.amazonaws.com"}
    secrets = {"kms:ViaService": "secretsmanager.${AWS::Region}.amazonaws.com"}
    context = {"Null": {"kms:EncryptionContext:tenant": "false", "kms:EncryptionContext:connectionId": "false"}}
    assert uses == {
        ("SubmitRole", "ObjectsAtRest"): {"StringEquals": through},
        ("SubmitRole", "Credentials"): context,
        ("ExtractRole", "ObjectsAtRest"): {"StringEquals": through},
        ("ExtractRole", "Credentials"): context,
        ("SubmitRole", "SecretsAtRest"): {"StringEquals": secrets},
        ("ExtractRole", "SecretsAtRest"): {"StringEquals": secrets},
    }


def test_only_who_erases_lists_names_of_results_and_who_asks_for_an_object_learns_that_it_is_gone(
    aws: Deployment,
) -> None:
    found = {
        role: statement["Condition"]
        for role in RIGHTS
        for statement in statements(aws.properties(role))
        if "s3:ListBucket" in statement["Action"]
    }
    listed = {"s3:prefix": "manifests/*"}
    assert found == {
        "SubmitRole": {"StringLikeIfExists": {"s3:prefix": ["manifests/*", "results/*"]}},
        "ExtractRole": {"StringLikeIfExists": listed},
        "SweeperRole": {"StringLike": listed},
        "DeadLetterRole": {"StringLike": listed},
    }
