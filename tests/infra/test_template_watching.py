"""Alarms, dashboard and the metrics that both name."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, get_args

import pytest

from fetcher import errors
from fetcher.aws.records import OUTBOX_CAP_MS
from fetcher.errors import CanceledError, Family, FetcherError
from tests.metrics import FAILURES, PLAIN, written
from tests.template import FUNCTIONS, ROOT, Deployment, deployed

SEARCHED = {"JobsFailed": "{Fetcher,family,service}", "ColdStart": "{Fetcher,function_name,service}"}
SHOWN_OF_EXTRACT = {"ExtractionSeconds", "Attempts"}
"""What every service writes that ends a job; most jobs are ended by extract, and one line of them is shown."""
CANCELED = {CanceledError.family}


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


@pytest.mark.parametrize("queue", ["WorkDeadQueue", "NotificationsQueue"])
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


def measured(alarm: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The metrics that an alarm's expressions name, by the names that they have there."""
    return {each["Id"]: each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each}


def worked_out(alarm: Mapping[str, Any], **datapoints: float) -> float:
    """What an alarm compares with its threshold, by CloudWatch's rules; a metric that is not given has no datapoint."""
    known: dict[str, Any] = {
        "IF": lambda condition, yes, no: yes if condition else no,
        "FILL": lambda datapoint, instead: instead if datapoint is None else datapoint,
        **dict.fromkeys(measured(alarm)),
        **datapoints,
    }
    [shown, *others] = [each for each in alarm["Metrics"] if "Expression" in each]
    assert [each["ReturnData"] for each in alarm["Metrics"]] == [True, *[False] * (len(alarm["Metrics"]) - 1)]
    for each in (*others, shown):
        known[each["Id"]] = eval(each["Expression"], {}, dict(known))  # noqa: S307 - the template's own
    return float(known[shown["Id"]])


def test_many_failed_jobs_are_an_alarm_whatever_failed_them_and_whoever_ended_them(aws: Deployment) -> None:
    """The sweeper ends what waited too long or is stalled, the dead-letter consumer what five workers gave up."""
    alarm = aws.properties("FailedJobsAlarm")
    stats = measured(alarm)
    given = [{d["Name"]: d["Value"] for d in stat["Metric"]["Dimensions"]} for stat in stats.values()]
    failed = {(each["service"], each["family"]) for each in given if "family" in each}
    assert failed == {(f"${{AWS::StackName}}-{service}", each) for service, them in FAILURES.items() for each in them}
    assert len(stats) <= 10, "CloudWatch's limit for one alarm"
    for each in stats.keys() - {"completed"}:
        assert worked_out(alarm, **{each: 9}) == 0 < alarm["Threshold"]
        assert worked_out(alarm, **{each: 10}) == 100 > alarm["Threshold"]
        assert worked_out(alarm, **{each: 10}, completed=10) == 50 == alarm["Threshold"]
    assert worked_out(alarm, completed=10) == 0


