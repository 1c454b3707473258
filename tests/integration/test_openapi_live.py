"""The described API against the one that answers: schemathesis makes the requests, from infra/openapi.json alone."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from infra.local.places import ROOT
from tests.gateway import gateway
from tests.resolver import Resolving, resolving
from tests.stack import Stack

pytestmark = pytest.mark.stack

LEFT_OUT: Mapping[str, str] = {
    "ignored_auth": "the gateway looks at tokens, the stage `local` has none; scopes are tried route by route",
    "unsupported_method": "a path that is not there by this method is 404 FET-0005, and docs/api.md says so",
    "allow_header_conformance": "it belongs to 405",
    "positive_data_acceptance": "a cursor, a version, a name or a host may be well formed and still be nobody's",
}
"""Checks that do not make sense here, each with its reason."""


@pytest.fixture(scope="module")
def service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resolving]:
    """A service of the test's own that resolves the examples' host to the stack's PostgreSQL, and no other name."""
    with resolving(stack, tmp_path_factory.mktemp("openapi")) as made:
        made.names({"db.example.com": ["127.0.0.1"]})
        yield made


def test_the_api_answers_as_it_is_described(service: Resolving, tmp_path: Path) -> None:
    """R-000-11, R-000-82, B-26, B-29: statuses, media types, headers and shapes; what is wrong is refused, all else is
    taken. The same seed each time."""
    with gateway(service) as url:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(ROOT / "infra" / "openapi.json"), "--url", url),
            *("--checks", "all", "--exclude-checks", ",".join(LEFT_OUT)),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "3", "--seed", "1"),
            *("--generation-deterministic", "--no-shrink", "--no-color"),
            *("--continue-on-failure", "--request-timeout", "40"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
