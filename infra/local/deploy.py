"""Deploys the template to an AWS endpoint, ours or another, and reads where everything is."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import ClientError, EndpointConnectionError, WaiterError

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
    """A deployed stack: where its API answers, and the outputs of the expanded template."""

    api_url: str
    outputs: Mapping[str, str]


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
    # The host name in the outputs is AWS's own; an endpoint answers under this path instead.
    return Deployment(f"{endpoint.url}/_aws/execute-api/{api_id}/$default", outputs)


def remove(endpoint: Endpoint, name: str) -> None:
    """Delete a stack from an endpoint that goes on without us; what the template retains stays."""
    session = endpoint.session()
    cloudformation = session.client("cloudformation", endpoint_url=endpoint.url)
    with suppress(EndpointConnectionError):  # an endpoint that ended took everything along
        cloudformation.delete_stack(StackName=name)
        waiter = cloudformation.get_waiter("stack_delete_complete")
        waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        _remove_artifacts(endpoint, session, name)


def _remove_artifacts(endpoint: Endpoint, session: boto3.Session, name: str) -> None:
    s3 = session.client("s3", endpoint_url=endpoint.url)
    with suppress(s3.exceptions.NoSuchBucket):
        for stored in s3.list_objects_v2(Bucket=_artifacts(name)).get("Contents", []):
            s3.delete_object(Bucket=_artifacts(name), Key=stored["Key"])
        s3.delete_bucket(Bucket=_artifacts(name))


def _artifacts(name: str) -> str:
    return f"{name}-artifacts"


def _upload(endpoint: Endpoint, session: boto3.Session, name: str, parameters: Mapping[str, str]) -> str:
    """Store code and template in a bucket of this stack's own; return the template's address."""
    s3 = session.client("s3", endpoint_url=endpoint.url)
    bucket = _artifacts(name)
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
