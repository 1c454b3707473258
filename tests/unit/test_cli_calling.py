"""The command line and the API: where it is found, who calls, and what an answer becomes."""

import json
from pathlib import Path

import pytest

from tests.commandline import JOB, JOBS, RUNNING, Reply, Server, problem, run, with_api

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]

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
