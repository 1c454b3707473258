"""The queues between the functions, and the bus behind them."""

import pytest

from tests.template import Deployment, deployed, plain_http_is_denied


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
