"""Findings about a request, gathered so that a caller can mend all of them at once."""

from fetcher.errors import InvalidRequestError, Problem

NOT_JSON = "FET-0001"
BAD_SELECTION = "FET-0401"
"""Codes that every part of a request shares; docs/api.md has all of them."""

SHOWN = 100
"""So many problems are spelled out; the rest is counted, which keeps the answer small."""

LONGEST_NAME = 128
"""Longer names are shortened in a pointer, so that a hostile body is not echoed whole."""

Path = tuple[str | int, ...]


def pointer(path: Path) -> str:
    """Render an RFC 6901 pointer that is always valid UTF-8."""
    return "".join(f"/{_token(step)}" for step in path)


def _token(step: str | int) -> str:
    text = str(step).encode("utf-8", "replace").decode()
    short = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…"
    return short.replace("~", "~0").replace("/", "~1")


class Report:
    """Problems in the order they were found, each with its documented code."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Path, str]] = []

    def add(self, code: str, path: Path, detail: str) -> None:
        """Note one problem; `detail` says what was wrong and what to write instead."""
        self._found.append((code, path, detail))

    def raise_if_any(self) -> None:
        """Raise one `InvalidRequestError` with the code of the first problem and all pointers."""
        if not self._found:
            return
        code, _, detail = self._found[0]
        more = len(self._found) - 1
        message = f"{detail} (and {more} more)" if more else detail
        raise InvalidRequestError(message, code=code, problems=self._problems())

    def _problems(self) -> tuple[Problem, ...]:
        shown = [Problem(pointer(path), detail) for _, path, detail in self._found[:SHOWN]]
        hidden = len(self._found) - len(shown)
        rest = [Problem("", f"{hidden} more problems are not listed")] if hidden else []
        return (*shown, *rest)