def made_in(file: str, function: str) -> set[str]:
    """The families of the errors that a function makes."""
    tree = ast.parse((ROOT / file).read_text())
    [own] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function]
    calls = [node.func.id for node in ast.walk(own) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = [getattr(errors, name, None) for name in calls]
    return {error.family for error in made if isinstance(error, type) and issubclass(error, FetcherError)}


def test_who_ends_jobs_without_their_claim_ends_them_as_the_alarm_knows() -> None:
    """A family that is new there is one that no alarm would count."""
    deciding, stalled = "layers/engine/fetcher/aws/sweeping.py", "stalled_error"
    assert made_in(deciding, "decide") | made_in(deciding, stalled) == FAILURES["sweeper"] | CANCELED
    assert made_in(deciding, stalled) == FAILURES["dead-letter"]
    assert made_in("functions/submit/canceling.py", "end_canceled") == FAILURES["submit"] | CANCELED
    assert made_in("layers/engine/fetcher/aws/extractions.py", "terminate") == CANCELED
    assert FAILURES["extract"] | CANCELED == set(get_args(Family))


def test_work_that_waits_is_an_alarm_and_what_a_worker_left_behind_is_none(aws: Deployment) -> None:
    """R-000-76: the message of a worker that died is hidden for 90 minutes and keeps its age; its job has gone on."""
    alarm = aws.properties("WorkAgeAlarm")
    stats = measured(alarm)
    queue = [{"Name": "QueueName", "Value": "${WorkQueue.QueueName}"}]
    assert {(stat["Metric"]["MetricName"], stat["Stat"]) for stat in stats.values()} == {
        ("ApproximateAgeOfOldestMessage", "Maximum"),
        ("ApproximateNumberOfMessagesVisible", "Minimum"),  # at every sample: one that comes and goes waits for nobody
    }
    assert all(stat["Metric"]["Dimensions"] == queue for stat in stats.values())
    longest = aws.properties("ExtractFunction")["Timeout"]
    hidden, threshold = aws.properties("WorkQueue")["VisibilityTimeout"], alarm["Threshold"]
    assert longest < threshold < hidden
    assert worked_out(alarm, age=hidden, visible=0) == worked_out(alarm, age=hidden) == worked_out(alarm) == 0
    assert worked_out(alarm, age=hidden, visible=1) == hidden
    assert worked_out(alarm, visible=1) == 0


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
    """B-53: each of the service that writes it; that it does is seen in tests/integration/test_cloud_faults.py."""
    rows = [row for widget in widgets for row in widget["properties"]["metrics"] if row[0] == "Fetcher"]
    assert {row[2] for row in rows} == {"service"}
    plain = {(service, name) for service, name, dimensions in written() if dimensions == PLAIN}
    shown = {(row[3].removeprefix("${AWS::StackName}-"), row[1]) for row in rows}
    assert shown == {(service, name) for service, name in plain if service == "extract" or name not in SHOWN_OF_EXTRACT}


def counted() -> set[str]:
    """The metrics that code names where it counts, found in its syntax tree."""
    files = [file for place in ("functions", "layers/engine/fetcher") for file in (ROOT / place).rglob("*.py")]
    calls = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    counting = [call for call in calls if ast.unparse(call.func) in {"count", "metrics.add_metric", "single_metric"}]
    named = [next((k.value for k in call.keywords if k.arg == "name"), None) or call.args[0] for call in counting]
    inside = [part for name in named for part in ast.walk(name)]
    return {part.value for part in inside if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_every_metric_that_code_names_is_known_here() -> None:
    """A new one needs a service, a place on the dashboard and a fate that writes it; cold starts are counted for us."""
    assert counted() | {"ColdStart"} == {name for _, name, _ in written()}


def test_every_metric_that_an_alarm_watches_is_written_by_its_service(aws: Deployment) -> None:
    """An alarm on a metric that nobody writes would be silent for ever."""
    alarms = aws.of_type("AWS::CloudWatch::Alarm").values()
    watched = [
        stat["MetricStat"]["Metric"] for alarm in alarms for stat in alarm.get("Metrics", ()) if "MetricStat" in stat
    ]
    named = {
        (given["service"].removeprefix("${AWS::StackName}-"), metric["MetricName"], tuple(sorted(given)))
        for metric in [*alarms, *watched]
        if metric.get("Namespace") == "Fetcher"
        for given in [{dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}]
    }
    assert ("sweeper", "OutboxAgeSeconds", PLAIN) in named
    assert named <= written()


def test_metrics_with_a_second_dimension_are_searched(widgets: list[dict[str, Any]]) -> None:
    rows = [row[0] for widget in widgets for row in widget["properties"]["metrics"] if isinstance(row[0], dict)]
    for metric, dimensions in SEARCHED.items():
        [expression] = [row["expression"] for row in rows if f'"{metric}"' in row["expression"]]
        assert dimensions in expression
        names = tuple(dimensions.strip("{}").split(",")[1:])
        writing = {f"${{AWS::StackName}}-{service}" for service, *known in written() if known == [metric, names]}
        assert writing == set(re.findall(r'"([^"]+)"', expression)) - {metric}
    assert {name for _, name, dimensions in written() if dimensions != PLAIN} == SEARCHED.keys()
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
