"""The description of the API: complete, true to the code, and the one that is committed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from submit.app import app, described
from submit.examples import ROUTES
from submit.problems import TITLES, status_of
from submit.scopes import SCOPES

COMMITTED = Path(__file__).parents[2] / "infra" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The description as the code makes it."""
    made: dict[str, Any] = json.loads(described())
    return made


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every method, path and operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def contents(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every status, media type and content of every answer."""
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            for media, content in answer.get("content", {}).items():
                yield status, media, content


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    """A validator that finds the document's components."""
    return Draft202012Validator({**schema, "components": document["components"]})


def test_the_committed_description_is_the_codes() -> None:
    """Checked for drift; write it anew with `python -m submit.describe > infra/openapi.json`."""
    assert COMMITTED.read_text() == described()


def test_every_route_is_described_once(document: dict[str, Any]) -> None:
    """A route without answers, or answers without a route, would be a lie."""
    routes = {
        (route.method.lower(), route.openapi_path)
        for route in app._static_routes + app._dynamic_routes
        if route.include_in_schema
    }
    assert {(method, path) for method, path, _ in operations(document)} == set(ROUTES) == routes
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def test_every_answer_has_an_example_of_its_shape(document: dict[str, Any]) -> None:
    """Examples for every status."""
    seen = 0
    for _, media, content in contents(document):
        examples = [content["example"]] if "example" in content else []
        examples += [document["components"]["examples"][name]["value"] for name in content.get("examples", {})]
        assert examples
        for example in examples:
            validator(document, content["schema"]).validate(example)
            assert (media == "application/problem+json") == ("urn:" in str(example.get("type")))
            seen += 1
    assert seen > 100


def test_bodies_have_examples_that_their_schema_takes(document: dict[str, Any]) -> None:
    """An example that is refused would teach a mistake."""
    bodies = [operation["requestBody"] for _, _, operation in operations(document) if "requestBody" in operation]
    assert len(bodies) == 4
    for body in bodies:
        for content in body["content"].values():
            schema = content["schema"]
            name = schema.get("$ref", "").removeprefix("#/components/schemas/")
            example = (document["components"]["schemas"][name] if name else schema)["example"]
            validator(document, schema).validate(example)


def test_problems_stand_under_their_status_and_in_one_shape(document: dict[str, Any]) -> None:
    """Design §2: one shape everywhere; no validation error of the framework's."""
    for status, media, content in contents(document):
        if media != "application/problem+json":
            continue
        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert {str(int(status_of(code))) for code in content["examples"]} == {status}
    assert "HTTPValidationError" not in json.dumps(document)
    assert set(document["components"]["examples"]) == set(TITLES) - {"FET-0005"}


def test_everything_but_the_status_routes_is_protected(document: dict[str, Any]) -> None:
    """A scope for each route."""
    for _, path, operation in operations(document):
        if not path.startswith("/v1/"):
            assert operation["security"] == []
            continue
        token, signed = operation["security"]
        assert token["jwt"][0] in SCOPES
        assert signed == {"iam": []}
        assert {"401", "403"} <= operation["responses"].keys()


def test_the_patch_takes_everything_that_a_registration_has(document: dict[str, Any]) -> None:
    """A member that is added to one is in the other."""
    patch = document["paths"]["/v1/management/connections/{connection_id}"]["patch"]
    schema = patch["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"].keys() == document["components"]["schemas"]["ConnectionBody"]["properties"].keys()
    assert "required" not in schema
