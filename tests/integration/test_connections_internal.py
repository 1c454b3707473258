"""What the operator set: datasources in the environment, and credentials in Secrets Manager."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetcher.aws.internals import identity
from fetcher.settings import DATASOURCES_VARIABLE
from tests.integration.test_bounds import source
from tests.integration.test_connections_changing import PATH, job, patch, refused, registered
from tests.integration.test_connections_sources import named, validate
from tests.integration.test_tenants import Token, ask
from tests.rig import EXTRACT, SUBMIT, Answer, Rig, rig, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

LEDGER = identity("default", "ledger")


def ledger(stack: Stack) -> dict[str, str]:
    """The members of a datasource that works."""
    at = stack["databases"]["my_postgres"]
    return {
        "CONFIG_NAME": "ledger",
        "TYPE": "POSTGRESQL",
        "HOST": at["host"],
        "PORT": str(at["port"]),
        "DATABASE": at["database"],
        "USER": at["user"],
        "PASSWORD": at["password"],
    }


@pytest.fixture(scope="module")
def operated(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service whose operator set one datasource well and two badly."""
    good = ledger(stack)
    variables = {
        **{f"DATASOURCE_1_{name}": value for name, value in good.items()},
        **{f"DATASOURCE_2_{name}": value for name, value in {**good, "CONFIG_NAME": "broken", "TYPE": "X"}.items()},
        **{f"DATASOURCE_3_{name}": value for name, value in {**good, "CONFIG_NAME": "dead", "PORT": "1"}.items()},
    }
    with rig(stack, tmp_path_factory.mktemp("operated"), **variables) as made:
        assert made.register().status == 201
        yield made


def test_the_operators_datasource_is_visible_everywhere(operated: Rig) -> None:
    """In list, get, test, schema and validation."""
    listed = operated.http("GET", PATH, x_product_name="sales").json()["items"]
    assert [item["configName"] for item in listed] == ["dead", "ledger"]
    own = operated.http("GET", f"{PATH}/{LEDGER}")
    assert own.json() == listed[1]
    assert own.json()["internal"] is True
    assert "productName" not in own.json()
    assert operated.stack["databases"]["my_postgres"]["password"] not in own.text
    assert operated.http("POST", f"{PATH}/{LEDGER}/test").json()["status"] == "success"
    assert "accounts" in [t["name"] for t in operated.http("GET", f"{PATH}/{LEDGER}/schema").json()["tables"]]
    assert validate(operated, {"ledger": {"accounts": ["id"]}}).status == 200
    assert named(validate(operated, {"ledger": {"accounts": ["x"]}}))[0][1] == "FIELD_NOT_FOUND"


def test_a_list_pages_through_both_kinds_as_one(operated: Rig) -> None:
    """B-13: a limit is a limit, and nothing comes twice."""
    seen: list[str] = []
    query = {"limit": "1"}
    while True:
        page = operated.http("GET", PATH, query=query).json()
        seen += [item["configName"] for item in page["items"]]
        assert len(page["items"]) <= 1
        if "next" not in page:
            break
        query["cursor"] = page["next"]
    assert seen[:2] == ["dead", "ledger"]
    assert "my_postgres" in seen
    assert len(seen) == len(set(seen)) == len(operated.http("GET", PATH, query={"limit": "100"}).json()["items"])
    assert operated.http("GET", PATH, query={"type": "mysql"}).json()["items"] == []


def test_the_operators_datasource_cannot_be_changed_or_copied(operated: Rig) -> None:
    """Reference 2.7: 404; its name is taken, also while its variables are wrong."""
    refused(patch(operated, LEDGER, {"port": 1}), 404, "FET-1001")
    refused(operated.http("DELETE", f"{PATH}/{LEDGER}"), 404, "FET-1001")
    refused(operated.http("POST", f"{PATH}/{LEDGER}/assign", x_product_name="payments"), 404, "FET-1001")
    for name in ("ledger", "broken"):
        refused(operated.register(name), 409, "FET-1002")
    own = operated.register("renamed").json()["id"]
    refused(patch(operated, own, {"configName": "broken"}), 409, "FET-1002")


def test_a_job_of_any_product_reads_the_operators_datasource(operated: Rig) -> None:
    """R-000-8: no product, and extract resolves it as submit does."""
    for product in ("payments", "sales"):
        body = {"dataRequest": {"mappedFields": {"ledger": {"accounts": ["id"]}}}, "metadata": {"source": product}}
        posted = operated.post(body)
        assert posted.status == 202, posted
        ended = operated.ended(posted.json()["jobId"])
        assert (ended["status"], ended["rowCount"]) == ("completed", 5000)


