"""The few shapes that every part of a request is made of."""

from collections.abc import Iterable, Mapping
from typing import Any

from fetcher.core.problems import Path, Report

UNKNOWN_MEMBER = "FET-0400"


def members(value: Any, path: Path, code: str, otherwise: str, report: Report) -> Mapping[str, Any] | None:
    """Return the object, or None after reporting that it is not one."""
    if isinstance(value, Mapping):
        return value
    found = "this is missing" if value is None else "this is not a JSON object"
    report.add(code, path, f"{found}; {otherwise}")
    return None


def only(known: Iterable[str], found: Mapping[str, Any], path: Path, report: Report) -> None:
    """Report every member that is not known: a typo must not change what is extracted."""
    for name in sorted(found.keys() - set(known)):
        report.add(UNKNOWN_MEMBER, (*path, name), f"there is no such member; known are {', '.join(known)}")


LONGEST = 512
"""Characters of a name. No source has longer ones, while answers, progress, errors and events repeat them, so that a
longer one would not fit their items (R-AWS-3, R-AWS-4)."""


def name_fault(name: Any) -> str | None:
    """Say what keeps a value from being a name, or None. Any other text is a name that may not exist."""
    if not isinstance(name, str):
        return "a name must be a string"
    if not name.strip():
        return "a name must not be blank"
    if "\0" in name:
        return "a name must not hold a NUL character"
    if len(name) > LONGEST:
        return f"a name has at most {LONGEST} characters"
    return None
