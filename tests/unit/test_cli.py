"""The command line against a real HTTP server on this machine, which stands in for the API and for S3.

The server answers what a test has scripted and keeps what it was sent; the real service is driven in
`tests/integration/test_cli.py`.
"""

import hashlib
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from fetcher.core.audit import verify_manifest
from fetcher.core.manifest import DatasourceEntry, Manifest, Part, ResultEntry, TableEntry, render
from fetcher.core.seal import START_OF_CHAIN, Chunk, KeyRing, Seal, chained, external_hmac_key
from fetcher.model import Column, Encoding, Position, Query
from fetcher_cli import progress
from fetcher_cli.api import Api, retry_after
from fetcher_cli.app import app
from fetcher_cli.errors import UnreachableError
from fetcher_cli.jobs import follow

pytestmark = pytest.mark.enable_socket

ROOT = Path(__file__).parents[2]
JOB = "5b1f7a52-8f0e-4f0b-9a5d-0d6f5a3f1c11"
CONNECTION = "0b6a2f6e-98a4-4a2e-8a4c-3b1f0a7f2d10"
JOBS, CONNECTIONS = "/v1/fetcher", "/v1/management/connections"

MASTER = bytes(range(32))
KEY = bytes.fromhex("ec9eedfd0b245950528714e5328ff2c2639ab32540a309f1cd68685ceaff9dfe")
"""The external key of that master key: vector of the public system."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer. A `dict` body is sent as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Server:
    """Answers by script: each route gives its replies in order, and the last one for ever."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._script: dict[tuple[str, str], list[Reply]] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def on(self, method: str, path: str, *replies: Reply) -> None:
        """Script a route."""
        self._script[method, path] = list(replies)

    def reply(self, sent: Sent) -> Reply:
        self.sent.append(sent)
        script = self._script.get((sent.method, sent.path), [problem(404, "FET-0005", "there is no such route")])
        return script.pop(0) if len(script) > 1 else script[0]

    def to(self, path: str) -> list[Sent]:
        """Return what was sent to a path."""
        return [sent for sent in self.sent if sent.path == path]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            reply = server.reply(Sent(self.command, self.path, dict(self.headers), body))
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.bytes())), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.bytes())

        do_GET = do_POST = do_DELETE = do_any  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def problem(status: int, code: str, detail: str, *pointers: str) -> Reply:
    """Answer as the API answers errors."""
    errors = [{"pointer": pointer, "detail": detail} for pointer in pointers]
    body = {"code": code, "status": status, "detail": detail, "requestId": "request-1", "errors": errors}
    return Reply(status, body, {"Content-Type": "application/problem+json"})


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of whoever runs the tests, and a folder of one's own."""
    for name in [name for name in os.environ if name.startswith(("FETCHER_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input, env=env)


def with_api(server: Server, *arguments: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Result:
    return run(*arguments, "--api", server.url, input=input, env=env)


# --- a signed result


ID = Column("id", "bigint", Encoding.INTEGER, nullable=False)
MIDDLE = Position((("bigint", "1"),))
DOCUMENT = b'{"pg":{"accounts":[{"id":1},{"id":2}]}}'


@dataclass(frozen=True, slots=True)
class Signed:
    """A result, its manifest, and the job that shows both."""

    result: bytes
    manifest: bytes
    job: Mapping[str, Any]


def signed(result: bytes = DOCUMENT, job_id: str = JOB) -> Signed:
    """Sign a document of two chunks and two parts."""
    seal, chunks, chain = Seal(KEY), [], START_OF_CHAIN
    for piece in (result[:20], result[20:]):
        seal.update(piece)
        digest = hashlib.sha256(piece).hexdigest()
        chain = chained(chain, digest)
        chunks.append(Chunk(len(piece), digest, chain))
    table = TableEntry(
        Query("accounts", ("public", "accounts"), (ID,), (ID,)), (Part(1, high=MIDDLE), Part(1, low=MIDDLE))
    )
    entry = ResultEntry("results/default/u.json", len(result), seal.sha256, seal.hmac, "1", tuple(chunks))
    manifest = Manifest(
        extraction_id=job_id,
        tenant="default",
        request_hash="00",
        plan_digest="00",
        datasources=(DatasourceEntry("pg", "postgresql", "repeatable read", (table,)),),
        result=entry,
        created_at="2026-01-31T08:00:00.000Z",
        started_at="2026-01-31T08:00:01.000Z",
        completed_at="2026-01-31T08:00:02.000Z",
        attempts=1,
        engine_version="0.1.0",
    )
    job = {
        "id": job_id,
        "status": "completed",
        "metadata": {"source": "payments"},
        "createdAt": "2026-01-31T08:00:00.000Z",
        "attempts": 1,
        "progress": {"rows": 2, "bytes": len(result), "tables": {"done": 1, "total": 1}},
        "resultSha256": seal.sha256,
        "resultHmac": seal.hmac,
        "sizeBytes": len(result),
        "rowCount": 2,
    }
    return Signed(result, render(manifest, KEY), job)


RUNNING = {
    "id": JOB,
    "status": "processing",
    "metadata": {"source": "payments"},
    "createdAt": "2026-01-31T08:00:00.000Z",
    "attempts": 1,
    "progress": {"rows": 1, "bytes": 9, "tables": {"done": 0, "total": 1}, "current": "pg/accounts"},
}
FAILED = {
    **RUNNING,
    "status": "failed",
    "error": {"code": "FET-2010", "family": "invalid", "message": "no", "datasource": "pg", "table": "t", "field": "f"},
}
AT_ONCE = {"Retry-After": "0"}


def serve(server: Server, what: Signed, *, link: str = "/store/u.json?signature=x") -> None:
    """Serve a completed job, its result through a link, and its manifest."""
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=what.job))
    server.on("GET", f"{JOBS}/{JOB}/result", Reply(303, headers={"Location": server.url + link}))
    server.on("GET", f"{JOBS}/{JOB}/manifest", Reply(body=what.manifest))
    server.on("GET", link, Reply(body=what.result))


# --- where the API is, who calls


def test_the_api_is_found_by_option_by_environment_and_by_the_stack_file(server: Server, tmp_path: Path) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=RUNNING))
    named = tmp_path / "mine.json"
    named.write_text(json.dumps({"apiUrl": server.url + "/"}))
    (tmp_path / ".local").mkdir()
    assert run("status", JOB).exit_code == 2
    assert run("status", JOB, "--api", server.url).exit_code == 0
    assert run("status", JOB, env={"FETCHER_API": server.url}).exit_code == 0
    assert run("status", JOB, env={"FETCHER_STACK_FILE": str(named)}).exit_code == 0
    named.rename(tmp_path / ".local" / "stack.json")
    assert run("status", JOB).exit_code == 0
    assert len(server.sent) == 4


