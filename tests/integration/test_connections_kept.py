"""What is kept of a connection, how, and for how long: sealed for one connection, and gone with it."""

import base64
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from fetcher.aws.records import REQUEST_KEEP_SECONDS
from tests.certificates import Authority
from tests.integration.test_connections_changing import PATH, job, registered
from tests.rig import MASTER, Rig, rig, sqs_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

WEEK, QUARTER = 7 * 86_400, 90 * 86_400
SLACK = 3_600


@pytest.fixture(scope="module")
def kept(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service whose stored items the test looks at."""
    with rig(stack, tmp_path_factory.mktemp("kept")) as made:
        assert made.register().status == 201
        yield made


def item(service: Rig, connection: str) -> dict[str, Any]:
    """The stored connection."""
    table = service.env["FETCHER_CONNECTIONS_TABLE"]
    key = {"PK": {"S": f"T#default#CONNECTION#{connection}"}, "SK": {"S": "META"}}
    found: dict[str, Any] = service.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    return found


def fresh(service: Rig) -> str:
    """Post a job that is no duplicate, and return its id."""
    body = {"mappedFields": {"my_postgres": {"public.accounts": ["id"]}}}
    posted = service.post({"dataRequest": body, "metadata": {"source": "payments", "n": str(uuid4())}})
    assert posted.status == 202, posted
    return str(posted.json()["jobId"])


def test_password_and_key_are_stored_sealed(kept: Rig) -> None:
    """B-31, R-000-96: neither stands in the item, in any encoding that anybody would try."""
    password, (certificate, key) = f"canary-{uuid4()}", Authority.made().issued("client")
    tls = {"mode": "require", "key": key, "cert": certificate}
    one = registered(kept, "sealed", password=password, ssl=tls).json()["id"]
    text = json.dumps(item(kept, one), default=lambda raw: base64.b64encode(bytes(raw)).decode() + str(bytes(raw)))
    for secret in (password, *key.splitlines()[1:-1]):
        for spelled in (secret, base64.b64encode(secret.encode()).decode()[:-4], secret.encode().hex()):
            assert spelled not in text


def test_what_is_sealed_for_one_connection_opens_for_no_other(kept: Rig) -> None:
    """B-38: who can write the table cannot lend one connection's password to another."""
    good = registered(kept, "lender").json()["id"]
    other = registered(kept, "borrower", password="not it").json()["id"]
    assert kept.http("POST", f"{PATH}/{good}/test").json()["status"] == "success"
    stolen = item(kept, good)
    moved = {name: stolen[name] for name in ("secretCiphertext", "secretDataKey")}
    mine = {**item(kept, other), **moved}
    kept.dynamodb.put_item(TableName=kept.env["FETCHER_CONNECTIONS_TABLE"], Item=mine)
    tested = kept.http("POST", f"{PATH}/{other}/test")
    assert (tested.status, tested.json()["status"], tested.json()["reason"]) == (200, "failure", "refused"), tested
    assert kept.stack["databases"]["my_postgres"]["password"] not in tested.text
    assert kept.http("POST", f"{PATH}/{good}/test").json()["status"] == "success"


def test_a_deleted_connection_and_an_ended_job_have_an_end(kept: Rig) -> None:
    """B-68: a week after deletion the item is removed, 90 days after its end the job, and then its request."""
    one = registered(kept, "ends").json()["id"]
    assert "expiresAt" not in item(kept, one)
    assert kept.http("DELETE", f"{PATH}/{one}").status == 204
    assert abs(int(item(kept, one)["expiresAt"]["N"]) - time.time() - WEEK) < SLACK
    posted = fresh(kept)
    assert kept.work() is not None
    assert kept.job(posted)["status"] == "completed"
    ended = {each["SK"]["S"]: each for each in kept.items() if posted in each["PK"]["S"]}
    left = {name: int(ended[name]["expiresAt"]["N"]) - time.time() for name in ("META", "REQUEST")}
    assert abs(left["META"] - QUARTER) < SLACK
    assert abs(left["REQUEST"] - REQUEST_KEEP_SECONDS) < SLACK


def test_a_message_of_the_wrong_tenant_costs_nobody_a_job(kept: Rig) -> None:
    """B-65: it claims nothing; the job is read by its own message, and ends."""
    posted = fresh(kept)
    foreign = {"v": 1, "tenant": "other", "extractionId": posted, "generation": 0}
    report = kept.invoke("extract.app.handler", sqs_event(json.dumps(foreign)))
    assert report.outcome == "response", report
    assert kept.job(posted)["status"] == "pending"
    assert kept.work() is not None
    assert kept.job(posted)["status"] == "completed"


def test_the_master_secret_is_rotated_and_old_results_still_verify(kept: Rig) -> None:
    """B-39: a new key signs from the next function on; connections, which it does not seal, go on as they were."""
    first = fresh(kept)
    kept.work()
    fresh_key = base64.b64encode(secrets.token_bytes(32)).decode()
    ring = {"current": "2", "keys": {"1": MASTER, "2": fresh_key}}
    kept.secrets.put_secret_value(SecretId=kept.env["FETCHER_MASTER_SECRET_ID"], SecretString=json.dumps(ring))
    second = fresh(kept)
    report = kept.work(FETCHER_STAGE="local")
    assert report is not None
    assert fresh_key not in report.log
    assert (kept.job(first)["keyVersion"], kept.job(second)["keyVersion"]) == ("1", "2")
    assert job(kept, "my_postgres", ["email"]).status == 202
    kept.work()
