"""Canary secrets, put through everything that the service does, come out nowhere."""

import base64
import json
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fetcher.aws.internals import identity, read
from fetcher.aws.secrets import Sealed
from fetcher.aws.stored import Stored
from fetcher.model import Connection, Secret
from submit.connection_bodies import ConnectionBody, PatchBody
from tests.certificates import Authority
from tests.integration.test_bounds import source
from tests.integration.test_connections_changing import PATH
from tests.rig import DEAD_LETTER, MASTER, NOTIFY, QUEUES, Answer, Rig, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

MARK = "canary"
ROW = f"{MARK}-row-{uuid4()}"


def canary(what: str) -> str:
    """A secret that nothing else is equal to."""
    return f"{MARK}-{what}-{uuid4()}"


def material() -> dict[str, str]:
    """An authority, a certificate and its key, each with a canary in the text around it, which readers pass over."""
    authority = Authority.made()
    certificate, key = authority.issued("client")
    texts = {"ca": authority.pem, "cert": certificate, "key": key}
    return {name: f"{canary(name)}\n{text}" for name, text in texts.items()}


class Watched(Rig):
    """A rig that keeps what came out: answers, and messages as they passed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: list[str] = []

    def http(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Ask with a token that must not come out either."""
        answer = super().http(method, path, body, authorization=f"Bearer {MARK}-token", **more)
        self.seen.append(f"{method} {path}: {answer.headers} {answer.text}")
        return answer

    def deliver(self, handler: str, **env: str) -> Any:
        """Look at the next message before it is handed over."""
        queue = QUEUES[handler]
        peeked = self.sqs.receive_message(QueueUrl=self.env[queue], VisibilityTimeout=0, MaxNumberOfMessages=1)
        self.seen += [f"{queue}: {message['Body']}" for message in peeked.get("Messages", [])]
        return super().deliver(handler, **env)

    def logs(self) -> Iterator[str]:
        """What every handler wrote."""
        for handler, envelope in self._opened.items():
            yield f"{handler}: {envelope._log.read_text()}"

    def stored(self) -> Iterator[str]:
        """Every item of both tables and every object; a result may hold a row, and nothing else may."""
        for table in ("FETCHER_MAIN_TABLE", "FETCHER_CONNECTIONS_TABLE"):
            for item in self.dynamodb.scan(TableName=self.env[table], ConsistentRead=True)["Items"]:
                yield json.dumps(item, default=str)
        for key in self.objects():
            body = self.s3.get_object(Bucket=self.env["FETCHER_BUCKET"], Key=key)["Body"].read().decode()
            yield f"{key}: {body.replace(ROW, '') if key.startswith('results/') else body}"


