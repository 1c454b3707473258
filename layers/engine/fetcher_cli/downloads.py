"""Bringing a result home: a file gets its final name only when everything that was asked for holds."""

import hashlib
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import urllib3

from fetcher.core.audit import verify_manifest
from fetcher.core.seal import BLOCK, same
from fetcher_cli.api import Api
from fetcher_cli.errors import FailedError, UnreachableError


def download_result(client: Api, job: Mapping[str, Any], target: Path, key: bytes | None) -> list[str]:
    """Download the result of a completed job to `target`, and with a key verify it and keep its manifest.

    Returns what was seen, line by line. Raises `FailedError` naming what does not hold; then nothing is kept.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        size, digest = _fetched(_link(client, job["id"]), part)
        if size != job["sizeBytes"] or not same(job["resultSha256"], digest):
            raise FailedError("The download is not the result of this job (result_sha256); nothing was kept.")
        lines = [f"{size:,} bytes in {target}", f"SHA-256 {digest}"]
        if key is not None:
            lines += _verified(client, job, part, target, key)
        part.replace(target)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return lines


def manifest_beside(target: Path) -> Path:
    """Name the manifest of a result: `job.json` has `job.manifest.json`."""
    return target.with_name(f"{target.stem}.manifest.json")


def _link(client: Api, job_id: str) -> str:
    location = client.get(f"/v1/fetcher/{job_id}/result").headers.get("Location")
    if not location:
        raise UnreachableError("the API gave no link to the result")
    return location


def _fetched(link: str, target: Path) -> tuple[int, str]:
    """Store what a presigned link gives. Nothing of ours goes along: the token is not for the store."""
    digest, size = hashlib.sha256(), 0
    try:
        with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
            answer = pool.request("GET", link, preload_content=False, redirect=False)
            with closing(answer), target.open("wb") as file:
                if answer.status != 200:
                    raise UnreachableError(f"the store answered {answer.status} to the link; try again for a new one")
                for block in answer.stream(BLOCK):
                    file.write(block)
                    digest.update(block)
                    size += len(block)
    except urllib3.exceptions.HTTPError as error:
        raise UnreachableError("the download broke off; nothing was kept") from error
    return size, digest.hexdigest()


def _verified(client: Api, job: Mapping[str, Any], result: Path, target: Path, key: bytes) -> list[str]:
    manifest = client.get(f"/v1/fetcher/{job['id']}/manifest")
    with result.open("rb") as stream:
        findings = verify_manifest(manifest.body, stream, key)
    if findings:
        raise FailedError(
            "\n".join(["Not verified; nothing was kept:", *(f"  {f.code}: {f.detail}" for f in findings)])
        )
    claimed = manifest.json()
    if claimed["extractionId"] != job["id"] or not same(claimed["result"]["hmac"], job["resultHmac"]):
        raise FailedError("The manifest is genuine, but of another result (job); nothing was kept.")
    kept = manifest_beside(target)
    kept.write_bytes(manifest.body)
    return [f"signature {job['resultHmac']} verified", f"manifest verified and kept in {kept}"]
