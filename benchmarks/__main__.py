"""`make bench`: measure, print, and write the tables of `benchmarks/README.md`.

make bench ARGS="--scale 0.02 --rounds 3 --dry-run postgresql mongodb"
"""

import argparse
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import growth, mongodb, mysql, postgresql, sqlserver

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

Tables = Callable[[float, int], Iterator[str]]

ENGINES: Mapping[str, Tables] = {
    "postgresql": postgresql.tables,
    "mysql": mysql.tables,
    "mongodb": mongodb.tables,
    "sqlserver": sqlserver.tables,
    "growth": growth.tables,
}


def main() -> None:
    """Measure what was asked for, one after the other; keep the results when everything was."""
    arguments = _arguments()
    engines: dict[str, Tables] = {**ENGINES, "growth": partial(growth.tables, keep=not arguments.dry_run)}
    lines = [f"{_machine()} {arguments.rounds} interleaved rounds, medians; scale {arguments.scale:g}.", ""]
    print(lines[0], flush=True)
    for name in arguments.engines or engines:
        lines += [f"### {name}", ""]
        for line in engines[name](arguments.scale, arguments.rounds):
            print(line, flush=True)
            lines.append(line)
    if not arguments.dry_run and not arguments.engines:
        _write("\n".join(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], help="all, when none is given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of rows")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    return parser.parse_args()


def _machine() -> str:
    """Name what the numbers depend on, and nothing that names the machine."""
    day = datetime.now(UTC).date().isoformat()
    return f"{day}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()};"


def _write(results: str) -> None:
    text = README.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    README.write_text(f"{before}\n{results}\n{after}")


if __name__ == "__main__":
    main()
