"""The snippets of the documentation that others copy, run as they stand: they verify, derive a key and make a rule."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fetcher.core.manifest import Manifest, ResultEntry, render
from fetcher.core.seal import START_OF_CHAIN, Chunk, KeyRing, Seal, chained
from infra.local.places import ROOT

README, DOCS = ROOT / "README.md", ROOT / "docs"
KEY = bytes(range(32))


def snippet(name: str, page: Path = README) -> str:
    block = re.search(rf"<!-- tested: {name} -->\n```\w+\n(.*?)```", page.read_text(), re.DOTALL)
    assert block is not None
    return block[1]


@pytest.fixture
def signed(tmp_path: Path) -> str:
    """Store a signed result and its manifest; return the signature."""
    result = b'{"pg":{"accounts":[]}}'
    seal, digest = Seal(KEY), hashlib.sha256(result).hexdigest()
    seal.update(result)
    chunk = Chunk(len(result), digest, chained(START_OF_CHAIN, digest))
    entry = ResultEntry("results/default/u.json", len(result), digest, seal.hmac, "1", (chunk,))
    now = "2026-01-31T08:00:00.000Z"
    manifest = Manifest("job", "default", "0", "0", (), entry, now, now, now, attempts=1, engine_version="0")
    (tmp_path / "result.json").write_bytes(result)
    (tmp_path / "manifest.json").write_bytes(render(manifest, KEY))
    return seal.hmac


def ran(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=False
    )


def python(folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("result.json", "manifest.json", KEY.hex())
    return ran(folder, sys.executable, "-W", "ignore", "-c", snippet("python"), *arguments)


def test_the_python_snippet_is_ten_lines_and_verifies(tmp_path: Path, signed: str) -> None:
    assert len(snippet("python").splitlines()) <= 10
    assert python(tmp_path).stdout == "verified\n"


@pytest.mark.parametrize("name", ["result.json", "manifest.json"])
def test_the_python_snippet_finds_one_flipped_bit(tmp_path: Path, signed: str, name: str) -> None:
    changed = bytearray((tmp_path / name).read_bytes())
    changed[12] ^= 1
    (tmp_path / name).write_bytes(changed)
    done = python(tmp_path)
    assert (done.returncode, "not genuine" in done.stderr) == (1, True)


def test_the_shell_snippet_verifies(tmp_path: Path, signed: str) -> None:
    script = snippet("shell")
    assert ran(tmp_path, "sh", "-c", script, KEY=KEY.hex(), EXPECTED=signed).stdout == "verified\n"
    assert ran(tmp_path, "sh", "-c", script, KEY=KEY.hex(), EXPECTED="0" * 64).stdout == ""


@pytest.mark.parametrize("ring", [{"1": "{}"}, {"keys": {"1": "{}"}}], ids=["flat", "ring"])
def test_the_key_is_derived_as_the_page_says(tmp_path: Path, ring: dict[str, Any]) -> None:
    """R-000-80: by a reader who has nothing of ours, from either form of the secret, for any tenant."""
    master = base64.b64encode(KEY * 2).decode()
    secret = json.dumps({"current": "1", **ring}).replace("{}", master)
    script = snippet("derive", DOCS / "operations.md")
    for tenant, info in (("default", "hmac-v1"), ("acme", "hmac-v1:acme")):
        code = script.replace('hmac-v1"', f'{info}"')
        done = subprocess.run([sys.executable, "-c", code], input=secret, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == KeyRing.parse(secret).signing_key("1", tenant).hex()


AWS = """#!/bin/sh
# Stands in for the AWS CLI: notes what it was asked, and answers with names.
printf '%s\\0' "$@" >>asked; printf '\\n' >>asked
case "$1 $2" in
"sqs create-queue") echo "https://sqs/$4" ;;
"sqs get-queue-attributes") for url; do :; done; echo "arn:aws:sqs:r:1:${url##*/}" ;;
"events put-rule") echo arn:aws:events:r:1:rule/bus/payments ;;
*) echo bus ;;
esac
"""


def test_the_commands_of_a_rule_let_it_send_to_the_queue(tmp_path: Path) -> None:
    """Without a policy of exactly this rule and queue no event arrives, and nobody is told."""
    (tmp_path / "aws").write_text(AWS)
    (tmp_path / "aws").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = ran(tmp_path, "sh", "-ec", snippet("rule", DOCS / "events.md"), PATH=path, STACK="fetcher")
    assert done.stderr == ""
    asked = [line.split("\0")[:-1] for line in (tmp_path / "asked").read_text().splitlines()]
    granted = [json.loads(json.loads(words[-1])["Policy"])["Statement"] for words in asked if "--attributes" in words]
    rule = {"ArnEquals": {"aws:SourceArn": "arn:aws:events:r:1:rule/bus/payments"}}
    queues = ["arn:aws:sqs:r:1:payments-extractions", "arn:aws:sqs:r:1:payments-extractions-dead"]
    assert [(one["Resource"], one["Condition"]) for (one,) in granted] == [(queue, rule) for queue in queues]
    assert asked[-1][-1] == f"Id=queue,Arn={queues[0]},DeadLetterConfig={{Arn={queues[1]}}}"