def test_no_api_is_a_usage_error_that_says_what_to_do() -> None:
    result = run("status", JOB)
    assert result.exit_code == 2
    for way in ("--api", "FETCHER_API", "make up"):
        assert way in result.stderr


def test_a_broken_stack_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    result = run("status", JOB, env={"FETCHER_STACK_FILE": "broken.json"})
    assert (result.exit_code, "broken.json" in result.stderr) == (2, True)


def test_an_address_must_be_http() -> None:
    assert run("status", JOB, "--api", "file:///etc/passwd").exit_code == 2


def test_the_token_travels_as_a_bearer(server: Server) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=RUNNING))
    with_api(server, "status", JOB, env={"FETCHER_TOKEN": "secret-token"})
    with_api(server, "status", JOB)
    assert [sent.headers.get("Authorization") for sent in server.sent] == ["Bearer secret-token", None]


def test_the_token_is_not_sent_in_the_clear_to_another_machine() -> None:
    result = run("status", JOB, "--api", "http://example.com", env={"FETCHER_TOKEN": "secret-token"})
    assert (result.exit_code, "https" in result.stderr, "secret-token" in result.output) == (2, True, False)


def test_iam_signs_the_request(server: Server) -> None:
    server.on("POST", JOBS, Reply(202, {"jobId": JOB}))
    (Path.cwd() / "job.json").write_text("{}")
    env = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "eu-west-1"}
    assert with_api(server, "submit", "job.json", "--iam", env=env).exit_code == 0
    authorization = server.sent[0].headers["Authorization"]
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/execute-api/aws4_request" in authorization
    assert server.sent[0].body == b"{}"


