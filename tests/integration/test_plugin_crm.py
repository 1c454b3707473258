"""`plugin_crm` through the whole service, set up by a secret alone, with two organizations in one database."""

import base64
import gzip
import io
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pymongo import MongoClient

from fetcher.aws.internals import identity
from fetcher.core.audit import verify_manifest
from fetcher.core.faults import Point
from fetcher.engines._plugin_crm.fields import ENCRYPTED, hashed
from tests.integration.test_connections_changing import PATH, refused
from tests.integration.test_connections_sources import named, validate
from tests.rig import EXTRACT, SUBMIT, VERIFY_KEY, Answer, Rig, rig, until, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

CRM = identity("default", "plugin_crm")
KEY, HASH = "a5" * 32, "canary-hash-key"
ONE, OTHER = "0198c1f2-0000-7000-8000-000000000001", "0198c1f2-0000-7000-8000-000000000002"
CANARY = "canary of the other organization"
SMALL, LARGE, SIZE = 250, 500, 20_000
"""Documents of the first and of the second organization, and their bytes: the first part ends in the second."""


def sealed(text: str) -> str:
    nonce = os.urandom(12)
    return base64.b64encode(nonce + AESGCM(bytes.fromhex(KEY)).encrypt(nonce, text.encode(), None)).decode()


def holder(n: int, name: str) -> dict[str, Any]:
    return {
        "_id": n,
        "document": sealed(f"{n:011}"),
        "name": sealed(name),
        "contact": {"mobile_phone": sealed(f"+{n}"), "country": "BR"},
        "rest": "x" * SIZE,
        "search": {"document": hashed(f"{n:011}", HASH)},
    }


@pytest.fixture(scope="module")
def database(stack: Stack) -> Iterator[str]:
    """A database of its own on the stack's MongoDB."""
    at, name = stack["databases"]["my_mongo"], f"crm_{os.urandom(4).hex()}"
    login = {"username": at["user"], "password": at["password"], "directConnection": True}
    with MongoClient[dict[str, Any]](at["host"], at["port"], **login) as client:
        client[name][f"holders_{ONE}"].insert_many(holder(n, f"Person {n}") for n in range(SMALL))
        client[name][f"holders_{OTHER}"].insert_many(holder(n, CANARY) for n in range(LARGE))
        client[name][f"holders_history_{ONE}"].insert_one({"_id": 1, "note": CANARY})
        client[name][f"damaged_{ONE}"].insert_one({"_id": 1, "type": "N", "name": CANARY})
        yield name
        client.drop_database(name)


