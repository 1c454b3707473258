"""Where things are in the checkout, and the error that says which of them is missing."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
FUNCTIONS = ROOT / "functions"
ENDPOINT_PYTHON = ROOT / ".venvs" / "stack" / "bin" / "python"
LAMBDA_PYTHON = ROOT / ".venvs" / "lambda" / "bin" / "python"
LAYER = ROOT / ".build" / "layer"
LAYER_LOCAL = ROOT / ".build" / "layer-local"


class StackError(Exception):
    """A step of the local stack failed; the text names the step and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one stack. `STACK.json` is for everyone; the folder beside it is ours."""

    file: Path

    @classmethod
    def of(cls, file: str | Path | None = None) -> "Place":
        """Choose the stack file: as given, else `FETCHER_STACK_FILE`, else `.local/stack.json`."""
        chosen = file or os.environ.get("FETCHER_STACK_FILE") or ROOT / ".local" / "stack.json"
        return cls(Path(chosen).resolve())

    @property
    def folder(self) -> Path:
        """Logs, data and the record of processes: `.local/stack/` for `.local/stack.json`."""
        return self.file.with_suffix("")

    @property
    def record(self) -> Path:
        """What `down` has to end."""
        return self.folder / "started.json"


def need(path: Path, command: str) -> Path:
    """Return `path`, or say which command makes it."""
    if not path.exists():
        raise StackError(f"{path.relative_to(ROOT)} is missing: run `{command}` first")
    return path