def test_iam_takes_the_region_from_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from fetcher_cli.api import connect

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    api = connect("https://abc.execute-api.sa-east-1.amazonaws.com", iam=True)
    assert "/sa-east-1/" in api._sign("GET", api.url, None, {})["Authorization"]


def test_iam_without_credentials_says_so(server: Server) -> None:
    result = with_api(server, "status", JOB, "--iam")
    assert (result.exit_code, "credentials" in result.stderr) == (2, True)


# --- errors and exit codes


def test_a_problem_is_shown_with_code_text_pointers_and_request(server: Server) -> None:
    server.on("POST", JOBS, problem(400, "FET-0401", "this is missing", "/dataRequest/mappedFields"))
    (Path.cwd() / "job.json").write_text("{}")
    result = with_api(server, "submit", "job.json")
    assert result.exit_code == 2
    assert result.stdout == ""
    for part in ("FET-0401 (400): this is missing", "/dataRequest/mappedFields: this is missing", "request-1"):
        assert part in result.stderr


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (problem(404, "FET-1001", "there is no job of this id"), 2),
        (problem(503, "FET-0003", "not ready"), 3),
        (Reply(401, {"message": "Unauthorized"}), 2),
        (Reply(403, {"message": "Forbidden"}), 2),
        (Reply(429, {"message": "Too Many Requests"}), 3),
        (Reply(502, b"<html>bad gateway</html>"), 3),
        (Reply(500, b"[]"), 3),
    ],
)
def test_the_exit_code_tells_wrong_from_not_now(server: Server, reply: Reply, code: int) -> None:
    server.on("GET", f"{JOBS}/{JOB}", reply)
    result = with_api(server, "status", JOB)
    assert (result.exit_code, result.stdout, str(reply.status) in result.stderr) == (code, "", True)


def test_an_api_that_does_not_answer_is_out_of_reach(server: Server) -> None:
    server.close()
    result = with_api(server, "status", JOB)
    assert (result.exit_code, server.url in result.stderr) == (3, True)


def test_wrong_usage_is_two() -> None:
    assert run("status").exit_code == 2
    assert run("no-such-command").exit_code == 2


# --- submit


def test_submit_sends_the_file_as_it_is_and_prints_the_id(server: Server) -> None:
    server.on("POST", JOBS, Reply(202, {"jobId": JOB}))
    body = '{"dataRequest": {"filters": {"n": 1.0}}}\n'
    result = with_api(server, "submit", "-", input=body)
    assert (result.exit_code, result.stdout) == (0, f"{JOB}\n")
    assert server.sent[0].body == body.encode()
    assert server.sent[0].headers["Content-Type"] == "application/json"


def test_submit_says_when_another_job_answers(server: Server) -> None:
    server.on("POST", JOBS, Reply(200, {"jobId": JOB}))
    result = with_api(server, "submit", "-", "--json", input="{}")
    assert json.loads(result.stdout) == {"jobId": JOB}
    assert "live job" in result.stderr


def test_waiting_shows_progress_in_plain_lines_and_ends_with_the_job(server: Server) -> None:
    server.on("POST", JOBS, Reply(202, {"jobId": JOB}))
    done = Reply(body=signed().job)
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=RUNNING, headers=AT_ONCE), Reply(304, headers=AT_ONCE), done)
    result = with_api(server, "submit", "-", "--wait", input="{}")
    assert (result.exit_code, result.stdout) == (0, f"{JOB}\n")
    assert result.stderr.splitlines() == [
        "accepted",
        "processing: 0 of 1 tables, 1 rows, 0.0 MB, reading pg/accounts",
        "completed: 1 of 1 tables, 2 rows, 0.0 MB",
    ]


