"""The template as SAM translates it and as one choice of parameters resolves it, for the tests that assert on it.

References stay visible as `${Id}`, attributes as `${Id.Name}`, so a right can be compared with what it is meant for.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
NOTHING = object()
CHOICES = {"Condition", "Fn::If", "Fn::Not", "Fn::EachMemberEquals", "Fn::Equals"}

FUNCTIONS = {
    "SubmitFunction": "submit.app.handler",
    "SweeperFunction": "submit.sweeper.handler",
    "ExtractFunction": "extract.app.handler",
    "DeadLetterFunction": "extract.dead_letter.handler",
    "NotifyFunction": "notify.app.handler",
}


class Deployment:
    """The template with its parameters, conditions and rules worked out."""

    def __init__(self, template: Mapping[str, Any], **given: str) -> None:
        self.template = template
        self.values = {name: str(p.get("Default", "")) for name, p in template["Parameters"].items()} | given
        self.resources: dict[str, Any] = {
            name: self.resolve({key: value for key, value in resource.items() if key != "Metadata"})
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def holds(self, condition: str) -> bool:
        return bool(self.resolve(self.template["Conditions"][condition]))

    def broken_rules(self) -> set[str]:
        return {
            name
            for name, rule in self.template["Rules"].items()
            if self.resolve(rule["RuleCondition"])
            and not all(self.resolve(assertion["Assert"]) for assertion in rule["Assertions"])
        }

    def resolve(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            [(name, argument)] = node.items()
            if name in {"Ref", "Condition"} or name.startswith("Fn::"):
                return self._choice(name, argument) if name in CHOICES else self._text(name, argument)
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not NOTHING}

    def _choice(self, function: str, argument: Any) -> Any:
        match function:
            case "Condition":
                return self.holds(argument)
            case "Fn::If":
                return self.resolve(argument[1] if self.holds(argument[0]) else argument[2])
            case "Fn::Not":
                return not self.resolve(argument[0])
            case "Fn::EachMemberEquals":
                return all(member == argument[1] for member in self.resolve(argument[0]))
            case _:
                left, right = map(self.resolve, argument)
                return left == right

    def _text(self, function: str, argument: Any) -> Any:
        match function:
            case "Ref":
                return self._ref(argument)
            case "Fn::GetAtt":
                return "${" + (argument if isinstance(argument, str) else ".".join(argument)) + "}"
            case "Fn::Sub":
                return re.sub(r"\$\{(\w+)\}", lambda found: str(self.values.get(found[1], found[0])), argument)
            case "Fn::Join":
                return argument[0].join(self.resolve(argument[1]))
            case "Fn::Split":
                return self.resolve(argument[1]).split(argument[0])
            case _:
                raise AssertionError(f"the template uses {function}, which this test cannot work out")

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOTHING
        if name not in self.values:
            return "${" + name + "}"
        if self.template["Parameters"][name]["Type"] == "CommaDelimitedList":
            return self.values[name].split(",")
        return self.values[name]

    def properties(self, name: str) -> dict[str, Any]:
        properties: dict[str, Any] = self.resources[name]["Properties"]
        return properties

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: r.get("Properties", {}) for name, r in self.resources.items() if r["Type"] == kind}


@cache
def written() -> Mapping[str, Any]:
    """The template as it is written; read once a process, and never changed."""
    template: Mapping[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())
    return template


@cache
def translated() -> dict[str, Any]:
    """Let SAM itself translate the template, as if `sam package` had uploaded code and layer."""
    source = deepcopy(dict(written()))
    source["Globals"]["Function"]["CodeUri"] = "s3://bucket/functions.zip"
    source["Resources"]["EngineLayer"]["Properties"]["ContentUri"] = "s3://bucket/layer.zip"
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        template: dict[str, Any] = Translator({}, Parser()).translate(source, {})
    return template


def deployed(**given: str) -> Deployment:
    return Deployment(translated(), **given)


def statements(role: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            yield {**statement, **{key: as_list(statement[key]) for key in ("Action", "Resource")}}


def as_list(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def plain_http_is_denied(document: Mapping[str, Any]) -> bool:
    return any(
        s["Effect"] == "Deny" and s["Principal"] == "*" and s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for s in document["Statement"]
    )
