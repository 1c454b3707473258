"""Offline commands: verify a result, derive its key, add a key to the master secret."""

import base64
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fetcher.core.audit import verify_manifest
from fetcher.core.seal import KeyRing
from fetcher.core.tenants import DEFAULT_TENANT
from fetcher.errors import FetcherError
from fetcher_cli import console
from fetcher_cli.errors import FailedError, UsageError
from fetcher_cli.options import Key
from fetcher_cli.places import verify_key

MASTER = "FETCHER_MASTER_KEY"
NEW_KEY = 48
"""Bytes, as many as a generated first key has."""

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]


def verify(result: File, manifest: File, key: Key = None) -> None:
    """Check a result and its manifest without any network; exit 1 and name what fails."""
    with result.open("rb") as stream:
        findings = verify_manifest(manifest.read_bytes(), stream, verify_key(key))
    if findings:
        raise FailedError("\n".join(f"{finding.code}: {finding.detail}" for finding in findings))
    console.out().print("verified: signature, digest, chunks, parts and rows")


def derive_key(
    tenant: Annotated[str, typer.Option("--tenant")] = DEFAULT_TENANT,
    version: Annotated[str | None, typer.Option("--key-version", help="Default: the current one.")] = None,
) -> None:
    """Print the key that verifies a tenant's results, as hex.

    The master key comes from FETCHER_MASTER_KEY or stdin: the master secret's JSON, or one key in base64.
    """
    text = (os.environ.get(MASTER) or sys.stdin.read()).strip()
    try:
        ring = KeyRing.parse(text if text.startswith("{") else _ring_of(text))
        console.raw(ring.signing_key(version or ring.current, tenant).hex())
    except FetcherError as error:
        raise UsageError(error.message) from None  # no cause: it could carry the secret


def rotate_key() -> None:
    """Read the master secret's JSON on stdin and print it with a new current key; old keys stay."""
    try:
        ring = KeyRing.parse(sys.stdin.read())
    except FetcherError as error:
        raise UsageError(error.message) from None
    console.raw(json.dumps(_rotated(ring)))


def _ring_of(key: str) -> str:
    return json.dumps({"current": "1", "keys": {"1": key}})


def _rotated(ring: KeyRing) -> dict[str, Any]:
    """Number the new key above all others."""
    fresh = str(max((int(version) for version in ring.keys if version.isdecimal()), default=0) + 1)
    keys = {**ring.keys, fresh: secrets.token_bytes(NEW_KEY)}
    return {"current": fresh, "keys": {version: base64.b64encode(key).decode() for version, key in keys.items()}}
