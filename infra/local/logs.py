"""What the handlers logged, read from the endpoint and made readable."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

NOISE = ("START ", "END ", "REPORT ", '{"_aws"')
"""How lines begin that Lambda writes around each invocation, and those that are metrics."""


def tail(client: "CloudWatchLogsClient", function: str, lines: int = 15) -> str:
    """Return the last lines that a function such as `submit` wrote."""
    groups = [group["logGroupName"] for group in client.describe_log_groups()["logGroups"]]
    events = [
        event["message"].rstrip()
        for group in groups
        if group.endswith(f"/{function}")
        for event in client.filter_log_events(logGroupName=group)["events"]
    ]
    return "\n".join([_readable(event) for event in events if not event.startswith(NOISE)][-lines:])


def _readable(line: str) -> str:
    """Show a structured line's level, message and traceback; any other line as it is."""
    try:
        entry = json.loads(line)
        return "\n".join(filter(None, [f"{entry['level']} {entry['message']}", entry.get("exception")]))
    except (ValueError, KeyError, TypeError):
        return line
