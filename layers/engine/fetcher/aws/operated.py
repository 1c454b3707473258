"""The operator's datasources of this deployment: the environment's variables, and those in a secret.

The secret is a JSON object of the same variables, so that a deployed stack has passwords and keys in Secrets Manager
and nowhere else. It lies under `fetcher/datasources/`, which no connection may refer to. A variable that both have is
the environment's. A secret that cannot be used as a whole changes nothing: its variables of before stay, and with none
of before any name may be the operator's.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
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
MENDED_SECONDS = 30.0
"""The same while something cannot be used: a job that needs it comes back some five times in minutes, then it ends."""
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
        self._variables: Mapping[str, Any] | None = None
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
            self._until = self._monotonic() + (MENDED_SECONDS if self._kept.problems else KEEP_SECONDS)
        return self._kept

    def _read(self) -> Internals:
        secret_id = self._env.get(DATASOURCES_VARIABLE)
        whole = self._refreshed(secret_id) if secret_id else None
        variables = self._variables or {}
        unknown = [f"{name} is not a known variable" for name in sorted(variables) if not is_variable(name)]
        internals = read({**variables, **self._env})
        problems = (*([whole] if whole else ()), *unknown, *internals.problems)
        for problem in problems:
            _log.error("an internal datasource cannot be used: %s", problem)
        return replace(internals, problems=problems, complete=whole is None or self._variables is not None)

    def _refreshed(self, secret_id: str) -> str | None:
        """Fetch the secret's variables; or say why it cannot be used as a whole, and leave those of before."""
        try:
            text = self._client().get_secret_value(SecretId=secret_id).get("SecretString", "")
        except ClientError as error:
            if not NOT_OURS.include(error):
                raise
            return f"{DATASOURCES_VARIABLE} names a secret that cannot be read"
        try:
            members = json.loads(text)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            return f"{DATASOURCES_VARIABLE} names a secret that is no JSON object"
        self._variables = members
        return None


@cache
def _process() -> Operated:
    return Operated(os.environ, lambda: client("secretsmanager", seconds=SECONDS, tries=TRIES))


def deployed() -> Internals:
    """Return the datasources of this process's environment."""
    return _process().internals()
