"""The two events as consumers may rely on them: JSON Schema draft-04, which EventBridge's registry takes."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator
from jsonschema.exceptions import ValidationError

from fetcher.core.extraction import event_id
from fetcher.core.lifecycle import Status

FOLDER = Path(__file__).parents[2] / "infra" / "schemas"
NAMES = ("job.completed", "job.failed")
FAMILIES = ("invalid", "refused", "unavailable", "limit", "timeout", "canceled", "internal")


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return read


def example(name: str) -> dict[str, Any]:
    first: dict[str, Any] = copy.deepcopy(schema(name)["x-examples"][0])
    return first


def validate(name: str, detail: dict[str, Any]) -> None:
    Draft4Validator(schema(name), format_checker=Draft4Validator.FORMAT_CHECKER).validate(detail)


def test_there_is_one_schema_for_each_terminal_event() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_draft_04_and_says_which_event_it_describes(name: str) -> None:
    read = schema(name)
    assert read["$schema"] == "http://json-schema.org/draft-04/schema#"
    Draft4Validator.check_schema(read)
    assert (read["x-amazon-events-source"], read["x-amazon-events-detail-type"]) == ("fetcher", name)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_valid_and_carry_the_id_the_code_gives(name: str) -> None:
    detail = example(name)
    validate(name, detail)
    assert detail["id"] == event_id(Status(detail["status"]), detail["jobId"])


@pytest.mark.parametrize("name", NAMES)
def test_a_member_added_later_is_no_error(name: str) -> None:
    validate(name, {**example(name), "addedLater": {"any": "thing"}})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("status", ["pending", "processing", "canceled", "skipped", "", None])
def test_an_unknown_status_is_refused(name: str, status: str | None) -> None:
    with pytest.raises(ValidationError):
        validate(name, {**example(name), "status": status})


@pytest.mark.parametrize("name", NAMES)
def test_one_event_is_never_taken_for_the_other(name: str) -> None:
    [other] = set(NAMES) - {name}
    with pytest.raises(ValidationError):
        validate(name, example(other))
    with pytest.raises(ValidationError):
        validate(name, {**example(other), **example(name)})


@pytest.mark.parametrize(("name", "member"), [(name, member) for name in NAMES for member in schema(name)["required"]])
def test_no_member_may_be_missing(name: str, member: str) -> None:
    detail = example(name)
    del detail[member]
    with pytest.raises(ValidationError):
        validate(name, detail)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_of_failure_is_known(family: str) -> None:
    detail = example("job.failed")
    detail["error"]["family"] = family
    validate("job.failed", detail)


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(detail: dict[str, Any]) -> None:
        for step in path[:-1]:
            detail = detail[step]
        detail[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("job.failed", _set("error", "family", to="unlucky")),
        ("job.failed", _set("error", "code", to="FET-0001")),
        ("job.failed", _set("error", "message", to="")),
        ("job.failed", _set("version", to="2")),
        ("job.failed", _set("metadata", "source", to="")),
        ("job.completed", _set("result", "sha256", to="9F86")),
        ("job.completed", _set("result", "path", to="requests/x.json")),
        ("job.completed", _set("result", "rowCount", to=-1)),
        ("job.completed", _set("result", "sizeBytes", to="12")),
        ("job.completed", _set("createdAt", to="2026-11-29 10:00:00")),
        ("job.completed", _set("jobId", to="not-a-uuid")),
    ],
)
def test_a_wrong_value_is_refused(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    detail = example(name)
    change(detail)
    with pytest.raises(ValidationError):
        validate(name, detail)
