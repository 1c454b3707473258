"""What is deployed, asserted on the template as SAM translates it and as one choice of parameters resolves it.

References stay visible as `${Id}`, attributes as `${Id.Name}`, so a right can be compared with what it is meant for.
"""

import ast
import inspect
import json
import logging
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

from fetcher import settings as settings_module
from fetcher.aws.records import OUTBOX_CAP_MS
from fetcher.aws.secrets import Reference, reference_problem
from fetcher.settings import load

ROOT = Path(__file__).parents[2]
NOTHING = object()
CHOICES = {"Condition", "Fn::If", "Fn::Not", "Fn::EachMemberEquals", "Fn::Equals"}

FUNCTIONS = {
    "SubmitFunction": "submit.app.handler",
    "SweeperFunction": "submit.sweeper.handler",
    "ExtractFunction": "extract.app.handler",
    "DeadLetterFunction": "extract.dead_letter.handler",
    "NotifyFunction": "notify.app.handler",
}
COMMON = {"FETCHER_STAGE", "FETCHER_MAIN_TABLE"}
POWERTOOLS = {"POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_LOG_LEVEL"}
READ_BY_OTHERS = POWERTOOLS | {"MALLOC_ARENA_MAX"}
ENVIRONMENT = {
    "SubmitFunction": {
        "FETCHER_CONNECTIONS_TABLE",
        "FETCHER_BUCKET",
        "FETCHER_WORK_QUEUE_URL",
        "FETCHER_NOTIFICATIONS_QUEUE_URL",
        "FETCHER_KEY_ID",
        "FETCHER_ALLOWED_NETWORKS",
        "FETCHER_DATASOURCES_SECRET_ID",
        "FETCHER_AUTHORIZER",
        "FETCHER_TENANT_CLAIM",
        "FETCHER_PRODUCTS_CLAIM",
        "FETCHER_DUPLICATE_WINDOW_SECONDS",
        "FETCHER_DISPATCH_SECONDS",
    },
    "SweeperFunction": {
        "FETCHER_BUCKET",
        "FETCHER_WORK_QUEUE_URL",
        "FETCHER_NOTIFICATIONS_QUEUE_URL",
        "FETCHER_MAX_QUEUED_HOURS",
    },
    "ExtractFunction": {
        "FETCHER_CONNECTIONS_TABLE",
        "FETCHER_BUCKET",
        "FETCHER_WORK_QUEUE_URL",
        "FETCHER_NOTIFICATIONS_QUEUE_URL",
        "FETCHER_KEY_ID",
        "FETCHER_MASTER_SECRET_ID",
        "FETCHER_ALLOWED_NETWORKS",
        "FETCHER_DATASOURCES_SECRET_ID",
        "ENGINE_MAX_RESULT_BYTES",
        "FETCHER_EXTRACTION_SECONDS",
        "FETCHER_LEASE_SECONDS",
        "FETCHER_HEARTBEAT_SECONDS",
        "FETCHER_STALL_SECONDS",
        "FETCHER_MAX_QUEUED_HOURS",
        "MALLOC_ARENA_MAX",
    },
    "DeadLetterFunction": {"FETCHER_BUCKET", "FETCHER_NOTIFICATIONS_QUEUE_URL"},
    "NotifyFunction": {"FETCHER_BUS"},
}

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

OF_SERVICE = {
    "submit": {"JobsCreated", "JobsDuplicate", "JobsRetried"},
    "sweeper": {"OutboxAgeSeconds", "Swept"},
    "extract": {
        "JobsCompleted",
        "RowsRead",
        "BytesWritten",
        "QueueSeconds",
        "ExtractionSeconds",
        "Attempts",
        "Retries",
        "Resumed",
        "Waits",
    },
    "notify": {"EventsPublished"},
}
SEARCHED = {"JobsFailed": "{Fetcher,family,service}", "ColdStart": "{Fetcher,function_name,service}"}
FAILING = {"submit", "sweeper", "extract", "dead-letter"}
FAMILIES = {"invalid", "refused", "unavailable", "limit", "timeout", "internal"}

# The endpoint of a laptop refuses these, also as part of a stack it could otherwise make.
UNKNOWN_LOCALLY = {"AWS::Events::Archive", "AWS::S3::BucketPolicy"}


