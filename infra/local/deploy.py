"""Deploys the template to an AWS endpoint, ours or another, and reads where everything is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import ClientError, WaiterError

from infra.layer import LAMBDA, build
from infra.local import archive
from infra.local.endpoint import Endpoint
from infra.local.expand import expand
from infra.local.places import TEMPLATE, StackError, need

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

PARAMETERS = {"Stage": "local", "Authorizer": "none"}
"""What every local deployment has, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployed stack: the template's outputs, where its API answers, and a queue that hears every event."""

    name: str
    outputs: Mapping[str, str]
    api_url: str
    events_queue_url: str


def deploy(endpoint: Endpoint, name: str, parameters: Mapping[str, str]) -> Deployment:
    """Upload the code, create the stack and wait for it. Raises `StackError` with the failed resources."""
    session = endpoint.session()
    values = {**PARAMETERS, **parameters}
    template_url = _upload(endpoint, session, name, values)
    cloudformation = session.client("cloudformation", endpoint_url=endpoint.url)
    _create(cloudformation, name, template_url, values)
    _wait(cloudformation, name)
    stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    api = cloudformation.describe_stack_resource(StackName=name, LogicalResourceId="Api")
    api_id = api["StackResourceDetail"]["PhysicalResourceId"]
    return Deployment(
        name,
        outputs,
        # The host name in the output is AWS's own; the endpoint answers under this path instead.
        f"{endpoint.url}/_aws/execute-api/{api_id}/$default",
        _hear_every_event(endpoint, session, name, outputs["BusName"]),
    )


def remove(endpoint: Endpoint, name: str) -> None:
    """Delete a stack from an endpoint that goes on without us."""
    client = endpoint.session().client("cloudformation", endpoint_url=endpoint.url)
    client.delete_stack(StackName=name)
    client.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})


def _upload(endpoint: Endpoint, session: boto3.Session, name: str, parameters: Mapping[str, str]) -> str:
    """Store code and template in a bucket of this stack's own; return the template's address."""
    s3 = session.client("s3", endpoint_url=endpoint.url)
    bucket = f"{name}-artifacts"
    s3.create_bucket(Bucket=bucket)

    def stored(key: str, body: bytes) -> str:
        s3.put_object(Bucket=bucket, Key=key, Body=body)
        return f"s3://{bucket}/{key}"

    if endpoint.embedded:
        code, layer = stored("functions.zip", archive.functions_with_runtime()), None
    else:
        build(LAMBDA)
        code, layer = stored("functions.zip", archive.functions()), stored("layer.zip", archive.layer())
    template = need(TEMPLATE, "git checkout template.yaml")
    expanded = expand(template, parameters, code=code, layer=layer, region=session.region_name)
    stored("template.json", json.dumps(expanded).encode())
    return f"{endpoint.url}/{bucket}/template.json"


def _create(
    cloudformation: "CloudFormationClient", name: str, template_url: str, parameters: Mapping[str, str]
) -> None:
    try:
        cloudformation.create_stack(
            StackName=name,
            TemplateURL=template_url,
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        )
    except ClientError as error:
        raise StackError(f"The template cannot be deployed: {error}") from error


def _wait(cloudformation: "CloudFormationClient", name: str) -> None:
    waiter = cloudformation.get_waiter("stack_create_complete")
    try:
        waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 180})
    except WaiterError as error:
        events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        reasons = [
            f"  {event.get('LogicalResourceId')}: {event.get('ResourceStatusReason', '')}"
            for event in reversed(events)
            if "FAILED" in event.get("ResourceStatus", "")
        ]
        raise StackError("\n".join([f"The stack {name} could not be created:", *reasons])) from error


def _hear_every_event(endpoint: Endpoint, session: boto3.Session, name: str, bus: str) -> str:
    """Send every event of the bus to a queue, and return its address."""
    sqs = session.client("sqs", endpoint_url=endpoint.url)
    events = session.client("events", endpoint_url=endpoint.url)
    url = sqs.create_queue(QueueName=f"{name}-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rule = f"{name}-events"
    pattern = json.dumps({"source": [{"prefix": ""}]})
    rule_arn = events.put_rule(Name=rule, EventBusName=bus, EventPattern=pattern)["RuleArn"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": _may_send(arn, rule_arn)})
    events.put_targets(Rule=rule, EventBusName=bus, Targets=[{"Id": "events", "Arn": arn}])
    return url


def _may_send(queue: str, rule: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
