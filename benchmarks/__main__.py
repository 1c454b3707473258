"""`make bench`: measure and print; with `--write`, also into `benchmarks/README.md`.

make bench ARGS="--scale 0.02 --rounds 3 postgresql mongodb"
"""

import argparse
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import growth, mongodb, mysql, pipeline, postgresql, sqlserver, submit

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

Tables = Callable[[float, int], Iterator[str]]

ENGINES: Mapping[str, Tables] = {
    "postgresql": postgresql.tables,
    "mysql": mysql.tables,
    "mongodb": mongodb.tables,
    "sqlserver": sqlserver.tables,
    "pipeline": pipeline.tables,
    "submit": submit.tables,
    "growth": growth.tables,
}


def main() -> None:
    """Measure what was asked for, one after the other, and keep each engine's results as soon as they are there."""
    arguments = _arguments()
    keep = arguments.write and not arguments.dry_run
    engines: dict[str, Tables] = {**ENGINES, "growth": partial(growth.tables, keep=keep)}
    for name in arguments.engines or engines:
        began = time.monotonic()
        lines = [f"{_machine()} scale {arguments.scale:g}, {arguments.rounds} interleaved rounds, medians.", ""]
        print(f"### {name}", *lines, sep="\n", flush=True)
        for line in engines[name](arguments.scale, arguments.rounds):
            print(line, flush=True)
            lines.append(line)
        print(f"({name} took {time.monotonic() - began:.0f} s)\n", flush=True)
        if keep:
            README.write_text(written(README.read_text(), name, lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], help="all, when none is given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=0.5, help="share of the full number of rows")
    parser.add_argument("--write", action="store_true", help="put the results into benchmarks/README.md")
    parser.add_argument("--dry-run", action="store_true", help="print only, whatever else is said")
    return parser.parse_args()


def _machine() -> str:
    """Name what the numbers depend on, and nothing that names the machine."""
    day = datetime.now(UTC).date().isoformat()
    return f"{day}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()};"


def written(page: str, name: str, lines: Sequence[str]) -> str:
    """Put an engine's results between the markers, in place of those it had; the others stay as they are."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    parts = re.split(r"^### (\w+)\n", page[begin:end], flags=re.MULTILINE)[1:]
    known = dict(zip(parts[::2], parts[1::2], strict=True)) | {name: "\n" + "\n".join(lines) + "\n"}
    results = "\n\n".join(f"### {each}\n\n{known[each].strip()}" for each in ENGINES if each in known)
    return f"{page[:begin]}\n{results}\n{page[end:]}"


if __name__ == "__main__":
    main()