def test_the_operators_datasource_is_not_probed_at_submit(operated: Rig) -> None:
    """R-000-66: it is accepted while it is down, and fails as a job."""
    posted = job(operated, "dead", ["id"])
    assert posted.status == 202, posted
    assert operated.http("POST", f"/v1/fetcher/{posted.json()['jobId']}/cancel").status == 202


def test_a_bad_variable_is_reported_and_costs_its_own_jobs_alone(operated: Rig) -> None:
    """B-37: 400 for the job that names it; `/readyz` and the log name the variable and no value."""
    refused(job(operated, "broken", ["id"]), 400, "FET-1020", "/dataRequest/mappedFields/broken")
    ready = operated.http("GET", "/readyz")
    assert (ready.status, ready.json()["status"]) == (503, "unhealthy")
    check = ready.json()["checks"]["datasources"]
    assert check["status"] == "down"
    assert [problem.split()[0] for problem in check["problems"]] == ["DATASOURCE_2_TYPE"]
    password = operated.stack["databases"]["my_postgres"]["password"]
    with operated.envelope(SUBMIT) as fresh:
        report = fresh.invoke(
            {
                "version": "2.0",
                "rawPath": "/version",
                "rawQueryString": "",
                "headers": {},
                "requestContext": {
                    "http": {"method": "GET", "path": "/version"},
                    "stage": "$default",
                    "requestId": "r",
                },
                "isBase64Encoded": False,
            }
        )
    assert "DATASOURCE_2_TYPE" in report.log
    assert password not in report.log
    assert password not in ready.text


def test_what_the_operator_broke_ends_no_job(stack: Stack, tmp_path: Path) -> None:
    """R-000-73: a secret that cannot be used for a while is a failure of ours, and the message comes back.

    Nobody else gets the operator's name meanwhile (reference 2.7).
    """
    name = f"fetcher/datasources/{tmp_path.name}"
    good = {f"DATASOURCE_1_{member}": value for member, value in ledger(stack).items()}
    stack.client("secretsmanager").create_secret(Name=name, SecretString=json.dumps(good))
    with rig(stack, tmp_path, **{DATASOURCES_VARIABLE: name}) as service:
        posted = job(service, "ledger", ["id"])
        assert posted.status == 202, posted
        job_id = posted.json()["jobId"]
        master = service.env["FETCHER_MASTER_SECRET_ID"]
        ring = service.secrets.get_secret_value(SecretId=master)["SecretString"]

        def put(datasources: str, ring: str = ring) -> None:
            """Let every process begin anew with these secrets."""
            service.secrets.put_secret_value(SecretId=name, SecretString=datasources)
            service.secrets.put_secret_value(SecretId=master, SecretString=ring)
            service.restart_all()

        broken = (json.dumps({**good, "DATASOURCE_1_PORT": "54x"}), ring), (json.dumps(good), "no ring"), ("{", ring)
        for attempts, secrets in enumerate(broken, 1):
            put(*secrets)
            assert service.invoke(EXTRACT, work_event(job_id)).payload["batchItemFailures"]
            record = service.record(job_id)
            assert (record["status"]["S"], record["attempts"]["N"]) == ("processing", str(attempts))
            assert "claimToken" not in record
            assert not service.slots_held(job_id)
        refused(service.register("ledger"), 503, "FET-0003")
        refused(job(service, "ledger", ["email"]), 503, "FET-0003")
        put(json.dumps(good))
        assert service.ended(posted.json()["jobId"])["status"] == "completed"


def test_another_tenant_does_not_see_what_the_operator_set(operated: Rig) -> None:
    """Design §2: every name belongs to a tenant; this one to `default`."""
    with operated.envelope(SUBMIT, {"FETCHER_AUTHORIZER": "jwt"}) as behind_tokens:

        class Behind(Rig):
            def __init__(self) -> None:
                """Another door to the same service."""

            def invoke(self, handler: str, event: Any, **env: str) -> Any:
                return behind_tokens.invoke(event)

        door = Behind()
        for token, status in ((Token(tenant="other"), 404), (Token(tenant="default", products="sales"), 200)):
            assert ask(door, token.claims(), "GET", f"{PATH}/{LEDGER}").status == status
            listed = ask(door, token.claims(), "GET", PATH).json()["items"]
            assert ("ledger" in [item["configName"] for item in listed]) == (status == 200)


