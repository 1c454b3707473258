"""Draws the dashboard's own widgets from samples, as one small SVG.

Only widgets on metrics of ours are drawn: those of Lambda, SQS and the API come from AWS itself.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from infra.local.metrics import Sample

COLUMN, ROW = 44, 26
"""Pixels of a unit of the dashboard's grid, which is 24 columns wide."""
PAD, TITLE, LEGEND = 10, 22, 14
COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2")
POINTS = 40
"""Points of a line: more could not be told apart in a picture of this size."""

_SEARCH = re.compile(r"""\{Fetcher,(?P<dimension>\w+),service\} MetricName="(?P<name>\w+)\"""")
_STATS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "p50": lambda values: _percentile(values, 50),
    "p99": lambda values: _percentile(values, 99),
}

Widget = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a widget: its label, what it is a statistic of, and its samples."""

    label: str
    stat: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """The time that is shown: its begin in milliseconds, and the seconds of a point."""

    begin: int
    step: int

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Span":
        """Choose the time of these samples."""
        begin, end = min(sample.at for sample in samples), max(sample.at for sample in samples)
        return cls(begin, max(1, math.ceil((end - begin + 1) / 1000 / POINTS)))

    def point(self, sample: Sample) -> int:
        """Number the point that a sample belongs to."""
        return (sample.at - self.begin) // (1000 * self.step)


def draw(widgets: Sequence[Widget], samples: Sequence[Sample]) -> str:
    """Draw every widget that shows a metric of ours. At least one sample is needed."""
    span = Span.of(samples)
    shown = [widget for widget in widgets if any(_ours(row) for row in widget["properties"]["metrics"])]
    rows = sorted({widget["y"] for widget in shown})
    width, height = 24 * COLUMN, 30 + sum(_height(shown, y) for y in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica,Arial,sans-serif" font-size="11" fill="#16191f">',
        f'<rect width="{width}" height="{height}" fill="#f2f3f3"/>',
        f'<text x="{PAD}" y="19" font-size="13">The dashboard, from the metrics of a run on the local stack: '
        f"{POINTS * span.step} s, a point each {span.step} s (CloudWatch: 60 s)</text>",
    ]
    top = 30
    for y in rows:
        for widget in (widget for widget in shown if widget["y"] == y):
            parts += _widget(widget, samples, span, top)
        top += _height(shown, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _height(widgets: Sequence[Widget], y: int) -> int:
    return max(int(widget["height"]) for widget in widgets if widget["y"] == y) * ROW


def _ours(row: Sequence[Any]) -> bool:
    return row[0] == "Fetcher" or (isinstance(row[0], dict) and _SEARCH.search(row[0]["expression"]) is not None)


def _lines(widget: Widget, samples: Sequence[Sample]) -> Iterator[Line]:
    for row in widget["properties"]["metrics"]:
        if isinstance(row[0], dict):
            yield from _searched(row[0], samples)
            continue
        _, name, dimension, value, *options = row
        more = options[0] if options else {}
        wanted = {dimension: value}
        found = (sample for sample in samples if sample.name == name and sample.dimensions == wanted)
        yield Line(more.get("label", name), more.get("stat", widget["properties"]["stat"]), tuple(found))


def _searched(row: Mapping[str, str], samples: Sequence[Sample]) -> Iterator[Line]:
    """Do what CloudWatch's SEARCH does: a line for each set of dimensions that there is."""
    search = _SEARCH.search(row["expression"])
    label = re.search(r"Dim\.(\w+)", row["label"])
    if search is None or label is None:
        raise ValueError(f"a search that is not understood: {row['expression']}")
    dimensions = {search["dimension"], "service"}
    found = [sample for sample in samples if sample.name == search["name"] and sample.dimensions.keys() == dimensions]
    for value in sorted({sample.dimensions[label[1]] for sample in found}):
        yield Line(value, "Sum", tuple(sample for sample in found if sample.dimensions[label[1]] == value))


def _widget(widget: Widget, samples: Sequence[Sample], span: Span, top: int) -> Iterator[str]:
    left, width, height = widget["x"] * COLUMN, widget["width"] * COLUMN, widget["height"] * ROW
    lines = [(line, _points(line, span)) for line in _lines(widget, samples)]
    highest = _round_up(max((value for _, points in lines for value in points.values()), default=1) or 1)
    legend = LEGEND * max(1, math.ceil(len(lines) / 2))
    plot = _Plot(left + 56, top + TITLE + PAD, width - 56 - 2 * PAD, height - TITLE - legend - 4 * PAD, highest)
    yield f'<rect x="{left + 3}" y="{top + 3}" width="{width - 6}" height="{height - 6}" rx="4" fill="#fff"/>'
    yield f'<text x="{left + PAD}" y="{top + 18}" font-weight="bold">{escape(widget["properties"]["title"])}</text>'
    yield from plot.axes()
    for number, (line, points) in enumerate(lines):
        color = COLORS[number % len(COLORS)]
        yield from plot.line(points, color)
        x = left + PAD + (number % 2) * (width - 2 * PAD) / 2
        y = top + height - legend + LEGEND * (number // 2) - 2
        yield f'<rect x="{x:g}" y="{y - 8:g}" width="8" height="8" fill="{color}"/>'
        yield f'<text x="{x + 12:g}" y="{y:g}">{escape(line.label)}: {_summary(line)}</text>'


@dataclass(frozen=True, slots=True)
class _Plot:
    """The area that lines are drawn in."""

    left: float
    top: float
    width: float
    height: float
    highest: float

    def axes(self) -> Iterator[str]:
        for share in (0, 0.5, 1):
            y = self.top + self.height * (1 - share)
            yield f'<path d="M{self.left:g} {y:g}h{self.width:g}" stroke="#d5dbdb"/>'
            number = _number(self.highest * share)
            yield f'<text x="{self.left - 6:g}" y="{y + 4:g}" text-anchor="end" fill="#687078">{number}</text>'

    def line(self, points: Mapping[int, float], color: str) -> Iterator[str]:
        """Draw a line through neighbouring points; a point without neighbours is a dot."""
        for run in _runs(sorted(points)):
            at = [f"{self._x(point):.1f} {self._y(points[point]):.1f}" for point in run]
            if len(at) == 1:
                x, y = at[0].split()
                yield f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>'
            else:
                yield f'<path d="M{"L".join(at)}" fill="none" stroke="{color}" stroke-width="1.5"/>'

    def _x(self, point: int) -> float:
        return self.left + self.width * point / (POINTS - 1)

    def _y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.highest)


def _points(line: Line, span: Span) -> dict[int, float]:
    """Summarise a line's samples by point. A sum of nothing is zero, anything else of nothing is nothing."""
    values: dict[int, list[float]] = {}
    for sample in line.samples:
        values.setdefault(span.point(sample), []).append(sample.value)
    found = {point: _STATS[line.stat](some) for point, some in values.items()}
    return {point: found.get(point, 0) for point in range(POINTS)} if line.stat == "Sum" and found else found


def _summary(line: Line) -> str:
    """Say a line's statistic over the whole time."""
    if not line.samples:
        return "–"
    return _number(_STATS[line.stat]([sample.value for sample in line.samples]))


def _runs(points: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for point in points:
        if run and point != run[-1] + 1:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _percentile(values: Sequence[float], percent: int) -> float:
    """The nearest rank, which is always one of the values."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten, so that the axis has round numbers."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _number(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