@pytest.fixture(scope="module")
def watched(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A service with a canary in each place where the operator may put a secret."""
    at = stack["databases"]["my_postgres"]
    variables = {
        "CONFIG_NAME": "operators",
        "TYPE": "POSTGRESQL",
        "HOST": at["host"],
        "PORT": str(at["port"]),
        "DATABASE": at["database"],
        "USER": at["user"],
        "PASSWORD": canary("internal"),
    }
    env = {
        **{f"DATASOURCE_1_{name}": value for name, value in variables.items()},
        "DATASOURCE_2_CONFIG_NAME": "unusable",
        "DATASOURCE_2_PASSWORD": canary("unusable"),
        "POWERTOOLS_LOG_LEVEL": "DEBUG",
    }
    with Watched(stack, tmp_path_factory.mktemp("watched"), env) as made:
        yield made


def job(service: Rig, name: str, table: str, *fields: str) -> str:
    """Post a job and return its id."""
    body = {"dataRequest": {"mappedFields": {name: {table: list(fields)}}}, "metadata": {"source": "payments"}}
    answer = service.post(body)
    assert answer.status == 202, answer
    return str(answer.json()["jobId"])


def ring_rotated(service: Rig) -> str:
    """Put another key into the master secret, as `fetcher rotate-key` does, and return it."""
    signing = base64.b64encode(secrets.token_bytes(32)).decode()
    ring = json.dumps({"current": "2", "keys": {"1": MASTER, "2": signing}})
    service.secrets.put_secret_value(SecretId=service.env["FETCHER_MASTER_SECRET_ID"], SecretString=ring)
    return signing


def secret_rotated(service: Rig, secret: str, connection: str) -> None:
    """Change a secret to one that the database does not take, and let the connection be tested with it."""
    service.secrets.put_secret_value(SecretId=secret, SecretString=json.dumps({"password": canary("rotated")}))
    assert service.http("POST", f"{PATH}/{connection}/test").json()["status"] == "failure"


def check_clean(out: Iterable[str], *others: str) -> None:
    """Fail for a canary, or another secret, in anything that came out."""
    for text in out:
        clean = text.replace("public.canary", "").replace("canary_fails", "").replace('"canary"', "")
        found = clean.find(f"{MARK}-")
        assert found < 0, clean[max(0, found - 300) : found + 100]
        assert not any(secret in text for secret in others)


def test_no_canary_comes_out_of_a_whole_life(watched: Watched) -> None:
    """R-002-101, R-000-82, B-31, B-47: create, test, job, failure, cancel, rotation, deletion."""
    password = watched.stack["databases"]["my_postgres"]["password"]
    with source(watched) as database:
        database.execute("CREATE TABLE public.canary (id int PRIMARY KEY, note text)")
        database.execute("INSERT INTO public.canary VALUES (1, %s)", [ROW])
        database.execute("CREATE VIEW public.canary_fails AS SELECT id, note::int AS number FROM public.canary")
    secret = f"fetcher/connections/default/{watched.name}"
    watched.secrets.create_secret(Name=secret, SecretString=json.dumps({"password": canary("referred")}))
    signing = ring_rotated(watched)
    watched.restart_all()  # or the key from before may be kept for five minutes
    tls = {"mode": "prefer", **material()}

    good = watched.register("good").json()["id"]
    wrong = watched.register("wrong", password=canary("password")).json()["id"]
    sealed = watched.register("sealed", password=canary("password"), ssl=tls).json()["id"]
    referred = watched.register("referred", password={"secretId": secret}).json()["id"]
    unreadable = {"mode": "require", "ca": canary("ca"), "cert": canary("certificate"), "key": canary("key")}
    for broken in (
        {"password": canary("long") * 40},
        {"password": [canary("list")]},
        {"ssl": unreadable},
        {"surprise": canary("member")},
    ):
        assert watched.register("never", **broken).status == 400
    assert watched.http("POST", PATH, f'{{"password": "{canary("broken")}"', x_product_name="payments").status == 400
    for one in (good, wrong, sealed, referred, identity("default", "operators")):
        watched.http("GET", f"{PATH}/{one}")
        watched.http("POST", f"{PATH}/{one}/test")
        watched.http("GET", f"{PATH}/{one}/schema")
    watched.http("GET", PATH)
    assert watched.http("PATCH", f"{PATH}/{wrong}", {"password": canary("rotated"), "ssl": tls}).status == 200
    secret_rotated(watched, secret, referred)
    assert watched.http("PATCH", f"{PATH}/{wrong}", {"port": 0, "password": canary("refused")}).status == 400
    watched.http("POST", f"{PATH}/validate-schema", {"mappedFields": {"good": {"canary": ["*"]}, "wrong": {"t": []}}})

    completed, failed = job(watched, "good", "canary", "id", "note"), job(watched, "good", "canary_fails", "*")
    for _ in range(2):
        watched.work()
    internal, canceled = job(watched, "operators", "canary", "*"), job(watched, "good", "canary", "note")
    assert watched.http("POST", f"/v1/fetcher/{canceled}/cancel").status == 202
    for _ in range(2):
        watched.work()
    assert [watched.job(name)["status"] for name in (failed, internal, canceled)] == ["failed"] * 3
    assert watched.job(completed)["status"] == "completed"
    watched.http("GET", f"/v1/fetcher/{completed}/manifest")
    watched.invoke(DEAD_LETTER, work_event(completed))
    while watched.deliver(NOTIFY) is not None:
        pass
    watched.sweep()
    events = watched.published()
    assert len(events) == 4
    assert watched.http("DELETE", f"{PATH}/{sealed}").status == 204
    watched.http("GET", "/readyz")
    watched.http("GET", "/v1/fetcher")

    assert password != ""
    out = [*watched.seen, *watched.logs(), *watched.stored(), *map(json.dumps, events)]
    assert len(out) > 60
    assert ROW.encode() in watched.result(watched.job(completed))
    check_clean(out, password, signing, MASTER)
    assert watched.job(completed)["keyVersion"] == "2"


def test_no_row_and_no_value_of_a_filter_is_in_a_log_or_a_message(watched: Watched) -> None:
    """R-000-82, B-47: at the level DEBUG too, whether the job ends well or by an error that quotes a row."""
    given, row = f"a filter's {uuid4()}", f"a row's {uuid4()}"
    with source(watched) as database:
        database.execute("CREATE TABLE public.rows_kept (id int PRIMARY KEY, note text)")
        database.execute("INSERT INTO public.rows_kept VALUES (1, %s), (2, %s)", [row, given])
        database.execute("CREATE VIEW public.rows_failing AS SELECT id, note, note::int AS n FROM public.rows_kept")
    watched.register("rows")
    statuses = []
    for table, fields in (("rows_kept", ["*"]), ("rows_failing", ["n"]), ("rows_kept", ["missing"])):
        request = {
            "mappedFields": {"rows": {table: fields}},
            "filters": {"rows": {table: {"note": {"in": [given, row]}}}},
        }
        answer = watched.post({"dataRequest": request, "metadata": {"source": "payments"}})
        watched.work()
        job_id = str(answer.json()["jobId"])
        statuses.append(watched.job(job_id)["status"])
        if statuses == ["completed"]:
            assert given.encode() in watched.result(watched.job(job_id))
    assert statuses == ["completed", "failed", "failed"]
    while watched.deliver(NOTIFY) is not None:
        pass
    messages = [text for text in watched.seen if text.startswith("FETCHER_")]
    assert messages
    for text in [*messages, *watched.logs(), *map(json.dumps, watched.published())]:
        assert given not in text
        assert row not in text


def test_no_value_of_ours_shows_a_secret_when_it_is_printed() -> None:
    """A log line, a traceback or a debugger prints values with `repr`."""
    body = {
        "configName": "any",
        "type": "POSTGRESQL",
        "host": "db.example",
        "port": 1,
        "databaseName": "d",
        "userName": "u",
        "password": canary("password"),
        "ssl": {"mode": "require", "key": canary("key")},
    }
    secret = Secret(canary("password"), tls_key=canary("key"))
    connection = Connection("any", "postgresql", "db.example", 1, "d", "u")
    stored = Stored("default", "1", "payments", connection, Sealed(canary("envelope"), canary("key")), "", "", "")
    env = {f"DATASOURCE_1_{name}": MARK for name in ("TYPE", "HOST", "PORT", "USER")}
    internals = read({**env, "DATASOURCE_1_CONFIG_NAME": "any", "DATASOURCE_1_PASSWORD": canary("password")})
    printed = [ConnectionBody.model_validate(body), PatchBody(body), secret, stored, internals]
    for value in printed:
        assert MARK not in repr(value)
        assert MARK not in str(value)


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    """A scan that finds nothing in anything proves nothing."""
    log = tmp_path / "log"
    log.write_text(f"a line with {canary('password')}")

    class Kept:
        _log = log

    scanned = object.__new__(Watched)
    scanned._opened = {"handler": Kept()}  # type: ignore[dict-item]
    assert [f"{MARK}-" in text for text in scanned.logs()] == [True]
