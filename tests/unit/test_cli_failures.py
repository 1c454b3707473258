"""`fetcher failed`, `retry` and `redrive`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import Result

from fetcher_cli.redriving import Moved, move
from tests.commandline import FAILED, JOB, JOBS, Reply, Server, problem, run, with_api

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]

OTHER = "0b6a2f6e-98a4-4a2e-8a4c-3b1f0a7f2d10"
LIST = f"{JOBS}?status=failed&limit=100"
ERROR = {**FAILED["error"], "action": "change the request", "phase": "planning"}  # type: ignore[dict-item] # a dict of its own


def listed(server: Server) -> None:
    """Serve two pages of failed jobs, of which one is gone by now."""
    at = "2026-01-31T08:00:05.000Z"
    server.on("GET", LIST, Reply(body={"items": [{"id": JOB}, {"id": "gone"}], "next": "a=b"}))
    server.on("GET", f"{LIST}&cursor=a%3Db", Reply(body={"items": [{"id": OTHER}]}))
    server.on("GET", f"{JOBS}/{JOB}", Reply(body={**FAILED, "completedAt": at, "error": ERROR}))
    server.on("GET", f"{JOBS}/gone", problem(404, "FET-1001", "there is no job of this id"))
    old = {"code": "FET-2050", "family": "timeout", "message": "no"}
    server.on("GET", f"{JOBS}/{OTHER}", Reply(body={**FAILED, "id": OTHER, "completedAt": at, "error": old}))


def test_failed_says_when_why_while_doing_what_where_and_what_to_do(server: Server) -> None:
    """A job of before `action` and `phase` were kept is listed too."""
    listed(server)
    lines = with_api(server, "failed").stdout.splitlines()
    assert lines == [
        f"{JOB}\t2026-01-31T08:00:05.000Z\tinvalid\tplanning\tpg/t/f\tchange the request",
        f"{OTHER}\t2026-01-31T08:00:05.000Z\ttimeout\t\t\t",
    ]


def test_failed_reads_no_more_than_it_shows(server: Server) -> None:
    listed(server)
    shown = json.loads(with_api(server, "failed", "--limit", "1", "--json").stdout)
    assert [job["id"] for job in shown] == [JOB]
    assert [sent.path for sent in server.sent] == [LIST, f"{JOBS}/{JOB}"]


def test_failed_of_one_product(server: Server) -> None:
    server.on("GET", f"{LIST}&source=a%26b", Reply(body={"items": []}))
    assert with_api(server, "failed", "--source", "a&b").stdout == ""


def test_an_error_in_between_is_not_swallowed(server: Server) -> None:
    listed(server)
    server.on("GET", f"{JOBS}/gone", problem(403, "FET-2012", "the scopes do not cover this"))
    assert with_api(server, "failed").exit_code == 2


def test_retry_posts_the_request_as_it_was(server: Server) -> None:
    """R-000-9, R-000-49: every number by its own text, nothing of the job's own, so the hash is the same."""
    asked = '"mappedFields":{"pg":{"t":["*"]}},"filters":{"pg":{"t":{"n":{"eq":[1.50,12345678901234567890123]}}}}'
    job = f'{{"id":"{JOB}","status":"failed","metadata":{{"source":"p","é":1e2}},{asked},"attempts":1}}'
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=job.encode()))
    server.on("POST", JOBS, Reply(202, {"jobId": OTHER}))
    result = with_api(server, "retry", JOB)
    assert (result.exit_code, result.stdout) == (0, f"{OTHER}\n")
    [sent] = server.to(JOBS)
    assert sent.headers["X-Retry-Of"] == JOB
    assert sent.body.decode() == f'{{"dataRequest":{{{asked}}},"metadata":{{"source":"p","é":1e2}}}}'


def test_a_job_that_did_not_fail_is_the_apis_to_refuse(server: Server) -> None:
    body = {"id": JOB, "status": "completed", "metadata": {"source": "p"}, "mappedFields": {"pg": {"t": ["*"]}}}
    server.on("GET", f"{JOBS}/{JOB}", Reply(body=body))
    server.on("POST", JOBS, problem(409, "FET-2014", "the job is completed", "/headers/X-Retry-Of"))
    result = with_api(server, "retry", JOB)
    assert (result.exit_code, "FET-2014" in result.stderr) == (2, True)


