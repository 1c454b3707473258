"""The operator's datasources of this deployment: the environment's variables, and those in a secret.

The secret is a JSON object of the same variables, so that a deployed stack has passwords and keys in Secrets Manager
and nowhere else. It lies under `fetcher/datasources/`, which no connection may refer to. A variable that both have is
the environment's.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws.clients import client
from fetcher.aws.errors import NOT_OURS
from fetcher.aws.internals import Internals, is_variable, read
from fetcher.settings import DATASOURCES_VARIABLE

KEEP_SECONDS = 300.0
"""How long a variable that was changed may still be the old one."""
SECONDS, TRIES = 5.0, 2

_log = logging.getLogger(__name__)


class Operated:
    """Reads the variables when they are first needed and, where a secret has some, again every five minutes."""

    def __init__(
        self, env: Mapping[str, str], client: Callable[[], Any], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._env = env
        self._client = client
        self._monotonic = monotonic
        self._kept: Internals | None = None
        self._until = 0.0

    def internals(self) -> Internals:
        """Return the datasources. An AWS error is raised only while there are none of before to go on with."""
        if self._kept is None or self._monotonic() >= self._until:
            try:
                self._kept = self._read()
            except (ClientError, BotoCoreError):
                if self._kept is None:
                    raise
                _log.warning("the secret of the internal datasources could not be read again", exc_info=True)
            self._until = self._monotonic() + KEEP_SECONDS
        return self._kept

    def _read(self) -> Internals:
        secret_id = self._env.get(DATASOURCES_VARIABLE)
        variables, problems = self._fetched(secret_id) if secret_id else ({}, [])
        internals = read({**variables, **self._env})
        internals = replace(internals, problems=(*problems, *internals.problems))
        for problem in internals.problems:
            _log.error("an internal datasource cannot be used: %s", problem)
        return internals

    def _fetched(self, secret_id: str) -> tuple[dict[str, str], list[str]]:
        """Return the secret's variables, and what of it cannot be used, by name."""
        try:
            text = self._client().get_secret_value(SecretId=secret_id).get("SecretString", "")
        except ClientError as error:
            if not NOT_OURS.include(error):
                raise
            return {}, [f"{DATASOURCES_VARIABLE} names a secret that cannot be read"]
        try:
            members = json.loads(text)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            return {}, [f"{DATASOURCES_VARIABLE} names a secret that is no JSON object"]
        return {name: value for name, value in members.items() if not _problem(name, value)}, list(_problems(members))


def _problems(members: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(members):
        if problem := _problem(name, members[name]):
            yield f"{name} {problem}"


def _problem(name: str, value: Any) -> str | None:
    if not is_variable(name):
        return "is not a known variable"
    return None if isinstance(value, str) else "must be a text"


@cache
def _process() -> Operated:
    return Operated(os.environ, lambda: client("secretsmanager", seconds=SECONDS, tries=TRIES))


def deployed() -> Internals:
    """Return the datasources of this process's environment."""
    return _process().internals()
