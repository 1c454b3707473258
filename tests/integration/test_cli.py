"""The command line and the documented examples, against the real service and a real database."""

import hashlib
import json
import re
import runpy
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from fetcher import extract
from fetcher.model import Connection, Secret
from fetcher_cli.app import app
from infra.local.places import ROOT
from tests.stack import Stack

pytestmark = pytest.mark.stack

PRODUCT = "command-line"
Run = Callable[..., Result]


@pytest.fixture
def run(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with the stack file as its only setting."""
    file = tmp_path / "stack.json"
    file.write_text(json.dumps(stack.description))
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, expect: int = 0, **env: str) -> Result:
        result = CliRunner().invoke(app, list(arguments), env={"FETCHER_STACK_FILE": str(file), **env})
        assert result.exit_code == expect, result.output
        return result

    return command


@pytest.fixture
def connection(stack: Stack, run: Run) -> Iterator[str]:
    """Register the sample database under a name of this test's own, and delete it again."""
    database, name = stack["databases"]["my_postgres"], "command_line"
    arguments = {name: str(database[name]) for name in ("host", "port", "database", "user")}
    options = [part for option, value in arguments.items() for part in (f"--{option}", value)]
    run(
        "connections", "create", "--name", name, "--type", "postgresql", *options, "--product", PRODUCT,
        FETCHER_PASSWORD=database["password"],
    )  # fmt: skip
    yield name
    run("connections", "delete", name, "--yes")


def test_a_job_from_connection_to_verified_result(run: Run, connection: str) -> None:
    assert "works" in run("connections", "test", connection).stdout
    assert connection in run("connections", "list", "--product", PRODUCT).stdout
    request = {
        "dataRequest": {"mappedFields": {connection: {"public.accounts": ["id", "email"]}}},
        "metadata": {"source": PRODUCT},
    }
    Path("job.json").write_text(json.dumps(request))
    submitted = run("submit", "job.json", "--wait")
    job_id = submitted.stdout.strip()
    assert "completed: 1 of 1 tables, 5,000 rows" in submitted.stderr
    assert "completed" in run("status", job_id).stdout
    run("download", job_id, "--verify", "--out", "result.json")
    accounts = json.loads(Path("result.json").read_bytes())[connection]["public.accounts"]
    assert len(accounts) == 5_000
    run("verify", "result.json", "result.manifest.json")
    run("verify", "result.json", "result.manifest.json", "--key", "00" * 32, expect=1)


def test_a_job_that_fails_says_where(run: Run, connection: str) -> None:
    request = {
        "dataRequest": {"mappedFields": {connection: {"public.accounts": ["balanse"]}}},
        "metadata": {"source": PRODUCT},
    }
    Path("job.json").write_text(json.dumps(request))
    failed = run("submit", "job.json", "--wait", expect=1)
    assert "extraction request failed schema validation" in failed.stderr
    assert f"{connection}/public.accounts/balanse" in failed.stderr


def test_doctor_finds_the_stack_in_order(run: Run, stack: Stack) -> None:
    seen = run("doctor").stdout
    assert "missing" not in seen
    for part in (stack["bucket"], stack["bus"], stack["tables"]["main"], "service → workQueue"):
        assert part in seen


def test_doctor_reads_a_deployed_stack_with_the_callers_credentials(run: Run, stack: Stack) -> None:
    """The local endpoint stands in for AWS: it has the stack, and its outputs, as AWS would."""
    aws = {
        "AWS_ENDPOINT_URL": stack["endpointUrl"],
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": stack["region"],
    }
    seen = run("doctor", "--stack", "fetcher", "--api", stack["apiUrl"], **aws).stdout
    assert f"ok       bucket {stack['bucket']}: exists" in seen
    unknown = run("doctor", "--stack", "nobody", expect=1, **aws).stdout
    assert "the stack nobody cannot be read" in unknown


def test_the_derived_key_is_the_stacks(run: Run, stack: Stack) -> None:
    (deployed,) = stack.client("cloudformation").describe_stacks(StackName="fetcher")["Stacks"]
    arn = next(each["OutputValue"] for each in deployed["Outputs"] if each["OutputKey"] == "MasterSecretArn")
    master = stack.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
    assert run("derive-key", FETCHER_MASTER_KEY=master).stdout.strip() == stack["verifyKeyHex"]


@pytest.mark.parametrize("page", ["README.md", "docs/embedded.md"])
def test_the_embedded_example_of_the_docs_runs(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    """The block is run as it stands, told about the database by its environment alone."""
    block = re.search(r"```python\n(# example\.py.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert block is not None
    script = tmp_path / "example.py"
    script.write_text(block[1])
    for variable, member in {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password"}.items():
        monkeypatch.setenv(variable, str(stack["databases"]["my_postgres"][member]))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    result = (tmp_path / "result.json").read_bytes()
    rows = json.loads(result)["my_postgres"]["public.accounts"]
    said = capsys.readouterr().out
    assert f"{len(rows)} rows" in said
    assert hashlib.sha256(result).hexdigest() in said


def test_the_values_page_shows_what_the_engine_delivers(stack: Stack) -> None:
    """docs/values.md: each example is a column of a real table, read by the engine, compared byte for byte."""
    lines = (ROOT / "docs" / "values.md").read_text().partition("## MySQL")[0].splitlines()
    rows = [[cell.strip("` ") for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")][1:]
    columns = ", ".join(f"{sql} AS v{number}" for number, (_, _, sql, _) in enumerate(rows))
    documented = ",".join(f'"v{number}":{rendered}' for number, (_, _, _, rendered) in enumerate(rows))
    database = stack["databases"]["my_postgres"]
    at = {name: database[name] for name in ("host", "port", "database", "user")}
    sink = BytesIO()
    with psycopg.connect(
        host=at["host"], port=at["port"], dbname=at["database"], user=at["user"], password=database["password"],
        autocommit=True,
    ) as connection:  # fmt: skip
        connection.execute(f"CREATE TABLE public.documented AS SELECT {columns}".encode())
        try:
            done = extract(
                {"dataRequest": {"mappedFields": {"pg": {"documented": ["*"]}}}, "metadata": {"source": "docs"}},
                {"pg": (Connection("pg", "postgresql", **at), Secret(database["password"]))},
                sink,
            )
        finally:
            connection.execute("DROP TABLE public.documented")
    assert sink.getvalue().decode() == f'{{"pg":{{"documented":[{{{documented}}}]}}}}'
    read = done.datasources[0].tables[0].query.columns
    assert [row[1] for row in rows if row[1] != "any"] == [str(c.encoding) for c in read[: len(rows) - 1]]
