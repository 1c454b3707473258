"""The operator's datasources of a deployment: environment and secret together."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fetcher.aws.operated import KEEP_SECONDS, Operated
from fetcher.settings import DATASOURCES_VARIABLE as VARIABLE

MEMBERS = {
    "DATASOURCE_1_CONFIG_NAME": "ledger",
    "DATASOURCE_1_TYPE": "POSTGRESQL",
    "DATASOURCE_1_HOST": "db.example",
    "DATASOURCE_1_DATABASE": "ledger",
    "DATASOURCE_1_USER": "reader",
    "DATASOURCE_1_PASSWORD": "canary",
}


class Secrets:
    """Answers what it is told to, as Secrets Manager does; a real one is in tests/integration."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked = 0

    def get_secret_value(self, **asked: str) -> dict[str, str]:
        assert asked == {"SecretId": "fetcher/datasources/x"}
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"SecretString": self.answer}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "canary"}}, "GetSecretValue")


def operated(secrets: Secrets, clock: list[float] | None = None, **env: str) -> Operated:
    now = clock or [0.0]
    return Operated({VARIABLE: "fetcher/datasources/x", **env}, lambda: secrets, lambda: now[0])


def named(found: Operated) -> Any:
    return found.internals().named("default", "ledger")


def test_without_a_secret_only_the_environment_counts() -> None:
    """No call is made."""
    secrets = Secrets(error("InternalServiceError"))
    found = Operated(MEMBERS, lambda: secrets)
    assert named(found).secret.password == "canary"
    assert secrets.asked == 0


def test_a_secret_holds_the_same_variables_and_the_environment_comes_first() -> None:
    """A host may stand in the environment, and its password in the secret."""
    found = operated(Secrets(json.dumps(MEMBERS)), DATASOURCE_1_HOST="elsewhere.example")
    assert (named(found).connection.host, named(found).secret.password) == ("elsewhere.example", "canary")
    assert found.internals().problems == ()


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        (json.dumps({**MEMBERS, "DATASOURCE_1_PORT": 5432}), ["DATASOURCE_1_PORT must be a text"]),
        (json.dumps({**MEMBERS, "PASSWORD": "canary"}), ["PASSWORD is not a known variable"]),
        (json.dumps({**MEMBERS, "DATASOURCE_1_TYPE": "canary"}), ["DATASOURCE_1_TYPE"]),
        (json.dumps([MEMBERS]), [VARIABLE]),
        ("canary", [VARIABLE]),
        ("", [VARIABLE]),
        (error("ResourceNotFoundException"), [VARIABLE]),
        (error("AccessDeniedException"), [VARIABLE]),
    ],
)
def test_what_cannot_be_used_is_named_and_never_shown(
    answer: str | Exception, problems: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A bad member by its name; a bad secret by the variable that names it."""
    found = operated(Secrets(answer)).internals()
    assert len(found.problems) == len(problems)
    for problem, start in zip(found.problems, problems, strict=True):
        assert problem.startswith(start)
        assert "canary" not in problem
        assert problem in caplog.text
    assert "canary" not in caplog.text


def test_what_aws_could_not_say_is_no_answer() -> None:
    """A job must not fail as if its datasource had gone; the next call asks again."""
    secrets = Secrets(error("InternalServiceError"))
    found = operated(secrets)
    for _ in range(2):
        with pytest.raises(ClientError):
            found.internals()
    secrets.answer = json.dumps(MEMBERS)
    assert named(found) is not None


def test_a_change_is_seen_within_minutes_and_a_failure_then_changes_nothing() -> None:
    """Rotation without a deployment."""
    clock = [0.0]
    secrets = Secrets(json.dumps(MEMBERS))
    found = operated(secrets, clock)
    assert named(found).secret.password == "canary"
    secrets.answer = json.dumps({**MEMBERS, "DATASOURCE_1_PASSWORD": "rotated"})
    assert named(found).secret.password == "canary"
    clock[0] += KEEP_SECONDS
    assert named(found).secret.password == "rotated"
    secrets.answer = error("InternalServiceError")
    clock[0] += KEEP_SECONDS
    assert named(found).secret.password == "rotated"
    assert secrets.asked == 3
