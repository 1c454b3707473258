"""`fetcher download` and `verify`, and the single-file verifier beside them; `derive-key` and `rotate-key`."""

import json
import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from fetcher.core.audit import verify_manifest
from fetcher.core.seal import KeyRing, external_hmac_key
from infra.local.places import ROOT
from tests.commandline import (
    CONNECTION,
    FAILED,
    JOB,
    JOBS,
    KEY,
    MASTER,
    RUNNING,
    Reply,
    Server,
    Signed,
    problem,
    run,
    serve,
    signed,
    stored,
    with_api,
)

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]

# --- download


def test_a_download_is_verified_and_kept_with_its_manifest(server: Server, tmp_path: Path) -> None:
    what = signed()
    serve(server, what)
    result = with_api(server, "download", JOB, "--verify", "--key", KEY.hex(), "--out", "r.json")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.json").read_bytes() == what.result
    assert (tmp_path / "r.manifest.json").read_bytes() == what.manifest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.manifest.json"]
    assert what.job["resultHmac"] in result.stdout


def test_without_verify_only_the_result_is_kept_under_the_jobs_name(server: Server, tmp_path: Path) -> None:
    serve(server, signed())
    assert with_api(server, "download", JOB).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{JOB}.json"]


def test_the_token_does_not_go_to_the_store(server: Server) -> None:
    serve(server, signed())
    with_api(server, "download", JOB, env={"FETCHER_TOKEN": "secret-token"})
    assert server.to(f"{JOBS}/{JOB}/result")[0].headers["Authorization"] == "Bearer secret-token"
    assert "Authorization" not in server.to("/store/u.json?signature=x")[0].headers


def test_a_changed_result_is_not_kept(server: Server, tmp_path: Path) -> None:
    what = signed()
    serve(server, Signed(what.result.replace(b"2", b"3"), what.manifest, what.job))
    result = with_api(server, "download", JOB)
    assert (result.exit_code, "result_sha256" in result.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_was_signed_by_another_is_not_kept(server: Server, tmp_path: Path) -> None:
    serve(server, signed())
    result = with_api(server, "download", JOB, "--verify", "--key", "00" * 32)
    assert (result.exit_code, "signature" in result.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_genuine_manifest_of_another_job_does_not_pass(server: Server, tmp_path: Path) -> None:
    what, other = signed(), signed(job_id=CONNECTION)
    serve(server, Signed(what.result, other.manifest, what.job))
    result = with_api(server, "download", JOB, "--verify", "--key", KEY.hex())
    assert (result.exit_code, "another result" in result.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_the_key_comes_from_the_stack_file_too(server: Server, tmp_path: Path) -> None:
    serve(server, signed())
    (tmp_path / "stack.json").write_text(json.dumps({"apiUrl": server.url, "verifyKeyHex": KEY.hex()}))
    result = run("download", JOB, "--verify", env={"FETCHER_STACK_FILE": "stack.json"})
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("job", "code", "text"), [(RUNNING, 2, "processing"), (FAILED, 1, "FET-2010"), (FAILED | {"error": None}, 1, "")]
)
def test_what_has_not_completed_cannot_be_downloaded(server: Server, job: Any, code: int, text: str) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=job))
    result = with_api(server, "download", JOB)
    assert (result.exit_code, text in result.stderr) == (code, True)


def test_an_expired_result_is_the_apis_own_problem(server: Server) -> None:
    serve(server, signed())
    server.on("GET", f"{JOBS}/{JOB}/result", problem(410, "FET-2006", "the result was deleted or has expired"))
    result = with_api(server, "download", JOB)
    assert (result.exit_code, "FET-2006" in result.stderr) == (2, True)


@pytest.mark.parametrize("link", [Reply(403, b"expired"), Reply(200, b"ab", {"Content-Length": "9"})])
def test_a_link_that_fails_or_breaks_off_leaves_nothing(server: Server, tmp_path: Path, link: Reply) -> None:
    serve(server, signed())
    server.on("GET", "/store/u.json?signature=x", link)
    result = with_api(server, "download", JOB)
    assert (result.exit_code, list(tmp_path.iterdir())) == (3, [])


# --- verify, offline


def test_verify_needs_no_network(tmp_path: Path) -> None:
    result = run("verify", *stored(tmp_path, signed()), "--key", KEY.hex())
    assert (result.exit_code, result.stdout.startswith("verified")) == (0, True)


