"""The picture of the dashboard: read from log lines, summed as CloudWatch does, as new as the template."""

import json
import re
from typing import Any
from xml.etree import ElementTree

import yaml

from fetcher.errors import ACTIONS
from infra.local import drawing, metrics
from infra.local.dashboard import PICTURE
from infra.local.metrics import Sample
from infra.local.places import TEMPLATE

FAMILIES = sorted(ACTIONS)
START = 1_800_000_000_000


def emf(at: int, service: str, values: dict[str, Any], **dimensions: str) -> str:
    """Write a line as the functions do."""
    names = ["service", *dimensions]
    described = [{"Name": name, "Unit": "Count"} for name in values]
    directive = {"Namespace": "Fetcher", "Dimensions": [names], "Metrics": described}
    return json.dumps(
        {"_aws": {"Timestamp": at, "CloudWatchMetrics": [directive]}, "service": service, **dimensions, **values}
    )


def widget(title: str, *rows: Any, x: int = 0, y: int = 0, stat: str = "Sum") -> dict[str, Any]:
    """Describe a widget as the dashboard's body does."""
    return {"x": x, "y": y, "width": 12, "height": 6, "properties": {"title": title, "stat": stat, "metrics": rows}}


def drawn(widgets: list[dict[str, Any]], lines: list[str]) -> tuple[list[str], ElementTree.Element]:
    """Draw, and return the texts and the picture."""
    text = drawing.draw(widgets, [sample for line in lines for sample in metrics.samples(line)])
    picture = ElementTree.fromstring(text)  # noqa: S314 - made a line above
    return [node.text or "" for node in picture.iter() if node.tag.endswith("text")], picture


def test_a_line_of_several_values_and_metrics_is_read_whole() -> None:
    line = emf(START, "s-extract", {"Attempts": [1.0, 3.0], "RowsRead": 5})
    assert list(metrics.samples(line)) == [
        Sample(START, "Attempts", {"service": "s-extract"}, 1.0),
        Sample(START, "Attempts", {"service": "s-extract"}, 3.0),
        Sample(START, "RowsRead", {"service": "s-extract"}, 5.0),
    ]
    assert list(metrics.samples('{"level":"INFO","message":"plain"}')) == []
    assert list(metrics.samples("START RequestId: 1")) == []


def test_a_widget_shows_its_own_metric_of_its_own_service_by_its_own_statistic() -> None:
    """Another service's, and the same name under more dimensions, are other metrics."""
    rows = (
        ["Fetcher", "Seconds", "service", "s-extract", {"stat": "p50", "label": "middle"}],
        ["Fetcher", "Seconds", "service", "s-extract", {"stat": "p99", "label": "tail"}],
        ["Fetcher", "Seconds", "service", "s-extract", {"stat": "Maximum", "label": "most"}],
        ["Fetcher", "Seconds", "service", "s-extract"],
        ["Fetcher", "Absent", "service", "s-extract"],
    )
    lines = [emf(START + n, "s-extract", {"Seconds": [float(n)]}) for n in range(1, 201)]
    lines += [emf(START, "s-submit", {"Seconds": 9e9}), emf(START, "s-extract", {"Seconds": 9e9}, family="limit")]
    texts, _ = drawn([widget("a < b & c", *rows)], lines)
    assert {"middle: 100", "tail: 198", "most: 200", "Seconds: 20.1k", "Absent: –", "a < b & c"} <= set(texts)


def test_a_search_gives_a_line_for_each_family() -> None:
    expression = "SEARCH('{Fetcher,family,service} MetricName=\"JobsFailed\" AND service=(\"s-extract\")', 'Sum', 60)"
    search = [{"expression": expression, "id": "f", "label": "${PROP('Dim.family')}"}]
    families = ["limit", "invalid", "limit"]
    lines = [emf(START + n, "s-extract", {"JobsFailed": 1}, family=family) for n, family in enumerate(families)]
    texts, picture = drawn([widget("Failed", search)], lines)
    assert {"invalid: 1", "limit: 2"} <= set(texts)
    assert len([node for node in picture.iter() if node.get("stroke-width")]) == 2


def test_widgets_of_aws_itself_are_left_out_and_the_rest_moves_up() -> None:
    lambda_ = widget("Lambda errors", ["AWS/Lambda", "Errors", "FunctionName", "f"], y=0)
    ours = widget("Ours", ["Fetcher", "Swept", "service", "s-sweeper"], y=6)
    texts, picture = drawn([lambda_, ours], [emf(START, "s-sweeper", {"Swept": 1})])
    assert "Lambda errors" not in texts
    assert picture.get("viewBox") == f"0 0 {24 * drawing.COLUMN} {30 + 6 * drawing.ROW}"


def test_the_committed_picture_has_every_widget_and_metric_of_the_template() -> None:
    """Drawn anew by `make dashboard` when the dashboard changes; every job of the run is in it."""
    body = re.search(r"DashboardBody: !Sub \|\n(.*?)\n\n", TEMPLATE.read_text(), re.DOTALL)
    assert body is not None
    widgets = yaml.safe_load(body[1])["widgets"]
    picture = ElementTree.parse(PICTURE)  # noqa: S314 - our own file
    texts = {node.text or "" for node in picture.iter() if node.tag.endswith("text")}
    shown = [one for one in widgets if any(drawing._ours(row) for row in one["properties"]["metrics"])]
    assert {one["properties"]["title"] for one in shown} <= texts
    labels = {text.partition(":")[0] for text in texts}
    for row in (row for one in shown for row in one["properties"]["metrics"] if row[0] == "Fetcher"):
        assert (row[4].get("label", row[1]) if len(row) > 4 else row[1]) in labels, row
    assert PICTURE.stat().st_size < 40_000


def test_the_committed_picture_is_of_a_run_that_adds_up() -> None:
    """Every job that was made ended, completed or failed, and each end was published.

    Nothing that a job can be counted for is missing: a duplicate, a retry, a wait, a new try, a take-over, a sweep.
    """
    counted = dict(re.findall(r">([\w]+): ([0-9]+)</text>", PICTURE.read_text()))
    failed = sum(int(counted.get(family, 0)) for family in FAMILIES)
    for name in ("JobsDuplicate", "JobsRetried", "Waits", "Retries", "Resumed", "Swept"):
        assert int(counted[name]) > 0, name
    assert int(counted["JobsCreated"]) == int(counted["JobsCompleted"]) + failed
    assert failed > 0
    assert int(counted["EventsPublished"]) == int(counted["JobsCreated"])
