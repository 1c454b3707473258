"""Whoever reads a queue does it by one function, which leaves no failure unsaid."""

import ast
from pathlib import Path

from infra.local.places import ROOT

FRAMEWORK = "aws_lambda_powertools.utilities.batch"


def imported(file: Path) -> set[str]:
    """The modules that a file imports from."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return named | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_every_consumer_reads_its_messages_by_the_function_that_logs_what_failed() -> None:
    """The framework's own processor says of a failed record nothing above DEBUG."""
    files = [*(ROOT / "functions").rglob("*.py"), *(ROOT / "layers/engine").rglob("*.py")]
    using = {file.relative_to(ROOT).as_posix() for file in files if FRAMEWORK in imported(file)}
    assert using == {"layers/engine/fetcher/aws/batches.py"}
