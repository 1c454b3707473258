"""What Secrets Manager holds: whose references may be, and how long what was fetched is kept."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fetcher.aws.secrets import RING_SECONDS, SECRET_SECONDS, Keys, Reference, References, reference_problem
from fetcher.errors import NotReadyError, RefusedError

NAME = "fetcher/connections/shop/crm"


class Secrets:
    """Secrets Manager with one secret."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def get_secret_value(self, *, SecretId: str) -> dict[str, str]:  # noqa: N803 - the name is boto3's
        self.asked += 1
        if SecretId != NAME:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSecretValue")
        return {"SecretString": self.text}


@pytest.mark.parametrize(
    "secret_id",
    [
        "fetcher/connections/other/crm",
        "fetcher/connections/shop",
        "fetcher/connections/shop/",
        "fetcher/connections/shopping/crm",
        "fetcher/connections/shop/a b",
        "fetcher/connections/shop/x\n",
        "fetcher/master",
        "/fetcher/connections/shop/crm",
        "arn:aws:secretsmanager:eu-west-1:000000000000:secret:fetcher/connections/shop/crm",
    ],
)
def test_a_tenant_refers_to_its_own_secrets_alone(secret_id: str) -> None:
    """Design §11: at create, and again wherever it is used."""
    reference = Reference(secret_id, "password")
    assert reference_problem("shop", reference)
    secrets = Secrets("{}")
    with pytest.raises(RefusedError):
        References(lambda: secrets).value("shop", reference)
    assert secrets.asked == 0
    assert reference_problem("shop", Reference(NAME, "password")) is None


def test_what_was_fetched_is_kept_for_a_while_and_asked_for_again_on_demand() -> None:
    """A rotated secret arrives within five minutes, or at once when the old one is refused."""
    now = 0.0
    secrets = Secrets(json.dumps({"password": "one"}))
    references = References(lambda: secrets, lambda: now)
    reference = Reference(NAME, "password")
    assert [references.value("shop", reference) for _ in range(3)] == ["one"] * 3
    secrets.text = json.dumps({"password": "two"})
    assert (references.value("shop", reference), secrets.asked) == ("one", 1)
    assert (references.value("shop", reference, fresh=True), secrets.asked) == ("two", 2)
    now = SECRET_SECONDS + 1
    assert (references.value("shop", reference), secrets.asked) == ("two", 3)


@pytest.mark.parametrize("text", ["canary", "[]", "{}", '{"password":7}', '{"password":""}', '{"password":null}', ""])
def test_a_secret_without_the_field_is_refused_and_not_quoted(text: str) -> None:
    """The parser's own error would hold the secret."""
    with pytest.raises(RefusedError) as caught:
        References(lambda: Secrets(text)).value("shop", Reference(NAME, "password"))
    error: Any = caught.value
    assert "canary" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_secret_that_is_not_there_is_refused_and_a_busy_service_is_not() -> None:
    """The former is the operator's to mend, the latter is tried again."""
    with pytest.raises(RefusedError):
        References(lambda: Secrets("{}")).value("shop", Reference(NAME + "2", "password"))

    class Busy:
        def get_secret_value(self, **_: str) -> None:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetSecretValue")

    with pytest.raises(ClientError):
        References(Busy).value("shop", Reference(NAME, "password"))


def ring(current: str) -> str:
    """A master secret with two keys."""
    return json.dumps({"current": current, "keys": dict.fromkeys(("1", "2"), "A" * 44)})


@pytest.mark.parametrize("broken", ["canary", '{"current":"3"}', None])
def test_a_ring_that_cannot_be_read_again_signs_on(broken: str | None) -> None:
    """R-000-73: a master secret that is no ring for a while, or of which AWS says nothing, ends no job."""
    now = 0.0
    secrets = Secrets(ring("1"))
    keys = Keys(secrets, NAME, lambda: now)
    assert keys.ring().current == "1"
    if broken is None:
        keys._secret_id = "fetcher/elsewhere"
    else:
        secrets.text = broken
    now = RING_SECONDS + 1
    assert keys.ring().current == "1"
    keys._secret_id, secrets.text = NAME, ring("2")
    now *= 2
    assert keys.ring().current == "2"


def test_without_any_ring_the_deployment_is_not_ready() -> None:
    """R-000-73: a failure of ours, which takes no job its tries at a source; the next call asks again."""
    secrets = Secrets("canary")
    keys = Keys(secrets, NAME)
    for _ in range(2):
        with pytest.raises(NotReadyError, match="the master secret is not usable") as caught:
            keys.ring()
        assert "canary" not in str(caught.value)
    secrets.text = ring("2")
    assert keys.ring().current == "2"
