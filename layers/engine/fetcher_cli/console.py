"""Where text goes: results to stdout, everything else to stderr, both without markup of our own making."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def out() -> Console:
    """Open stdout. Text is printed as it is: nothing in it is markup, and lines are not wrapped."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def err() -> Console:
    """Open stderr, for progress and errors."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True, stderr=True)


def raw(text: str) -> None:
    """Write text exactly, for other programs to read."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show rows: a table on a terminal, elsewhere one line each with tabs between."""
    console = out()
    if not console.is_terminal:
        for row in rows:
            raw("\t".join(row))
        return
    shown = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
