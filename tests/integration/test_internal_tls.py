"""The operator's datasources against servers that demand TLS: their mode comes from a variable."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from fetcher.aws.internals import identity
from infra.local.places import StackError
from tests.contract.guarded import serving
from tests.integration.test_connections_changing import PATH, refused
from tests.rig import Rig, rig
from tests.stack import Stack

pytestmark = pytest.mark.stack

MODES: Mapping[str, tuple[str, str | None]] = {
    "pg_require": ("postgresql", "require"),
    "pg_none": ("postgresql", None),
    "mongo_insecure": ("mongodb", "insecure"),
    "mongo_none": ("mongodb", None),
}


@pytest.fixture(scope="module")
def operated(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service with every datasource of the table, and two on servers without TLS."""
    variables: dict[str, str] = {}

    def add(name: str, kind: str, at: Any, user: str, password: str, mode: str | None) -> None:
        number = len(variables)
        members = {
            "CONFIG_NAME": name,
            "TYPE": kind.upper(),
            "HOST": "127.0.0.1",
            "PORT": str(at.port),
            "DATABASE": at.database,
            "USER": user,
            "PASSWORD": password,
            **({"SSLMODE": mode} if mode else {}),
        }
        variables.update({f"DATASOURCE_{number}_{member}": value for member, value in members.items()})

    with ExitStack() as opened:
        for name, (kind, mode) in MODES.items():
            try:
                guarded = opened.enter_context(serving(kind, stack))
            except StackError as missing:
                pytest.skip(f"{kind}: {missing}")
            to, secret = guarded.demanding or (guarded.to, guarded.secret)
            add(name, kind, to, to.user, secret.password, mode)
            plain = guarded.clear
            if mode is None:
                add(f"{name}_plain", kind, plain, plain.user, guarded.clear_secret.password, None)
        yield opened.enter_context(rig(stack, tmp_path_factory.mktemp("tls"), **variables))


@pytest.mark.parametrize("name", ["pg_require", "pg_none_plain", "mongo_insecure", "mongo_none_plain"])
def test_the_mode_that_the_server_wants_works(operated: Rig, name: str) -> None:
    """§13.6-2, §13.6-3, §13.6-4, §13.6-6: test and schema."""
    one = f"{PATH}/{identity('default', name)}"
    tested = operated.http("POST", f"{one}/test")
    assert (tested.status, tested.json()["status"]) == (200, "success"), tested
    assert operated.http("GET", f"{one}/schema").status == 200


@pytest.mark.parametrize("name", ["pg_none", "mongo_none"])
def test_a_server_that_demands_tls_is_not_reached_in_clear(operated: Rig, name: str) -> None:
    """§13.6-1, §13.6-5: on both; a test says so with 200, where the public system answers 500."""
    one = f"{PATH}/{identity('default', name)}"
    tested = operated.http("POST", f"{one}/test")
    assert (tested.status, tested.json()["status"]) == (200, "failure"), tested
    refused(operated.http("GET", f"{one}/schema"), 400, "FET-1040")