def test_a_job_that_fails_is_one(server: Server) -> None:
    server.on("POST", JOBS, Reply(202, {"jobId": JOB}))
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=FAILED))
    result = with_api(server, "submit", "-", "--wait", "--json", input="{}")
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (1, "failed")
    assert "FET-2010 (invalid): no at pg/t/f" in result.stderr


def test_polling_asks_whether_anything_changed_and_waits_as_told(server: Server) -> None:
    tagged = {"ETag": '"1"', "Retry-After": "7"}
    server.on(
        "GET",
        f"{JOBS}/{JOB}",
        Reply(body=RUNNING, headers=tagged),
        Reply(304, headers=tagged),
        Reply(503, {"detail": "later"}, {"Retry-After": "3"}),
        Reply(body=signed().job),
    )
    waited: list[float] = []
    with Api(server.url, lambda *given: given[3]) as api:
        job, text = follow(api, JOB, lambda job: None, waited.append)
    assert (job["status"], json.loads(text)["status"], waited) == ("completed", "completed", [7, 7, 3])
    assert [sent.headers.get("If-None-Match") for sent in server.sent] == [None, '"1"', '"1"', '"1"']


def test_polling_gives_up_after_five_failures_in_a_row(server: Server) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(503, {"detail": "later"}))
    waited: list[float] = []
    with Api(server.url, lambda *given: given[3]) as api, pytest.raises(UnreachableError):
        follow(api, JOB, lambda job: None, waited.append)
    assert (len(server.sent), waited) == (5, [2, 2, 2, 2])


def test_a_given_up_wait_says_how_to_go_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetcher_cli.jobs.TRIES", 1)
    server.on("POST", JOBS, Reply(202, {"jobId": JOB}))
    server.on("GET", f"{JOBS}/{JOB}", Reply(503, {"detail": "later"}))
    result = with_api(server, "submit", "-", "--wait", input="{}")
    assert (result.exit_code, f"fetcher status {JOB}" in result.stderr) == (3, True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), ("0", 0), ("Sat, 31 Jan 2026 08:00:30 GMT", 30), ("Sat, 31 Jan 2026 07:00:00 GMT", 0), ("soon", 2)],
)
def test_retry_after_may_be_seconds_or_a_date(text: str, seconds: float) -> None:
    assert retry_after({"Retry-After": text}, 2.0, now=lambda: 1769846400.0) == seconds


def test_a_terminal_gets_a_bar() -> None:
    console = Console(force_terminal=True, width=120)
    with console.capture() as captured, progress.shown(console) as show:
        show(RUNNING)
        show(signed().job)
    assert "completed: 1 of 1 tables" in captured.get()
    assert "━" in captured.get()


# --- status


def test_status_shows_what_matters(server: Server) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=FAILED), Reply(body=signed().job))
    assert "FET-2010" in with_api(server, "status", JOB).stdout
    shown = with_api(server, "status", JOB).stdout
    assert signed().job["resultHmac"] in shown
    assert "payments" in shown


def test_cancel_asks_for_the_end(server: Server) -> None:
    ended = problem(409, "FET-2007", "the job has ended already")
    server.on("POST", f"{JOBS}/{JOB}/cancel", Reply(202, {"jobId": JOB, "message": "Cancel accepted"}), ended)
    result = with_api(server, "cancel", JOB)
    assert (result.exit_code, result.stdout) == (0, "Cancel accepted\n")
    result = with_api(server, "cancel", JOB)
    assert (result.exit_code, "FET-2007" in result.stderr) == (2, True)


def test_status_as_json_is_the_apis_own_bytes(server: Server) -> None:
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=b'{"n":1.00}'))
    assert with_api(server, "status", JOB, "--json").stdout == '{"n":1.00}\n'