class Deployment:
    """The template with its parameters, conditions and rules worked out."""

    def __init__(self, template: Mapping[str, Any], **given: str) -> None:
        self.template = template
        self.values = {name: str(p.get("Default", "")) for name, p in template["Parameters"].items()} | given
        self.resources: dict[str, Any] = {
            name: self.resolve({key: value for key, value in resource.items() if key != "Metadata"})
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def holds(self, condition: str) -> bool:
        return bool(self.resolve(self.template["Conditions"][condition]))

    def broken_rules(self) -> set[str]:
        return {
            name
            for name, rule in self.template["Rules"].items()
            if self.resolve(rule["RuleCondition"])
            and not all(self.resolve(assertion["Assert"]) for assertion in rule["Assertions"])
        }

    def resolve(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            [(name, argument)] = node.items()
            if name in {"Ref", "Condition"} or name.startswith("Fn::"):
                return self._choice(name, argument) if name in CHOICES else self._text(name, argument)
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not NOTHING}

    def _choice(self, function: str, argument: Any) -> Any:
        match function:
            case "Condition":
                return self.holds(argument)
            case "Fn::If":
                return self.resolve(argument[1] if self.holds(argument[0]) else argument[2])
            case "Fn::Not":
                return not self.resolve(argument[0])
            case "Fn::EachMemberEquals":
                return all(member == argument[1] for member in self.resolve(argument[0]))
            case _:
                left, right = map(self.resolve, argument)
                return left == right

    def _text(self, function: str, argument: Any) -> Any:
        match function:
            case "Ref":
                return self._ref(argument)
            case "Fn::GetAtt":
                return "${" + (argument if isinstance(argument, str) else ".".join(argument)) + "}"
            case "Fn::Sub":
                return re.sub(r"\$\{(\w+)\}", lambda found: str(self.values.get(found[1], found[0])), argument)
            case "Fn::Join":
                return argument[0].join(self.resolve(argument[1]))
            case "Fn::Split":
                return self.resolve(argument[1]).split(argument[0])
            case _:
                raise AssertionError(f"the template uses {function}, which this test cannot work out")

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOTHING
        if name not in self.values:
            return "${" + name + "}"
        if self.template["Parameters"][name]["Type"] == "CommaDelimitedList":
            return self.values[name].split(",")
        return self.values[name]

    def properties(self, name: str) -> dict[str, Any]:
        properties: dict[str, Any] = self.resources[name]["Properties"]
        return properties

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: r.get("Properties", {}) for name, r in self.resources.items() if r["Type"] == kind}


@cache
def translated() -> dict[str, Any]:
    """Let SAM itself translate the template, as if `sam package` had uploaded code and layer."""
    source = yaml_parse((ROOT / "template.yaml").read_text())
    source["Globals"]["Function"]["CodeUri"] = "s3://bucket/functions.zip"
    source["Resources"]["EngineLayer"]["Properties"]["ContentUri"] = "s3://bucket/layer.zip"
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        template: dict[str, Any] = Translator({}, Parser()).translate(source, {})
    return template


def deployed(**given: str) -> Deployment:
    return Deployment(translated(), **given)


@pytest.fixture(scope="module")
def aws() -> Deployment:
    return deployed(Stage="prod", Authorizer="iam")


@pytest.fixture(scope="module")
def local() -> Deployment:
    return deployed(Stage="local", Authorizer="none")