@pytest.fixture(scope="module")
def crm(stack: Stack, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service whose only knowledge of the CRM is the name of a secret."""
    at = stack["databases"]["my_mongo"]
    members = {
        "DATASOURCE_1_CONFIG_NAME": "plugin_crm",
        "DATASOURCE_1_TYPE": "MONGODB",
        "DATASOURCE_1_HOST": at["host"],
        "DATASOURCE_1_PORT": str(at["port"]),
        "DATASOURCE_1_DATABASE": database,
        "DATASOURCE_1_USER": at["user"],
        "DATASOURCE_1_PASSWORD": at["password"],
        "CRYPTO_HASH_SECRET_KEY_PLUGIN_CRM": HASH,
        "CRYPTO_ENCRYPT_SECRET_KEY_PLUGIN_CRM": KEY,
        "DATASOURCE_2_CONFIG_NAME": "bad",
        "DATASOURCE_2_TYPE": "canary-type",
        "SURPRISE": "canary-surprise",
    }
    secret = f"fetcher/datasources/{database}"
    stack.client("secretsmanager").create_secret(Name=secret, SecretString=json.dumps(members))
    quick = {"FETCHER_LEASE_SECONDS": "2", "FETCHER_HEARTBEAT_SECONDS": "0.2", "FETCHER_DISPATCH_SECONDS": "0.5"}
    with rig(stack, tmp_path_factory.mktemp("crm"), FETCHER_DATASOURCES_SECRET_ID=secret, **quick) as made:
        yield made


def posted(
    crm: Rig, fields: list[str], organization: Any = None, filters: Any = None, name: str = "", table: str = "holders"
) -> Answer:
    request: dict[str, Any] = {"mappedFields": {"plugin_crm": {table: fields}}}
    if filters:
        request["filters"] = {"plugin_crm": {table: filters}}
    metadata = {"source": "crm", "correlationId": name}
    return crm.post(
        {"dataRequest": request, "metadata": metadata | ({"organizationId": organization} if organization else {})}
    )


def ended(crm: Rig, answer: Answer, **env: str) -> Any:
    """Work until the job has ended, and return it."""
    assert answer.status == 202, answer

    def happened() -> Any:
        crm.sweep()
        crm.work(**env)
        job = crm.job(answer.json()["jobId"])
        return job if job["status"] in {"completed", "failed"} else None

    return until(happened, "the end", 60)


def rows(crm: Rig, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    assert job["status"] == "completed", job
    found: list[dict[str, Any]] = json.loads(crm.result(job))["plugin_crm"]["holders"]
    return found


def stored(crm: Rig) -> str:
    """All that the tables hold; the bytes in there are compressed schemas."""
    return json.dumps(crm.items(), default=lambda packed: gzip.decompress(packed).decode())


def test_a_job_gets_its_organization_in_the_clear_and_nothing_of_another(crm: Rig) -> None:
    """B-55; R-000-8: any product reads it; the manifest names what was decrypted, and verifies."""
    job = ended(crm, posted(crm, ["_id", "document", "name", "contact"], ONE))
    assert rows(crm, job) == [
        {
            "_id": n,
            "document": f"{n:011}",
            "name": f"Person {n}",
            "contact": {"mobile_phone": f"+{n}", "country": "BR"},
        }
        for n in range(SMALL)
    ]
    manifest = crm.http("GET", f"/v1/fetcher/{job['id']}/manifest").text
    assert verify_manifest(manifest.encode(), io.BytesIO(crm.result(job)), VERIFY_KEY) == []
    (datasource,) = json.loads(manifest)["datasources"]
    assert datasource["kind"] == "plugin_crm"
    assert datasource["tables"][0]["path"] == ["holders", f"holders_{ONE}"]
    contact = [name for name in ENCRYPTED if name.startswith("contact.")]
    assert datasource["tables"][0]["decrypted"] == sorted(["document", "name", *contact])


def test_without_a_name_several_organizations_are_refused(crm: Rig) -> None:
    """B-55: the job fails and says what to do; no object is left."""
    job = ended(crm, posted(crm, ["_id"]))
    assert (job["status"], job["error"]["family"]) == ("failed", "invalid")
    assert "metadata.organizationId" in job["error"]["message"]
    assert (job["error"]["datasource"], job["error"]["table"]) == ("plugin_crm", "holders")
    assert not [key for key in crm.objects() if job["id"] in key]


def test_what_can_never_be_answered_is_refused_at_submit(crm: Rig) -> None:
    """B-56, design 2: 400 with the pointer of the filter, or of the organization."""
    place = "/dataRequest/filters/plugin_crm/holders/name/ne"
    refused(posted(crm, ["_id"], ONE, {"name": {"ne": ["x"]}}), 400, "FET-2002", place)
    refused(posted(crm, ["_id"], "a_b"), 400, "FET-0402", "/metadata/organizationId")


def test_a_filter_by_hash_finds_its_row(crm: Rig) -> None:
    """Reference 11.3: through the whole service."""
    job = ended(crm, posted(crm, ["_id"], ONE, {"document": {"eq": [f"{7:011}"]}}))
    assert rows(crm, job) == [{"_id": 7}]


def test_a_killed_worker_goes_on_in_the_middle_of_the_second_collection(crm: Rig) -> None:
    """R-002-3, R-002-19: the position says which collection; same bytes, each document once, though `_id`s repeat."""
    both = [ONE, OTHER]
    calm = ended(crm, posted(crm, ["*"], both, name="calm"))
    assert [row["_id"] for row in rows(crm, calm)] == [*range(SMALL), *range(LARGE)]
    answer = posted(crm, ["*"], both, name="killed")
    job_id = answer.json()["jobId"]
    assert crm.invoke(EXTRACT, work_event(job_id), FETCHER_FAULT=Point.PART_STORED).outcome == "exited"
    item = next(item for item in crm.items() if item.get("extractionId") == {"S": job_id} and "checkpoint" in item)
    mark = item["checkpoint"]["M"]["mark"]["M"]
    assert mark["position"]["L"][0]["L"] == [{"S": "$collection"}, {"S": f"holders_{OTHER}"}]
    assert SMALL < int(mark["rows"]["L"][0]["N"]) < SMALL + LARGE
    job = ended(crm, answer)
    assert crm.result(job) == crm.result(calm)
    manifest = crm.http("GET", f"/v1/fetcher/{job_id}/manifest").json()
    assert manifest["datasources"][0]["snapshots"] == 2
    assert manifest["datasources"][0]["tables"][0]["order"] == ["$collection", "_id"]


def test_a_value_that_does_not_open_fails_the_job_safely(crm: Rig) -> None:
    """B-43, B-47; reference 11.4: damaged, or of another key: told is where, and the text of neither."""
    wrong = {"CRYPTO_ENCRYPT_SECRET_KEY_PLUGIN_CRM": "0f" * 16}
    for table, env in (("damaged", {}), ("holders", wrong)):
        job_id = posted(crm, ["_id", "name"], ONE, table=table, name=table).json()["jobId"]
        report = crm.invoke(EXTRACT, work_event(job_id), **env)
        error = crm.job(job_id)["error"]
        assert (error["family"], error["table"], error["field"]) == ("refused", table, "name")
        assert "cannot be decrypted" in error["message"]
        for text in (CANARY, KEY, "0f0f", HASH):
            assert text not in report.log + stored(crm) + json.dumps(error)


def test_a_result_over_its_bound_is_none(crm: Rig) -> None:
    """B-44; reference 11.1 has no limits there; here they are those of every source, kept while writing."""
    answer = posted(crm, ["*"], [ONE, OTHER], name="bound")
    job = ended(crm, answer, ENGINE_MAX_RESULT_BYTES="100000")
    assert (job["status"], job["error"]["family"]) == ("failed", "limit")


def test_every_route_knows_it(crm: Rig) -> None:
    """Reference 2.7, 11.2: seen as MongoDB, tested, described and validated by logical names."""
    listed = crm.http("GET", PATH).json()["items"]
    assert [(item["configName"], item["type"], item["internal"]) for item in listed] == [
        ("plugin_crm", "MONGODB", True)
    ]
    assert crm.http("GET", PATH, query={"type": "MONGODB"}).json()["items"] == listed
    assert crm.http("GET", f"{PATH}/{CRM}").json() == listed[0]
    assert crm.http("POST", f"{PATH}/{CRM}/test").json()["status"] == "success"
    schema = crm.http("GET", f"{PATH}/{CRM}/schema").json()
    assert schema["type"] == "MONGODB"
    assert [table["name"] for table in schema["tables"]] == ["damaged", "holders", "holders_history"]
    valid = {"holders": ["document", "contact.mobile_phone"], "damaged": ["*"]}
    assert validate(crm, {"plugin_crm": valid}).status == 200
    assert named(validate(crm, {"plugin_crm": {"nothing": ["x"]}}))[0][1] == "TABLE_NOT_FOUND"
    assert named(validate(crm, {"plugin_crm": {"holders": ["rest.x"]}}))[0][1] == "FIELD_NOT_FOUND"
    refused(crm.http("DELETE", f"{PATH}/{CRM}"), 404, "FET-1001")
    refused(crm.register("plugin_crm"), 409, "FET-1002")
    refused(crm.register("bad"), 409, "FET-1002")


def test_bad_members_are_reported_by_name_and_no_secret_is_anywhere(crm: Rig) -> None:
    """`/readyz` and the log name variables; values are in neither, nor in an answer, item or event."""
    ready = crm.http("GET", "/readyz")
    assert ready.status == 503
    check = ready.json()["checks"]["datasources"]
    assert [problem.split()[0] for problem in check["problems"]] == ["SURPRISE", "DATASOURCE_2_HOST"]
    with crm.envelope(SUBMIT) as fresh:
        context = {"http": {"method": "GET", "path": "/readyz"}, "stage": "$default", "requestId": "r"}
        event = {"version": "2.0", "rawPath": "/readyz", "rawQueryString": "", "headers": {}, "requestContext": context}
        log = fresh.invoke({**event, "isBase64Encoded": False}).log
    assert "SURPRISE" in log
    ended(crm, posted(crm, ["_id", "name"], ONE, {"_id": {"lt": [3]}}, name="event"))
    crm.notify()
    events = crm.published(0.5)
    assert events
    told = log + ready.text + stored(crm) + json.dumps(events)
    password = crm.stack["databases"]["my_mongo"]["password"]
    for text in (KEY, HASH, password, "canary-type", "canary-surprise"):
        assert text not in told
