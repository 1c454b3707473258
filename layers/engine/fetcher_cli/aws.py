"""The AWS resources of a stack, with the caller's own credentials: which they are, and clients for them."""

from typing import Any

from fetcher_cli import places
from fetcher_cli.errors import UsageError
from fetcher_cli.places import Resources

LOCAL_USER = "test"
"""Key and secret of a local endpoint's root user: known to everybody, and to that endpoint alone."""


def resources(stack: str | None) -> Resources | None:
    """Find the resources of a deployed stack, or those of the stack file; None when there is neither."""
    if stack is not None:
        return places.deployed_resources(_outputs(stack))
    content = places.stack_file()
    return None if content is None else places.local_resources(content)


def client(at: Resources, service: str) -> Any:
    """Open a client."""
    import boto3  # noqa: PLC0415 - half a second that only this needs

    known = boto3.Session()
    if at.endpoint is not None:
        known = boto3.Session(LOCAL_USER, LOCAL_USER, region_name=at.region)
    return known.client(service, endpoint_url=at.endpoint)  # type: ignore[call-overload]


def _outputs(stack: str) -> dict[str, str]:
    import boto3  # noqa: PLC0415 - half a second that only this needs
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as late as boto3

    try:
        described = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except (BotoCoreError, ClientError) as error:
        raise UsageError(f"the stack {stack} cannot be read: {error}") from error
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