def test_verify_names_what_fails(tmp_path: Path) -> None:
    what = signed()
    changed = bytearray(what.result)
    changed[3] ^= 1
    result = run("verify", *stored(tmp_path, Signed(bytes(changed), what.manifest, {})), "--key", KEY.hex())
    assert result.exit_code == 1
    named = [line.split(":")[0] for line in result.stderr.splitlines()]
    assert named == ["result_sha256", "result_hmac", "chunk", "chain"]


@pytest.mark.parametrize("key", ["", "xyz", "00", KEY.hex()[:-1]])
def test_verify_wants_a_whole_key(tmp_path: Path, key: str) -> None:
    assert run("verify", *stored(tmp_path, signed()), "--key", key).exit_code == 2


@pytest.mark.parametrize("spoiled", ["result", "longer", "shorter", "manifest", "empty", "nothing"])
def test_the_single_file_verifier_agrees_with_the_real_one(tmp_path: Path, spoiled: str) -> None:
    """`examples/verify.py` knows nothing of this package."""
    what = signed()
    result, manifest = {
        "result": (what.result.replace(b"2", b"3"), what.manifest),
        "longer": (what.result + b" ", what.manifest),
        "shorter": (what.result[:-1], what.manifest),
        "manifest": (what.result, what.manifest.replace(b'"attempts":1', b'"attempts":2')),
        "empty": (what.result, b""),
        "nothing": (what.result, what.manifest),
    }[spoiled]
    files = stored(tmp_path, Signed(result, manifest, {}))
    script = ROOT / "examples" / "verify.py"
    ran = subprocess.run(
        [sys.executable, "-I", str(script), *files, KEY.hex()], capture_output=True, text=True, check=False
    )
    expected = verify_manifest(manifest, BytesIO(result), KEY)
    assert ran.stderr == ""
    assert ran.returncode == (1 if expected else 0)
    names = {line.split(":")[0] for line in ran.stdout.splitlines()}
    assert names - {"verified"} <= {finding.code for finding in expected}
    assert bool(names - {"verified"}) == bool(expected)


# --- keys


def ring(**keys: bytes) -> str:
    named = {version.removeprefix("v"): b64encode(key).decode() for version, key in keys.items()}
    return json.dumps({"current": max(named), "keys": named})


def test_derive_key_gives_the_public_vector() -> None:
    """R-000-80: from the raw key and from the ring, by stdin and by environment."""
    raw = b64encode(MASTER).decode()
    assert run("derive-key", input=raw + "\n").stdout == KEY.hex() + "\n"
    assert run("derive-key", input=ring(v1=MASTER)).stdout == KEY.hex() + "\n"
    assert run("derive-key", env={"FETCHER_MASTER_KEY": raw}).stdout == KEY.hex() + "\n"


def test_derive_key_knows_tenants_and_versions() -> None:
    both = ring(v1=MASTER, v2=bytes(32))
    assert run("derive-key", "--tenant", "acme", input=ring(v1=MASTER)).stdout.strip() == (
        external_hmac_key(MASTER, "acme").hex()
    )
    assert run("derive-key", input=both).stdout.strip() == external_hmac_key(bytes(32), "default").hex()
    assert run("derive-key", "--key-version", "1", input=both).stdout.strip() == KEY.hex()
    assert run("derive-key", "--key-version", "9", input=both).exit_code == 2


@pytest.mark.parametrize("master", ["", "c2hvcnQ=", "not base64!", "{}", '{"current":"1"'])
def test_a_useless_master_key_is_refused_without_being_shown(master: str) -> None:
    result = run("derive-key", input=master)
    assert (result.exit_code, result.stdout) == (2, "")
    assert not master or master not in result.output


def test_rotate_key_adds_a_current_key_and_keeps_the_old_ones() -> None:
    rotated = KeyRing.parse(run("rotate-key", input=ring(v9=MASTER)).stdout)
    assert rotated.current == "10"
    assert rotated.keys["9"] == MASTER
    assert len(rotated.keys["10"]) == 48
    generated = json.dumps({"current": "1", "1": b64encode(MASTER).decode()})
    assert KeyRing.parse(run("rotate-key", input=generated).stdout).keys["1"] == MASTER
    assert run("rotate-key", input="{}").exit_code == 2
