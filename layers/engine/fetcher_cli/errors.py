"""How a command can end other than well: one exit code for each thing that the caller can do about it.

0   it worked
1   the job failed, a verification failed, a connection or a check of `doctor` does not work
2   the command or the request is wrong: change it (the API's 4xx)
3   the API or its store is out of reach or not ready: try again later (429, 5xx)
"""

from collections.abc import Mapping
from typing import Any


class CliError(Exception):
    """What ends a command. The text is for people and says what to do."""

    exit_code = 1


class FailedError(CliError):
    """What was asked for was done, and the answer is no."""


class UsageError(CliError):
    """The command cannot be carried out as it was given."""

    exit_code = 2


class UnreachableError(CliError):
    """Not now; no sooner than `after` seconds when the other side said so."""

    exit_code = 3

    def __init__(self, text: str, *, after: float | None = None) -> None:
        super().__init__(text)
        self.after = after


class RefusedError(UsageError):
    """The API said no. `code` is its stable code, empty when a gateway answered in its place."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(described(status, problem))
        self.status = status
        self.code = str(problem.get("code", ""))


def described(status: int, problem: Mapping[str, Any]) -> str:
    """Spell out problem details: code, text, each pointer, and the id under which the logs know the request."""
    text = problem.get("detail") or problem.get("message") or problem.get("title") or "no reason given"
    lines = [f"{problem.get('code', 'HTTP')} ({status}): {text}"]
    lines += [f"  {found.get('pointer') or '/'}: {found.get('detail', '')}" for found in problem.get("errors", ())]
    if "requestId" in problem:
        lines.append(f"  request {problem['requestId']}")
    return "\n".join([*lines, *_hint(status)])


def _hint(status: int) -> list[str]:
    if status == 401:
        return ["  Set FETCHER_TOKEN, or pass --iam for a deployment with the authorizer iam."]
    if status == 403:
        return ["  The credentials are known but may not do this; see `fetcher doctor`."]
    return []
