"""The functions: what each is told, what calls it, and where it runs."""

import inspect
import re

import pytest

from fetcher import settings as settings_module
from fetcher.settings import load
from submit.probes import ALL_SECONDS
from tests.template import FUNCTIONS, Deployment, deployed

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
    """R-000-67, R-AWS-9: probes leave four seconds of the function's time for a cold start and all checks."""
    assert aws.properties("SubmitFunction")["Timeout"] == ALL_SECONDS + 4 == 29
    assert aws.properties("ApiIntegration")["TimeoutInMillis"] == 30000


def test_the_sweeper_runs_every_minute(aws: Deployment) -> None:
    [rule] = [rule for rule in aws.of_type("AWS::Events::Rule").values() if "ScheduleExpression" in rule]
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["Targets"][0]["Arn"] == "${SweeperFunction.Arn}"


def test_by_default_a_job_whose_message_was_lost_is_sent_within_two_minutes(aws: Deployment) -> None:
    """R-000-74: when it is due, and the sweep after that, whose own time is bounded too."""
    dispatched = float(aws.properties("SubmitFunction")["Environment"]["Variables"]["FETCHER_DISPATCH_SECONDS"])
    [rule] = [rule for rule in aws.of_type("AWS::Events::Rule").values() if "ScheduleExpression" in rule]
    [minutes] = re.findall(r"^rate\((\d+) minutes?\)$", rule["ScheduleExpression"])
    assert dispatched + 60 * int(minutes) + 30 <= 120


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