def statements(role: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            yield {**statement, **{key: as_list(statement[key]) for key in ("Action", "Resource")}}


def as_list(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


# --- functions


def test_there_are_five_functions_and_each_has_its_handler(aws: Deployment) -> None:
    functions = aws.of_type("AWS::Lambda::Function")
    assert {name: function["Handler"] for name, function in functions.items()} == FUNCTIONS
    layers = {layer for function in functions.values() for layer in function["Layers"]}
    assert len(layers) == 1
    for function in functions.values():
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["x86_64"]


def test_every_function_has_a_role_and_a_log_group_with_retention_of_its_own(aws: Deployment) -> None:
    groups = aws.of_type("AWS::Logs::LogGroup")
    assert all(group["RetentionInDays"] == "30" for group in groups.values())
    for name in FUNCTIONS:
        own = name.removesuffix("Function")
        function = aws.properties(name)
        assert function["Role"] == f"${{{own}Role.Arn}}"
        assert function["LoggingConfig"]["LogGroup"] == f"${{{own}LogGroup}}"
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert f"{own}LogGroup" in groups


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_told_what_it_needs_and_no_more(aws: Deployment, name: str) -> None:
    variables = aws.properties(name)["Environment"]["Variables"]
    assert set(variables) == COMMON | POWERTOOLS | ENVIRONMENT[name]
    read = inspect.getsource(settings_module)
    assert [variable for variable in set(variables) - READ_BY_OTHERS if f'"{variable}"' not in read] == []


def test_the_defaults_of_the_template_are_the_defaults_of_the_code(aws: Deployment) -> None:
    variables = {k: v for name in FUNCTIONS for k, v in aws.properties(name)["Environment"]["Variables"].items()}
    plain = ("SECONDS", "HOURS", "BYTES", "CLAIM", "NETWORKS", "AUTHORIZER")
    assert load({k: v for k, v in variables.items() if k.endswith(plain)}) == load({})


def test_metrics_of_two_stacks_in_one_account_stay_apart(aws: Deployment) -> None:
    services = {aws.properties(n)["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for n in FUNCTIONS}
    assert services == {
        f"${{AWS::StackName}}-{service}" for service in ("submit", "sweeper", "extract", "dead-letter", "notify")
    }


def test_extract_has_a_quarter_of_an_hour_and_room_for_the_spool(aws: Deployment) -> None:
    extract = aws.properties("ExtractFunction")
    assert extract["Timeout"] == 900
    assert extract["MemorySize"] == "512"
    bound = int(extract["Environment"]["Variables"]["ENGINE_MAX_RESULT_BYTES"])
    assert int(extract["EphemeralStorage"]["Size"]) >= bound // 2**20 + 256


def test_submit_answers_before_the_gateway_gives_up(aws: Deployment) -> None:
    """R-AWS-9."""
    assert aws.properties("SubmitFunction")["Timeout"] == 29
    assert aws.properties("ApiIntegration")["TimeoutInMillis"] == 30000


def test_the_sweeper_runs_every_minute(aws: Deployment) -> None:
    [rule] = [rule for rule in aws.of_type("AWS::Events::Rule").values() if "ScheduleExpression" in rule]
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["Targets"][0]["Arn"] == "${SweeperFunction.Arn}"


@pytest.mark.parametrize(
    ("name", "queue", "batch"),
    [
        ("ExtractFunction", "WorkQueue", 1),
        ("DeadLetterFunction", "WorkDeadQueue", 10),
        ("NotifyFunction", "NotificationsQueue", 10),
    ],
)
def test_queues_are_read_with_partial_failures(aws: Deployment, name: str, queue: str, batch: int) -> None:
    mappings = aws.of_type("AWS::Lambda::EventSourceMapping").values()
    [mapping] = [mapping for mapping in mappings if mapping["FunctionName"] == f"${{{name}}}"]
    assert mapping["EventSourceArn"] == f"${{{queue}.Arn}}"
    assert mapping["BatchSize"] == batch
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_extractions_at_once_are_a_parameter() -> None:
    mapping = deployed(ExtractConcurrency="7").properties("ExtractFunctionWork")
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": "7"}
    assert deployed(Stage="local").properties("ExtractFunctionWork")["ScalingConfig"] == {"MaximumConcurrency": 10}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_what_talks_to_databases_enters_the_vpc(aws: Deployment, name: str) -> None:
    inside = deployed(VpcSubnetIds="subnet-0a,subnet-0b", VpcSecurityGroupIds="sg-0c")
    assert "VpcConfig" not in aws.properties(name)
    enters = name in {"SubmitFunction", "ExtractFunction"}
    expected = {"SubnetIds": ["subnet-0a", "subnet-0b"], "SecurityGroupIds": ["sg-0c"]} if enters else None
    assert inside.properties(name).get("VpcConfig") == expected


# --- API


@pytest.mark.parametrize(("authorizer", "kind"), [("none", "NONE"), ("iam", "AWS_IAM"), ("jwt", "JWT")])
def test_all_but_four_public_reads_is_behind_the_authorizer(authorizer: str, kind: str) -> None:
    """B-28: nobody gets past the gateway without what it verified."""
    api = deployed(Stage="local", Authorizer=authorizer, JwtIssuer="https://issuer.example", JwtAudience="a,b")
    routes = {r["RouteKey"]: r for r in api.of_type("AWS::ApiGatewayV2::Route").values()}
    public = {"GET /health", "GET /readyz", "GET /version", "GET /openapi.json"}
    assert set(routes) == {"ANY /v1/{proxy+}", "$default"} | public
    assert {key for key, route in routes.items() if route["AuthorizationType"] != kind} == (
        set() if kind == "NONE" else public
    )
    assert {"AuthorizerId" in routes[key] for key in set(routes) - public} == {kind == "JWT"}
    assert {route["Target"] for route in routes.values()} == {"integrations/${ApiIntegration}"}


def test_a_token_is_checked_against_issuer_and_audiences() -> None:
    """B-28: by the gateway, before any code of ours runs."""
    api = deployed(Authorizer="jwt", JwtIssuer="https://issuer.example", JwtAudience="a,b")
    [authorizer] = api.of_type("AWS::ApiGatewayV2::Authorizer").values()
    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["JwtConfiguration"] == {"Issuer": "https://issuer.example", "Audience": ["a", "b"]}
    assert deployed(Authorizer="iam").of_type("AWS::ApiGatewayV2::Authorizer") == {}


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ({"Stage": "local", "Authorizer": "none"}, set()),
        ({"Stage": "local", "Authorizer": "iam"}, set()),
        ({"Stage": "dev", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Stage": "staging", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Stage": "prod", "Authorizer": "none"}, {"NoAuthorizerOnlyOnALaptop"}),
        ({"Authorizer": "jwt"}, {"TokensNeedAnIssuerAndAnAudience"}),
        ({"Authorizer": "jwt", "JwtIssuer": "https://i.example"}, {"TokensNeedAnIssuerAndAnAudience"}),
        ({"Authorizer": "jwt", "JwtIssuer": "https://i.example", "JwtAudience": "a"}, set()),
        ({"VpcSubnetIds": "subnet-0a"}, {"SubnetsNeedSecurityGroups"}),
        ({"VpcSubnetIds": "subnet-0a", "VpcSecurityGroupIds": "sg-0c"}, set()),
        ({}, set()),
    ],
)
def test_rules_refuse_what_would_be_open_or_half_configured(given: dict[str, str], broken: set[str]) -> None:
    assert deployed(**given).broken_rules() == broken


def test_the_api_is_throttled_and_its_access_log_has_the_request_id(aws: Deployment) -> None:
    stage = aws.properties("ApiStage")
    assert stage["StageName"] == "$default"
    assert stage["AutoDeploy"] is True
    assert int(stage["DefaultRouteSettings"]["ThrottlingRateLimit"]) == 100
    assert int(stage["DefaultRouteSettings"]["ThrottlingBurstLimit"]) == 200
    assert "log-group:${ApiLogGroup}" in stage["AccessLogSettings"]["DestinationArn"]
    line = json.loads(stage["AccessLogSettings"]["Format"])
    assert line["requestId"] == "$context.requestId"
    assert line["status"] == "$context.status"


def test_the_gateway_calls_submit_with_payload_2_and_may_do_so(aws: Deployment) -> None:
    integration = aws.properties("ApiIntegration")
    assert integration["IntegrationType"] == "AWS_PROXY"
    assert integration["PayloadFormatVersion"] == "2.0"
    assert integration["IntegrationUri"] == "${SubmitFunction.Arn}"
    permission = aws.properties("ApiPermission")
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"].endswith(":${Api}/*")


# --- queues


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        ("WorkQueue", "ExtractFunction"),
        ("WorkDeadQueue", "DeadLetterFunction"),
        ("NotificationsQueue", "NotifyFunction"),
    ],
)
def test_a_message_stays_hidden_for_six_times_its_handlers_timeout(aws: Deployment, queue: str, name: str) -> None:
    """R-AWS-8."""
    assert aws.properties(queue)["VisibilityTimeout"] >= 6 * aws.properties(name)["Timeout"]


@pytest.mark.parametrize(
    ("queue", "dead"),
    [
        ("WorkQueue", "WorkDeadQueue"),
        ("NotificationsQueue", "NotificationsDeadQueue"),
        ("EventsQueue", "EventsDeadQueue"),
    ],
)
def test_five_receives_end_on_a_dead_letter_queue_of_14_days(aws: Deployment, queue: str, dead: str) -> None:
    """R-000-76, R-AWS-8."""
    redrive = aws.properties(queue)["RedrivePolicy"]
    assert redrive == {"deadLetterTargetArn": f"${{{dead}.Arn}}", "maxReceiveCount": 5}
    assert aws.properties(dead)["MessageRetentionPeriod"] == 14 * 86400
    assert "RedrivePolicy" not in aws.properties(dead)


@pytest.mark.parametrize(
    ("queue", "dead"), [("WorkQueue", "WorkDeadQueue"), ("NotificationsQueue", "NotificationsDeadQueue")]
)
def test_a_dead_letter_queue_takes_from_its_own_queue_only(aws: Deployment, queue: str, dead: str) -> None:
    [source] = aws.properties(dead)["RedriveAllowPolicy"]["sourceQueueArns"]
    assert aws.properties(dead)["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    assert source.rpartition(":")[2] == aws.properties(queue)["QueueName"].rpartition(":")[2]
    assert source.endswith(aws.properties(queue)["QueueName"])
    assert aws.properties(queue)["RedriveAllowPolicy"] == {"redrivePermission": "denyAll"}


def test_queues_are_encrypted_and_take_tls_only(aws: Deployment) -> None:
    queues = aws.of_type("AWS::SQS::Queue")
    assert all(queue["SqsManagedSseEnabled"] is True for queue in queues.values())
    guarded: list[str] = []
    for policy in aws.of_type("AWS::SQS::QueuePolicy").values():
        assert plain_http_is_denied(policy["PolicyDocument"])
        guarded += policy["Queues"]
    assert sorted(guarded) == sorted(f"${{{name}}}" for name in queues)


def plain_http_is_denied(document: Mapping[str, Any]) -> bool:
    return any(
        s["Effect"] == "Deny" and s["Principal"] == "*" and s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for s in document["Statement"]
    )


# --- tables, bucket, keys


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


# --- events


def test_the_sample_rule_takes_both_ends_of_a_job_and_misses_none(aws: Deployment) -> None:
    rule = aws.properties("SampleRule")
    assert rule["EventBusName"] == "${Bus}"
    assert rule["EventPattern"] == {"source": ["fetcher"], "detail-type": ["job.completed", "job.failed"]}
    [target] = rule["Targets"]
    assert target["Arn"] == "${EventsQueue.Arn}"
    assert target["DeadLetterConfig"] == {"Arn": "${EventsDeadQueue.Arn}"}
    allow = aws.properties("EventsQueuesPolicy")["PolicyDocument"]["Statement"][0]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": "${SampleRule.Arn}"}}


def test_events_can_be_replayed(aws: Deployment) -> None:
    archive = aws.properties("Archive")
    assert archive["SourceArn"] == "${Bus.Arn}"
    assert int(archive["RetentionDays"]) == 30


def test_the_sample_can_be_left_out() -> None:
    without = deployed(SampleConsumer="false")
    assert [name for name in without.resources if name.startswith(("Sample", "Events"))] == []


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


# --- roles


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


# --- alarms and dashboard


@pytest.mark.parametrize("queue", ["WorkDeadQueue", "NotificationsDeadQueue", "EventsDeadQueue"])
def test_one_dead_letter_is_an_alarm(aws: Deployment, queue: str) -> None:
    """R-000-76: where a function reads the queue, a letter is gone before a sample could see it waiting."""
    mappings = aws.of_type("AWS::Lambda::EventSourceMapping").values()
    read = any(mapping["EventSourceArn"] == f"${{{queue}.Arn}}" for mapping in mappings)
    metric, statistic = (
        ("NumberOfMessagesReceived", "Sum") if read else ("ApproximateNumberOfMessagesVisible", "Maximum")
    )
    alarm = alarm_on(aws, metric, f"${{{queue}.QueueName}}")
    assert alarm["Statistic"] == statistic
    assert alarm["Threshold"] == 0
    assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
    assert read == (queue == "WorkDeadQueue")


@pytest.mark.parametrize("queue", ["WorkQueue", "WorkDeadQueue", "NotificationsQueue"])
def test_old_messages_are_an_alarm(aws: Deployment, queue: str) -> None:
    assert alarm_on(aws, "ApproximateAgeOfOldestMessage", f"${{{queue}.QueueName}}")["Threshold"] > 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_and_throttles_of_each_function_are_alarms(aws: Deployment, name: str) -> None:
    assert alarm_on(aws, "Errors", f"${{{name}}}")["Threshold"] == 0
    assert alarm_on(aws, "Throttles", f"${{{name}}}")["Threshold"] == 0


def test_an_extract_near_its_timeout_is_an_alarm(aws: Deployment) -> None:
    alarm = alarm_on(aws, "Duration", "${ExtractFunction}")
    assert alarm["ExtendedStatistic"] == "p99"
    assert alarm["Threshold"] == 0.9 * 1000 * aws.properties("ExtractFunction")["Timeout"]


def test_an_event_that_is_not_published_is_an_alarm(aws: Deployment) -> None:
    alarm = alarm_on(aws, "OutboxAgeSeconds", "${AWS::StackName}-sweeper")
    assert alarm["Namespace"] == "Fetcher"
    assert alarm["Statistic"] == "Maximum"


def test_a_sweeper_as_rare_as_it_may_be_is_not_silent_to_its_alarm(aws: Deployment) -> None:
    """R-000-74: and what is rarer than that is no schedule of this template."""
    allowed = re.compile(aws.template["Parameters"]["SweepSchedule"]["AllowedPattern"])
    rates = {minutes: f"rate({minutes} minute{'s' if minutes > 1 else ''})" for minutes in range(121)}
    rarest = max(minutes for minutes, rate in rates.items() if allowed.fullmatch(rate))
    alarm = alarm_on(aws, "Invocations", "${SweeperFunction}")
    assert alarm["Threshold"] == 1
    assert 60 * rarest < alarm["Period"] * alarm["EvaluationPeriods"]
    assert not allowed.fullmatch("rate(0 minutes)")


def test_one_event_that_is_not_published_is_seen_by_its_alarm(aws: Deployment) -> None:
    """Design §4: between two looks at an event up to an hour passes, in which its age is in no datapoint."""
    alarm = alarm_on(aws, "OutboxAgeSeconds", "${AWS::StackName}-sweeper")
    assert alarm["DatapointsToAlarm"] == 1
    between_looks = OUTBOX_CAP_MS / 1000 + 60
    assert between_looks < alarm["Period"] * alarm["EvaluationPeriods"] <= 86_400


def test_many_failed_jobs_are_an_alarm_whatever_failed_them(aws: Deployment) -> None:
    metrics = [m["MetricStat"]["Metric"] for m in aws.properties("FailedJobsAlarm")["Metrics"] if "MetricStat" in m]
    failed = [{d["Name"]: d["Value"] for d in m["Dimensions"]} for m in metrics if m["MetricName"] == "JobsFailed"]
    assert {dimensions["family"] for dimensions in failed} == FAMILIES
    assert {dimensions["service"] for dimensions in failed} == {"${AWS::StackName}-extract"}
    assert len(metrics) <= 10, "CloudWatch's limit for one alarm"


def test_every_alarm_goes_to_the_topic_and_somebody_may_subscribe(aws: Deployment) -> None:
    assert all(alarm["AlarmActions"] == ["${AlarmTopic}"] for alarm in aws.of_type("AWS::CloudWatch::Alarm").values())
    assert aws.of_type("AWS::SNS::Subscription") == {}
    [mail] = deployed(AlarmEmail="ops@example.com").of_type("AWS::SNS::Subscription").values()
    assert mail == {"TopicArn": "${AlarmTopic}", "Protocol": "email", "Endpoint": "ops@example.com"}


def alarm_on(at: Deployment, metric: str, value: str) -> dict[str, Any]:
    [alarm] = [
        alarm
        for alarm in at.of_type("AWS::CloudWatch::Alarm").values()
        if alarm.get("MetricName") == metric and [d["Value"] for d in alarm["Dimensions"]] == [value]
    ]
    return alarm


@pytest.fixture(scope="module")
def widgets(aws: Deployment) -> list[dict[str, Any]]:
    body = aws.properties("Dashboard")["DashboardBody"].replace("${!", "${")
    shown: list[dict[str, Any]] = json.loads(body)["widgets"]
    return shown


def test_the_dashboard_shows_every_metric_that_fetcher_writes(widgets: list[dict[str, Any]]) -> None:
    """B-53."""
    seen: dict[str, set[str]] = {}
    for row in (row for widget in widgets for row in widget["properties"]["metrics"]):
        if row[0] == "Fetcher":
            assert row[2] == "service"
            seen.setdefault(row[3].removeprefix("${AWS::StackName}-"), set()).add(row[1])
    assert seen == OF_SERVICE


CODE = {
    "submit": ("functions/submit",),
    "sweeper": ("functions/submit/sweeper.py",),
    "extract": ("functions/extract",),
    "dead-letter": ("functions/extract/dead_letter.py",),
    "notify": ("functions/notify",),
}
SHARED = "layers/engine/fetcher/aws/telemetry.py"


def emitted(*places: str) -> set[str]:
    """The metrics that code names where it counts, found in its syntax tree."""
    files = [
        file for place in places for file in ([ROOT / place] if place.endswith(".py") else (ROOT / place).glob("*.py"))
    ]
    calls = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    counting = [
        call for call in calls if ast.unparse(call.func).split(".")[-1] in {"count", "add_metric", "single_metric"}
    ]
    named = [next((k.value for k in call.keywords if k.arg == "name"), None) or call.args[0] for call in counting]
    inside = [part for name in named for part in ast.walk(name)]
    return {part.value for part in inside if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_every_metric_that_the_template_names_is_emitted_by_its_service(
    aws: Deployment, widgets: list[dict[str, Any]]
) -> None:
    """An alarm or a widget on a metric that nobody writes would be silent for ever."""
    rows = [row for widget in widgets for row in widget["properties"]["metrics"] if row[0] == "Fetcher"]
    named = {(row[1], row[3]) for row in rows}
    alarms = aws.of_type("AWS::CloudWatch::Alarm").values()
    watched = [
        stat["MetricStat"]["Metric"] for alarm in alarms for stat in alarm.get("Metrics", ()) if "MetricStat" in stat
    ]
    for metric in [*alarms, *watched]:
        if metric.get("Namespace") == "Fetcher":
            named |= {(metric["MetricName"], d["Value"]) for d in metric["Dimensions"] if d["Name"] == "service"}
    assert ("OutboxAgeSeconds", "${AWS::StackName}-sweeper") in named
    for metric, service in named:
        assert metric in emitted(*CODE[service.removeprefix("${AWS::StackName}-")], SHARED), (metric, service)
    assert emitted(*(place for places in CODE.values() for place in places), SHARED) <= (
        {metric for metric, _ in named} | SEARCHED.keys()
    )


def test_metrics_with_a_second_dimension_are_searched(widgets: list[dict[str, Any]]) -> None:
    rows = [row[0] for widget in widgets for row in widget["properties"]["metrics"] if isinstance(row[0], dict)]
    for metric, dimensions in SEARCHED.items():
        [expression] = [row["expression"] for row in rows if f'"{metric}"' in row["expression"]]
        assert dimensions in expression
        assert {f"${{AWS::StackName}}-{service}" for service in FAILING} <= set(re.findall(r'"([^"]+)"', expression))
    assert len(rows) == len(SEARCHED)


def test_the_dashboard_shows_queues_and_functions_of_this_stack(aws: Deployment, widgets: list[dict[str, Any]]) -> None:
    rows = [row for widget in widgets for row in widget["properties"]["metrics"] if not isinstance(row[0], dict)]
    shown = {(row[1], row[3]) for row in rows}
    for name in FUNCTIONS:
        assert {(m, f"${{{name}}}") for m in ("Errors", "Throttles", "Duration", "ConcurrentExecutions")} <= shown
    for queue in ("WorkQueue", "NotificationsQueue"):
        assert ("ApproximateAgeOfOldestMessage", f"${{{queue}.QueueName}}") in shown
    for queue in ("WorkDeadQueue", "NotificationsDeadQueue"):
        assert ("ApproximateNumberOfMessagesVisible", f"${{{queue}.QueueName}}") in shown
    names = set(re.findall(r"\$\{(\w+)[.}]", aws.properties("Dashboard")["DashboardBody"]))
    assert names <= set(aws.resources)


def test_no_widget_lies_on_another(widgets: list[dict[str, Any]]) -> None:
    cells = [
        (x, y)
        for widget in widgets
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


# --- the template as a whole


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
