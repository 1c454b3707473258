"""The connection routes through the real gateway, with the functions held to their roles."""

import json
import secrets

import pytest

from tests.rig import until
from tests.stack import Stack

pytestmark = pytest.mark.stack

PATH = "/v1/management/connections"


def test_a_connection_lives_under_the_roles_of_the_template(stack: Stack) -> None:
    """Create, test, schema, patch, job and delete, with a password that Secrets Manager holds for both functions."""
    at = stack["databases"]["my_postgres"]
    name = f"roles_{secrets.token_hex(4)}"
    secret = f"fetcher/connections/default/{name}"
    stack.client("secretsmanager").create_secret(Name=secret, SecretString=json.dumps({"password": at["password"]}))
    body = {
        "configName": name,
        "type": "POSTGRESQL",
        "host": at["host"],
        "port": at["port"],
        "databaseName": at["database"],
        "userName": at["user"],
        "password": {"secretId": secret},
    }
    made = stack.api.post(PATH, body, x_product_name="payments")
    assert made.status == 201, made
    one = f"{PATH}/{made.json()['id']}"
    assert stack.api.post(f"{one}/test", {}).json()["status"] == "success"
    assert stack.api.get(f"{one}/schema").json()["tables"]
    change = json.dumps({"metadata": {"a": "b"}}).encode()
    headers = {"content_type": "application/merge-patch+json", "if_match": made.headers["ETag"]}
    assert stack.api.send("PATCH", one, body=change, headers=headers).status == 200
    assert stack.api.send("PATCH", one, body=change, headers=headers).status == 412
    selection = {"mappedFields": {name: {"accounts": ["id", "nope"]}}}
    assert stack.api.post(f"{PATH}/validate-schema", selection).status == 422
    job = {"dataRequest": {"mappedFields": {name: {"accounts": ["id"]}}}, "metadata": {"source": "payments"}}
    posted = stack.api.post("/v1/fetcher", job).json()["jobId"]

    def ended() -> str | None:
        status = str(stack.api.get(f"/v1/fetcher/{posted}").json()["status"])
        return status if status in {"completed", "failed"} else None

    assert until(ended, "the job's end", 60) == "completed"
    assert stack.api.get(f"{PATH}/unassigned").status == 200
    assert stack.api.delete(one).status == 204
    assert stack.api.get("/readyz").json()["status"] == "healthy"
