"""Expands the SAM template to the plain CloudFormation that the endpoint deploys."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

Template = dict[str, Any]

PROVIDED = "provided.al2023"

EVERY_EVENT: Template = {
    "EveryEventQueue": {"Type": "AWS::SQS::Queue"},
    "EveryEventRule": {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "EventBusName": {"Ref": "Bus"},
            "EventPattern": {"source": [{"prefix": ""}]},
            "Targets": [{"Id": "queue", "Arn": {"Fn::GetAtt": ["EveryEventQueue", "Arn"]}}],
        },
    },
    "EveryEventQueuePolicy": {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {
            "Queues": [{"Ref": "EveryEventQueue"}],
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": {
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": {"Fn::GetAtt": ["EveryEventQueue", "Arn"]},
                    "Condition": {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["EveryEventRule", "Arn"]}}},
                },
            },
        },
    },
}
"""A queue behind a catch-all rule, so that whoever drives the stack can see what it publishes."""


def expand(template: Path, parameters: Mapping[str, str], *, code: str, layer: str | None, region: str) -> Template:
    """Translate as AWS would, with the functions' code at `code` and the layer's at `layer` (`s3://…`).

    Without a layer, functions run on a `provided` runtime whose bootstrap is part of their code. The one
    addition is a queue that hears every event.
    """
    source = yaml_parse(template.read_text())
    _locate(source, code=code, layer=layer or code)
    translated = _translate(source, parameters, region)
    if layer is None:
        _bring_own_runtime(translated["Resources"])
    translated["Resources"].update(EVERY_EVENT)
    translated["Outputs"]["EveryEventQueueUrl"] = {"Value": {"Ref": "EveryEventQueue"}}
    return translated


def _locate(source: Template, *, code: str, layer: str) -> None:
    """Put stored packages where the template names local folders."""
    for part in [source.get("Globals", {}).get("Function", {}), *_properties(source["Resources"])]:
        if "CodeUri" in part:
            part["CodeUri"] = code
        if "ContentUri" in part:
            part["ContentUri"] = layer


def _translate(source: Template, parameters: Mapping[str, str], region: str) -> Template:
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    session = boto3.Session(region_name=region)
    translator = Translator({}, Parser(), boto_session=session)
    translated: Template = translator.translate(source, parameter_values=dict(parameters))
    return translated


def _bring_own_runtime(resources: Template) -> None:
    for name in [name for name, resource in resources.items() if resource["Type"] == "AWS::Lambda::LayerVersion"]:
        del resources[name]
    for resource in resources.values():
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Runtime"] = PROVIDED
            resource["Properties"].pop("Layers", None)


def _properties(resources: Template) -> list[Template]:
    return [resource.get("Properties", {}) for resource in resources.values()]
