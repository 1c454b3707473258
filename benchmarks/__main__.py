"""`make bench`: measure, print, and write the tables of `benchmarks/README.md`."""

import argparse
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psycopg

from benchmarks.loads import Load, loads
from benchmarks.measure import REFERENCE, Cost, medians
from infra.local import postgresql

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def main() -> None:
    """Fill a server of its own, measure every load, and keep the results unless asked not to."""
    arguments = _arguments()
    with postgresql.running({"shared_buffers": "1GB", "jit": "off"}) as server:
        lines = [f"{_machine(server)} {arguments.rounds} interleaved rounds, medians; scale {arguments.scale:g}.", ""]
        for load in loads(arguments.scale):
            _fill(server, load)
            table = _table(load, medians(server, load.name, arguments.rounds))
            print("\n".join(table), flush=True)
            lines += [*table, ""]
    if not arguments.dry_run:
        _write("\n".join(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of rows")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    return parser.parse_args()


def _fill(server: postgresql.Server, load: Load) -> None:
    with server.connection() as connection:
        for statement in load.sql:
            connection.execute(statement.encode())


def _table(load: Load, costs: Mapping[str, Cost]) -> list[str]:
    reference = costs[REFERENCE]
    rows = [_row(name, each, each.wall / reference.wall) for name, each in costs.items()]
    title = f"**{load.name}**: {load.rows:,} rows"
    return [title, "", "| | ratio | wall s | client cpu s | peak MiB |", "|--|--|--|--|--|", *rows]


def _row(name: str, cost: Cost, ratio: float) -> str:
    peak = "–" if cost.peak is None else f"{cost.peak:.0f}"
    return f"| {name} | {ratio:.2f} | {cost.wall:.1f} | {cost.cpu:.1f} | {peak} |"


def _machine(server: postgresql.Server) -> str:
    """Name what the numbers depend on, and nothing that names the machine."""
    with server.connection() as connection:
        version = connection.info.parameter_status("server_version")
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, PostgreSQL {version} and its psql, "
        f"psycopg {psycopg.__version__}, libpq {psycopg.pq.version() // 10000}."
    )


def _write(results: str) -> None:
    text = README.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    README.write_text(f"{before}\n{results}\n{after}")


if __name__ == "__main__":
    main()