# --- redrive


class Queues:
    """A dead-letter queue and the queue it came from."""

    def __init__(self, sqs: Any) -> None:
        self.sqs = sqs
        self.dead = sqs.create_queue(QueueName="dead", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
        self.live = sqs.create_queue(QueueName="live", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]

    def put(self, *bodies: str) -> None:
        """Give messages up."""
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.dead, MessageBody=body)

    def waiting(self, queue: str) -> int:
        """Count messages."""
        name = "ApproximateNumberOfMessages"
        return int(self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])["Attributes"][name])


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    monkeypatch.setattr("fetcher_cli.redriving.WAIT_SECONDS", 0)
    with mock_aws():
        yield Queues(boto3.client("sqs", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x"))


def test_every_hint_goes_back_once(queues: Queues) -> None:
    queues.put(*(f"m{number}" for number in range(25)))
    assert move(queues.sqs, queues.dead, queues.live, 10_000) == Moved(25, 0, more=False)
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (0, 25)


def test_a_redrive_is_bounded(queues: Queues) -> None:
    """What comes back while it runs cannot keep it running for ever."""
    queues.put(*"abcdefghijklmno")
    assert move(queues.sqs, queues.dead, queues.live, 12) == Moved(12, 0, more=True)
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (3, 12)
    assert move(queues.sqs, queues.dead, queues.live, 3) == Moved(3, 0, more=False)
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (0, 15)


class _Dying:
    """Dies between send and delete, as a process that is killed does."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs

    def __getattr__(self, name: str) -> Any:
        if name == "delete_message_batch":
            raise KeyboardInterrupt
        return getattr(self._sqs, name)


def test_killed_in_the_middle_it_repeats_a_hint_and_loses_none(queues: Queues) -> None:
    queues.put("a", "b")
    with pytest.raises(KeyboardInterrupt):
        move(_Dying(queues.sqs), queues.dead, queues.live, 10)
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (2, 2)


class _Refusing(_Dying):
    """Takes the first of a batch only."""

    def __getattr__(self, name: str) -> Any:
        if name != "send_message_batch":
            return getattr(self._sqs, name)
        return lambda QueueUrl, Entries: self._sqs.send_message_batch(QueueUrl=QueueUrl, Entries=Entries[:1])  # noqa: N803 - boto3's names


def test_what_was_not_taken_stays(queues: Queues) -> None:
    queues.put("a", "b", "c")
    assert move(_Refusing(queues.sqs), queues.dead, queues.live, 3) == Moved(1, 2, more=True)
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (2, 1)


@pytest.fixture
def redriven(queues: Queues, tmp_path: Path) -> Callable[..., Result]:
    """Run the command on these queues, as a stack file names them."""
    named = {"work": "", "workDead": "", "notifications": queues.live, "notificationsDead": queues.dead}
    rest: dict[str, Any] = {"tables": {}, "bucket": "", "bus": "", "endpointUrl": None, "region": None, "apiUrl": ""}
    file = tmp_path / "stack.json"
    file.write_text(json.dumps({"queues": named, **rest}))
    env = {"FETCHER_STACK_FILE": str(file), "AWS_DEFAULT_REGION": "us-east-1"}
    return lambda *arguments: run("redrive", *arguments, env=env)


def test_who_asked_for_fewer_than_are_there_is_told(queues: Queues, redriven: Callable[..., Result]) -> None:
    """A queue is not taken for empty because the command stopped at its bound."""
    queues.put(*"abc")
    first = redriven("--most", "2")
    assert (first.exit_code, first.stdout.splitlines()) == (
        0,
        ["2 messages moved to live", "more are left than the 2 that were asked for: redrive again"],
    )
    assert redriven("--most", "2").stdout == "1 messages moved to live\n"
    assert (queues.waiting(queues.dead), queues.waiting(queues.live)) == (0, 3)


def test_redrive_needs_a_stack() -> None:
    result = run("redrive")
    assert (result.exit_code, "--stack" in result.stderr) == (2, True)
