"""The operator's datasources of a deployment: environment and secret together."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fetcher.aws.connections import Connections
from fetcher.aws.internals import identity
from fetcher.aws.operated import KEEP_SECONDS, MENDED_SECONDS, Operated
from fetcher.errors import NotReadyError
from fetcher.settings import DATASOURCES_VARIABLE as VARIABLE
from tests.unit.conftest import Clock

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
        (json.dumps({**MEMBERS, "DATASOURCE_1_SSLMODE": False}), ["DATASOURCE_1_SSLMODE must be a text"]),
        (json.dumps({**MEMBERS, "DATASOURCE_1_CONFIG_NAME": ["ledger"]}), ["DATASOURCE_1_CONFIG_NAME must be a text"]),
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
    assert found.named("default", "ledger") is None or problems == ["PASSWORD is not a known variable"]


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


UNUSABLE = [error("AccessDeniedException"), error("DecryptionFailure"), "{canary", "[]"]
"""Answers with which the secret as a whole cannot be used."""


@pytest.mark.parametrize("answer", UNUSABLE, ids=str)
def test_a_secret_that_cannot_be_used_for_a_while_takes_no_datasource_away(answer: str | Exception) -> None:
    """R-000-73: what was read last is used, the problem is told, and the mended secret is seen soon."""
    clock = [0.0]
    secrets = Secrets(json.dumps(MEMBERS))
    found = operated(secrets, clock)
    assert named(found) is not None
    secrets.answer = answer
    for wait in (KEEP_SECONDS, MENDED_SECONDS, MENDED_SECONDS):
        clock[0] += wait
        assert named(found).secret.password == "canary"
        assert found.internals().reserves("default", "ledger")
        [problem] = found.internals().problems
        assert problem.startswith(VARIABLE)
    secrets.answer = json.dumps({**MEMBERS, "DATASOURCE_1_PASSWORD": "rotated"})
    clock[0] += MENDED_SECONDS
    assert named(found).secret.password == "rotated"
    assert found.internals().problems == ()


def test_a_bad_variable_is_noticed_as_mended_within_the_tries_of_a_job() -> None:
    """A typo costs its datasource, whose name stays taken, until it is mended."""
    clock = [0.0]
    secrets = Secrets(json.dumps(MEMBERS))
    found = operated(secrets, clock)
    assert named(found) is not None
    secrets.answer = json.dumps({**MEMBERS, "DATASOURCE_1_PORT": "54x"})
    clock[0] += KEEP_SECONDS
    assert named(found) is None
    assert found.internals().reserves("default", "ledger")
    secrets.answer = json.dumps(MEMBERS)
    clock[0] += MENDED_SECONDS
    assert named(found) is not None


@pytest.fixture
def secrets() -> Secrets:
    return Secrets(json.dumps(MEMBERS))


@pytest.fixture
def connections(client: Any, clock: Clock, secrets: Secrets) -> Connections:
    """Connections whose operator's secret is read again each time."""
    return Connections(client, "main", "main", clock, lambda: operated(secrets).internals())


LEDGER = identity("default", "ledger")


@pytest.mark.parametrize("answer", [*UNUSABLE, json.dumps({**MEMBERS, "DATASOURCE_1_PORT": "54x"})], ids=str)
def test_what_a_job_was_accepted_with_is_not_gone_while_it_cannot_be_told(
    connections: Connections, secrets: Secrets, answer: str | Exception
) -> None:
    """R-000-73: a process that has read nothing yet says that it is not ready; another's connection is gone or not."""
    assert connections.again("default", "ledger", LEDGER) is not None
    secrets.answer = answer
    with pytest.raises(NotReadyError):
        connections.again("default", "ledger", LEDGER)
    assert connections.again("default", "crm", "6e6a3b5e-0000-4000-8000-000000000000") is None
    secrets.answer = "{}"
    assert connections.again("default", "ledger", LEDGER) is None


@pytest.mark.parametrize("answer", UNUSABLE, ids=str)
def test_no_name_is_given_away_while_it_may_be_the_operators(
    connections: Connections, secrets: Secrets, answer: str | Exception
) -> None:
    """Reference 2.7: the name is the operator's, also while a process cannot read what its names are."""
    secrets.answer = answer
    new = operated(Secrets(json.dumps(MEMBERS))).internals().of("default")[0]
    with pytest.raises(NotReadyError):
        connections.create(new, "somebody")
    with pytest.raises(NotReadyError):
        connections.named("default", "ledger")
    secrets.answer = "{}"
    assert connections.named("default", "ledger") is None