# --- credentials that Secrets Manager holds


def stored_secret(service: Rig, name: str, **members: str) -> str:
    """Make a secret of the default tenant and return its name."""
    full = f"fetcher/connections/default/{service.name}/{name}"
    service.secrets.create_secret(Name=full, SecretString=json.dumps(members))
    return full


def tried(service: Rig, connection: str) -> Any:
    """Test a connection."""
    return service.http("POST", f"{PATH}/{connection}/test").json()


def test_a_password_is_fetched_when_it_is_used_and_again_when_it_was_rotated(operated: Rig) -> None:
    """`{secretId, field}`, re-fetched once on an auth failure, in submit and in extract."""
    with source(operated) as database:
        database.execute("CREATE ROLE rotating LOGIN PASSWORD 'canary-one'")
        database.execute("GRANT SELECT ON public.accounts TO rotating")
    secret = stored_secret(operated, "rotating", pw="canary-one")
    reference = {"secretId": secret, "field": "pw"}
    made = registered(operated, "referred", userName="rotating", password=reference)
    connection = made.json()["id"]
    assert "password" not in made.json()
    assert secret not in made.text
    assert tried(operated, connection)["status"] == "success"
    first = job(operated, "referred", ["id"])
    assert operated.ended(first.json()["jobId"])["status"] == "completed"
    with source(operated) as database:
        database.execute("ALTER ROLE rotating PASSWORD 'canary-two'")
    assert tried(operated, connection)["reason"] == "refused"
    operated.secrets.put_secret_value(SecretId=secret, SecretString=json.dumps({"pw": "canary-two"}))
    assert tried(operated, connection)["status"] == "success"
    second = job(operated, "referred", ["email"])
    assert operated.ended(second.json()["jobId"])["status"] == "completed"


def test_a_reference_outlives_a_patch_and_can_be_replaced(operated: Rig) -> None:
    """Merge patch: another field of the same secret, then a plain password."""
    password = operated.stack["databases"]["my_postgres"]["password"]
    secret = stored_secret(operated, "patched", old="canary-wrong", new=password)
    made = registered(operated, "referred_2", password={"secretId": secret, "field": "old"})
    connection = made.json()["id"]
    assert tried(operated, connection)["reason"] == "refused"
    assert patch(operated, connection, {"metadata": {"a": "b"}}).status == 200
    assert patch(operated, connection, {"password": {"field": "new"}}).status == 200
    assert tried(operated, connection)["status"] == "success"
    assert patch(operated, connection, {"password": password}).status == 200
    operated.secrets.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)
    assert tried(operated, connection)["status"] == "success"


def test_a_secret_that_is_not_the_tenants_is_refused(operated: Rig) -> None:
    """Anything else is 400, in create and in patch; also our own master secret."""
    own = registered(operated, "referred_3").json()["id"]

    def both(secret_id: str) -> list[tuple[Answer, str]]:
        reference = {"secretId": secret_id, "field": "keys"}
        tls = {"mode": "require", "key": reference}
        return [
            (operated.register("never", password=reference), "/password/secretId"),
            (operated.register("never", ssl=tls), "/ssl/key/secretId"),
            (patch(operated, own, {"password": reference}), "/password/secretId"),
            (patch(operated, own, {"ssl": tls}), "/ssl/key/secretId"),
        ]

    for secret_id in ("fetcher/connections/other/x", operated.env["FETCHER_MASTER_SECRET_ID"], "x"):
        for answer, pointer in both(secret_id):
            refused(answer, 400, "FET-0001", pointer)
    refused(operated.register("never", password={"field": "x"}), 400, "FET-0402", "/password/secretId")
    refused(operated.register("never", password={"secretId": "x", "arn": "y"}), 400, "FET-0400", "/password/arn")


def test_a_secret_that_is_not_there_is_a_refusal_with_a_reason(operated: Rig) -> None:
    """No 500, and nothing of the service's own text."""
    reference = {"secretId": "fetcher/connections/default/nothing-here"}
    connection = registered(operated, "referred_4", password=reference).json()["id"]
    answer = tried(operated, connection)
    assert (answer["status"], answer["reason"]) == ("failure", "refused")
    assert "secret" in answer["message"]
    refused(job(operated, "referred_4", ["id"]), 400, "FET-1040")
