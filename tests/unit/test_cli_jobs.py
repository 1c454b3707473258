"""`fetcher submit`, `status` and `cancel`."""

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from fetcher_cli import progress
from fetcher_cli.api import Api, retry_after
from fetcher_cli.errors import UnreachableError
from fetcher_cli.jobs import follow
from tests.commandline import AT_ONCE, FAILED, JOB, JOBS, RUNNING, Reply, Server, problem, signed, with_api

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]

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
        "processing: 0 of 1 tables, 1 rows, 0.0 MB, 1,500 rows/s, 2.5 MB/s, reading pg/accounts",
        "completed: 1 of 1 tables, 2 rows, 0.0 MB",
    ]


def test_a_job_that_waits_is_not_said_to_read() -> None:
    """`current` says in words what a job waits for."""
    running: Any = RUNNING
    waits = {"rows": 1, "bytes": 0, "tables": {"done": 0, "total": 1}, "current": "waiting for a slot"}
    assert progress.described({**running, "progress": waits}).endswith("0.0 MB, waiting for a slot")


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


def test_lines_may_stand_under_a_heading_and_are_said_once() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=100)
    with progress.shown(console, indent="  ") as show:
        for job in ({"status": "pending"}, {"status": "pending"}, signed().job):
            show(job)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "  pending: 0 of 0 tables, 0 rows, 0.0 MB",
        "  completed: 1 of 1 tables, 2 rows, 0.0 MB",
    ]


def test_a_terminal_gets_a_bar() -> None:
    console = Console(force_terminal=True, width=120)
    with console.capture() as captured, progress.shown(console) as show:
        show(RUNNING)
        show(signed().job)
    assert "completed: 1 of 1 tables" in captured.get()
    assert "━" in captured.get()


@pytest.mark.parametrize("table", ["a[/]b", "a[red]b", "a[/red]b"])
def test_a_tables_name_on_the_bar_is_no_markup(table: str) -> None:
    """A closing bracket ended `submit --wait` with a traceback, and an opening one was not shown."""
    console = Console(force_terminal=True, width=120)
    with console.capture() as captured, progress.shown(console) as show:
        show({"status": "processing", "progress": {"current": f"pg/{table}"}})
    assert f"pg/{table}" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", captured.get())


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
