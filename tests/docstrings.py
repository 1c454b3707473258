"""What each test says of itself: requirements, defects and scenarios are looked up there."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def docstrings() -> Iterator[str]:
    """Yield the docstring of every test function, each on one line."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield " ".join((ast.get_docstring(node) or "").split())