def test_an_id_cannot_leave_its_place_in_the_path(server: Server) -> None:
    with_api(server, "status", "../management/connections?x")
    assert server.sent[0].path == "/v1/fetcher/..%2Fmanagement%2Fconnections%3Fx"


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


def stored(folder: Path, what: Signed) -> tuple[str, str]:
    (folder / "result.json").write_bytes(what.result)
    (folder / "manifest.json").write_bytes(what.manifest)
    return "result.json", "manifest.json"


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


# --- connections


CREATE = (
    "connections", "create", "--name", "my_postgres", "--type", "postgresql", "--host", "db.example.com",
    "--database", "payments", "--user", "reader", "--product", "payments",
)  # fmt: skip


@pytest.mark.parametrize("way", ["prompt", "stdin", "environment"])
def test_create_registers_a_connection_and_never_shows_the_password(server: Server, way: str) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    more = ["--password-stdin"] if way == "stdin" else []
    env = {"FETCHER_PASSWORD": "s3cret"} if way == "environment" else {}
    result = with_api(server, *CREATE, *more, input=None if env else "s3cret\n", env=env)
    assert (result.exit_code, result.stdout.split()) == (0, [CONNECTION])
    assert "s3cret" not in result.output
    assert server.sent[0].headers["X-Product-Name"] == "payments"
    assert json.loads(server.sent[0].body) == {
        "configName": "my_postgres",
        "type": "POSTGRESQL",
        "host": "db.example.com",
        "port": 5432,
        "databaseName": "payments",
        "userName": "reader",
        "password": "s3cret",
    }


def test_create_takes_tls_schema_port_and_metadata(server: Server, tmp_path: Path) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    (tmp_path / "ca.pem").write_text("PEM")
    more = ["--tls-mode", "verify-full", "--tls-ca", "ca.pem", "--schema", "app", "--port", "6543"]
    more += ["--metadata", "serviceName=X"]
    assert with_api(server, *CREATE, *more, input="x\n").exit_code == 0
    sent = json.loads(server.sent[0].body)
    assert sent["ssl"] == {"mode": "verify-full", "ca": "PEM"}
    assert (sent["schema"], sent["port"], sent["metadata"]) == ("app", 6543, {"serviceName": "X"})


@pytest.mark.parametrize("kind", ["sqlserver", "SQL_SERVER", "Sql_Server"])
def test_create_spells_the_kind_as_the_api_does(server: Server, kind: str) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    with_api(server, *CREATE, "--type", kind, input="x\n")
    sent = json.loads(server.sent[0].body)
    assert (sent["type"], sent["port"]) == ("SQL_SERVER", 1433)


@pytest.mark.parametrize("wrong", [["--metadata", "x"], ["--tls-key", "ca.pem"], ["--password", "x"]])
def test_create_refuses_what_it_cannot_use(server: Server, tmp_path: Path, wrong: list[str]) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    assert with_api(server, *CREATE, *wrong, input="x\n").exit_code == 2
    assert server.sent == []


def test_create_wants_a_product(server: Server) -> None:
    result = with_api(server, *CREATE[:-2], input="x\n")
    assert (result.exit_code, "FETCHER_PRODUCT" in result.stderr) == (2, True)


def test_a_taken_name_is_shown_as_the_api_says_it(server: Server) -> None:
    server.on("POST", CONNECTIONS, problem(409, "FET-1002", "the name 'my_postgres' is in use; choose another"))
    result = with_api(server, *CREATE, input="x\n")
    assert (result.exit_code, "FET-1002" in result.stderr) == (2, True)


def stored_connection(name: str = "my_postgres", **more: Any) -> dict[str, Any]:
    shown = {"id": CONNECTION, "configName": name, "type": "POSTGRESQL", "host": "h", "port": 1, "databaseName": "d"}
    return {**shown, **more}


