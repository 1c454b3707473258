"""`examples/*.http`, sent as they stand: each request answers with the status written beside it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from infra.local.api import Answer
from tests.gateway import gateway
from tests.resolver import Resolving, resolving
from tests.stack import Stack

pytestmark = pytest.mark.stack

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.http"))
ENDED = "wait until the job has ended"
ROUTES_SHOWN = 15


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a file, its variables not filled in yet. `waits` stands after the one before it."""

    title: str
    status: int
    name: str | None
    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    waits: bool


def requests(file: Path) -> Iterator[Request]:
    """Read the requests of a file in the syntax of REST clients."""
    before = ""
    for block in re.split(r"^### ", file.read_text(), flags=re.MULTILINE):
        title, _, rest = block.partition("\n")
        found = re.fullmatch(r"(.*[:?]) (\d{3})", title)
        if found is not None:
            yield _request(file, found[1], int(found[2]), rest, waits=ENDED in before)
        before = rest


def _request(file: Path, title: str, status: int, text: str, *, waits: bool) -> Request:
    named = re.search(r"^# @name (\w+)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    head, _, body = "\n".join(lines).strip().partition("\n\n")
    first, *headers = head.splitlines()
    method, _, url = first.partition(" ")
    if body.startswith("< "):
        body = (file.parent / body[2:].strip()).read_text()
    return Request(
        title, status, named[1] if named else None, method, url, dict(h.split(": ", 1) for h in headers), body, waits
    )


def filled(text: str, known: Mapping[str, Any]) -> str:
    """Put in what `{{name}}` and `{{name.response.body.member}}` stand for."""

    def value(found: re.Match[str]) -> str:
        name, *path = found[1].split(".")
        return str(known[name] if not path else known[name][path[-1]])

    return re.sub(r"\{\{([\w.]+)\}\}", value, text)


@pytest.fixture(scope="module")
def service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resolving]:
    """A service with nothing in it."""
    with resolving(stack, tmp_path_factory.mktemp("examples")) as made:
        yield made


def sent(request: Request, known: Mapping[str, Any]) -> Answer:
    """Send one request."""
    pool = urllib3.PoolManager(retries=False)
    answer = pool.request(
        request.method,
        filled(request.url, known),
        body=filled(request.body, known).encode() or None,
        headers=request.headers,
        redirect=False,
        timeout=60,
    )
    return Answer(answer.status, answer.headers, answer.data)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_example_answers_as_it_says(service: Resolving, file: Path) -> None:
    """The whole file in its order, against a service of its own."""
    at = service.stack["databases"]["my_postgres"]
    known: dict[str, Any] = {name: at[name] for name in ("host", "port", "user", "password")}
    routes = set()
    with gateway(service) as known["api"]:
        for request in requests(file):
            if request.waits:
                assert service.work() is not None
            answer = sent(request, known)
            assert answer.status == request.status, (request.title, answer)
            routes.add((request.method, request.url.split("?")[0]))
            if request.name:
                known[request.name] = json.loads(answer.body)
    assert len(routes) >= ROUTES_SHOWN


def test_the_page_shows_our_description_and_loads_nothing(service: Resolving) -> None:
    """Problems as this API gives them: its 422 is the one of validate-schema, not the framework's."""
    page = service.http("GET", "/docs")
    assert page.status == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "FET-0400" in page.text
    assert "HTTPValidationError" not in page.text
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page.text)


def test_there_is_an_example_to_run() -> None:
    """A pattern that finds no file would pass."""
    assert FILES
