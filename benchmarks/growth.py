"""How time and cost grow with the rows: 1, 10 and 100 times, as a table and as `benchmarks/growth.svg`."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.loads import loads
from benchmarks.measure import CPU_SECOND, Cost, interleaved, program
from benchmarks.postgresql import environment, pid
from infra.local import postgresql

TIMES = (1, 10, 100)
PLOT = Path(__file__).parent / "growth.svg"
WIDTH, HEIGHT, EDGE = 480, 360, 48
LINES = (("wall s", "#1f6feb"), ("client cpu s", "#bf5600"), ("$ for a million such jobs", "#1a7f37"))
MILLION = 1_000_000
HEAD = ("| rows | MB | wall s | client cpu s | peak MiB | $ |", "|--|--|--|--|--|--|")


def tables(scale: float, rounds: int, *, keep: bool = False) -> Iterator[str]:
    """Read 1, 10 and 100 hundredths of the first load; yield the lines of a table, and keep it drawn if asked to."""
    with postgresql.running({"shared_buffers": "1GB", "jit": "off"}) as server:
        seen = [_measured(server, scale * times / TIMES[-1], rounds) for times in TIMES]
    lines = [_line(rows, cost) for rows, cost in seen]
    plot = plotted(lines)
    if keep:
        PLOT.write_text(plot)
    yield from (*HEAD, *lines, "", "![Time and cost by rows](growth.svg)", "")


def _line(rows: int, cost: Cost) -> str:
    price, peak = f"{cost.cpu * CPU_SECOND:.7f}", f"{cost.peak or 0:.0f}"
    return f"| {rows:,} | {cost.size / 1e6:.1f} | {cost.wall:.2f} | {cost.cpu:.2f} | {peak} | {price} |"


def plotted(lines: Sequence[str]) -> str:
    """Draw the lines of the table: the plot shows what the table says."""
    cells = [[cell.strip().replace(",", "") for cell in line.strip("|").split("|")] for line in lines]
    values = [(float(wall), float(cpu), float(price) * MILLION) for _, _, wall, cpu, _, price in cells]
    return drawn([int(rows) for rows, *_ in cells], values)


def _measured(server: postgresql.Server, scale: float, rounds: int) -> tuple[int, Cost]:
    load, name = loads(scale)[0], "fetcher"
    with server.connection() as connection:
        for statement in (f"DROP TABLE IF EXISTS {load.name}", *load.sql):
            connection.execute(statement.encode())
    command = [sys.executable, "-m", "benchmarks.candidates", name, load.name]
    return load.rows, interleaved({name: program(command, environment(server))}, rounds, pid(server))[name]


def drawn(rows: Sequence[int], values: Sequence[Sequence[float]]) -> str:
    """Draw lines over logarithmic axes; a straight one of 45 degrees grows as the rows do."""
    least, most = min(map(min, values)), max(map(max, values))

    def across(count: float) -> float:
        return EDGE + (WIDTH - 2 * EDGE) * math.log(count / rows[0]) / math.log(rows[-1] / rows[0])

    def down(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * math.log(value / least) / math.log(most / least)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *(f'<text x="{across(each):.0f}" y="{HEIGHT - 20}" text-anchor="middle">{each:,} rows</text>' for each in rows),
    ]
    for at, (name, colour) in enumerate(LINES):
        points = [(across(count), down(each[at])) for count, each in zip(rows, values, strict=True)]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{EDGE}" y="{20 + 16 * at}" fill="{colour}">{name}</text>')
        for (x, y), each in zip(points, values, strict=True):
            parts.append(
                f'<text x="{x:.0f}" y="{y - 6:.0f}" text-anchor="middle" fill="{colour}">{each[at]:.2f}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])