def test_list_walks_all_pages(server: Server) -> None:
    first = {"items": [stored_connection(productName="payments")], "next": "a=b"}
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body=first))
    server.on("GET", f"{CONNECTIONS}?limit=100&cursor=a%3Db", Reply(body={"items": [stored_connection("other")]}))
    result = with_api(server, "connections", "list", "--product", "payments")
    assert result.stdout.splitlines() == [
        f"{CONNECTION}\tmy_postgres\tPOSTGRESQL\th:1\td\tpayments",
        f"{CONNECTION}\tother\tPOSTGRESQL\th:1\td\t",
    ]
    assert {sent.headers["X-Product-Name"] for sent in server.sent} == {"payments"}
    as_json = with_api(server, "connections", "list", "--json").stdout
    assert [item["configName"] for item in json.loads(as_json)] == ["my_postgres", "other"]


@pytest.mark.parametrize("chosen", [CONNECTION, "my_postgres"])
def test_a_connection_is_tested_by_id_or_by_name(server: Server, chosen: str) -> None:
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body={"items": [stored_connection()]}))
    good = Reply(body={"status": "success", "message": "the connection works", "latencyMs": 3})
    bad = {"status": "failure", "code": "FET-2020", "reason": "refused", "message": "no", "latencyMs": 3}
    server.on("POST", f"{CONNECTIONS}/{CONNECTION}/test", good, Reply(body=bad))
    assert with_api(server, "connections", "test", chosen).exit_code == 0
    result = with_api(server, "connections", "test", chosen)
    assert (result.exit_code, "FET-2020 (refused): no" in result.stderr) == (1, True)


def test_an_unknown_name_is_a_usage_error(server: Server) -> None:
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body={"items": []}))
    assert with_api(server, "connections", "test", "nobody").exit_code == 2


def test_delete_asks_first(server: Server) -> None:
    server.on("DELETE", f"{CONNECTIONS}/{CONNECTION}", Reply(204))
    assert with_api(server, "connections", "delete", CONNECTION, input="n\n").exit_code == 1
    assert server.sent == []
    assert with_api(server, "connections", "delete", CONNECTION, input="y\n").exit_code == 0
    assert with_api(server, "connections", "delete", CONNECTION, "--yes").exit_code == 0
    assert [sent.method for sent in server.sent] == ["DELETE", "DELETE"]


# --- doctor and kinds


def ready(server: Server, **states: str) -> None:
    checks = {name: {"status": state, "latencyMs": 1} for name, state in {"bucket": "up", **states}.items()}
    server.on("GET", "/version", Reply(body={"version": "0.1.0"}))
    server.on("GET", f"{JOBS}?limit=1", Reply(body={"items": []}))
    healthy = all(state == "up" for state in states.values())
    server.on("GET", "/readyz", Reply(200 if healthy else 503, {"checks": checks}))


def test_doctor_is_content(server: Server) -> None:
    ready(server)
    result = with_api(server, "doctor")
    assert result.exit_code == 0, result.output
    assert "missing" not in result.stdout
    assert "ok       service → bucket: up (1 ms)" in result.stdout


def test_doctor_names_what_is_missing_and_what_to_do(server: Server) -> None:
    ready(server, workQueue="down")
    server.on("GET", f"{JOBS}?limit=1", Reply(401, {"message": "Unauthorized"}))
    result = with_api(server, "doctor")
    assert result.exit_code == 1
    for part in ("missing  service → workQueue", "missing  access", "set FETCHER_TOKEN", "role"):
        assert part in result.stdout


def test_doctor_without_an_api_says_so(server: Server) -> None:
    assert "missing  address" in run("doctor").stdout
    server.close()
    result = with_api(server, "doctor")
    assert (result.exit_code, "missing  API" in result.stdout) == (1, True)


def test_doctor_finds_a_driver_that_cannot_be_loaded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(kind: str) -> None:
        raise ModuleNotFoundError("No module named 'driver'", name="driver")

    ready(server)
    monkeypatch.setattr("fetcher.engines.engine", without)
    result = with_api(server, "doctor")
    assert (result.exit_code, "cannot be loaded: No module named 'driver'" in result.stdout) == (1, True)


def test_kinds_lists_the_engines() -> None:
    assert "postgresql" in run("kinds").stdout.splitlines()
