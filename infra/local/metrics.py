"""What the functions measured, read from their logs: the embedded metric format, as CloudWatch reads it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. `at` is in milliseconds since the epoch; the dimensions name service, family, …"""

    at: int
    name: str
    dimensions: Mapping[str, str]
    value: float


def read(client: "CloudWatchLogsClient") -> list[Sample]:
    """Read every metric that is in the logs of the endpoint, oldest first."""
    groups = [group["logGroupName"] for group in client.describe_log_groups()["logGroups"]]
    pages = (page for group in groups for page in _pages(client, group))
    found = [sample for page in pages for event in page for sample in samples(event["message"])]
    return sorted(found, key=lambda sample: sample.at)


def samples(line: str) -> Iterator[Sample]:
    """Yield the values of one log line; none, if it is no metric."""
    if '"_aws"' not in line:
        return
    entry = json.loads(line)
    for directive in entry["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = {name: str(entry[name]) for name in names}
            for metric in directive["Metrics"]:
                values = entry[metric["Name"]]
                for value in values if isinstance(values, list) else [values]:
                    yield Sample(entry["_aws"]["Timestamp"], metric["Name"], dimensions, float(value))


def _pages(client: "CloudWatchLogsClient", group: str) -> Iterator[list[Any]]:
    more: dict[str, Any] = {}
    while True:
        answer = client.filter_log_events(logGroupName=group, **more)
        yield list(answer["events"])
        if "nextToken" not in answer or answer["nextToken"] == more.get("nextToken"):
            return
        more = {"nextToken": answer["nextToken"]}
