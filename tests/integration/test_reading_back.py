"""A finished job, read back: status, list, link, manifest, erasure."""

import hashlib
import hmac
import io
import json
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
import urllib3

from fetcher.core.audit import verify_manifest
from tests.rig import VERIFY_KEY, Rig

pytestmark = pytest.mark.stack

DATA_REQUEST: dict[str, Any] = {
    "mappedFields": {"my_postgres": {"public.accounts": ["id", "email", "created_at"], "accounting.invoices": ["*"]}},
    "filters": {"my_postgres": {"accounting.invoices": {"status": {"in": ["paid", "pending"]}}}},
}


def run(service: Rig, data_request: Mapping[str, Any], name: str) -> Any:
    """Post a job, work on it and return it."""
    text = '{"dataRequest":%s,"metadata":{"source":"payments","correlationId":"%s","exact":1.50}}'
    answer = service.http("POST", "/v1/fetcher", text % (json.dumps(data_request), name))
    assert answer.status == 202, answer
    assert answer.headers["Location"] == f"/v1/fetcher/{answer.json()['jobId']}"
    return service.ended(answer.json()["jobId"])


@pytest.fixture(scope="module")
def job(service: Rig) -> Any:
    """One finished job of the seed's shape."""
    return run(service, DATA_REQUEST, "settlement")


def query(service: Rig, sql: str) -> list[tuple[Any, ...]]:
    """Ask the source, past the engine."""
    at = service.stack["databases"]["my_postgres"]
    with psycopg.connect(
        host=at["host"], port=at["port"], user=at["user"], password=at["password"], dbname=at["database"]
    ) as connection:
        return connection.execute(sql.encode()).fetchall()


def test_a_job_shows_what_was_asked_and_how_it_ended(service: Rig, job: Any) -> None:
    """R-000-9, R-000-71, R-000-77, B-53: metadata unchanged to the digit; attempts, progress."""
    assert job["status"] == "completed"
    assert job["mappedFields"] == DATA_REQUEST["mappedFields"]
    assert job["filters"] == DATA_REQUEST["filters"]
    assert job["metadata"] == {"source": "payments", "correlationId": "settlement", "exact": 1.5}
    assert '"exact":1.50' in service.http("GET", f"/v1/fetcher/{job['id']}").text
    assert job["progress"]["tables"] == {"done": 2, "total": 2}
    assert {"createdAt", "startedAt", "completedAt", "requestHash", "attempts", "resultSha256"} <= job.keys()
    assert "error" not in job


def test_the_result_is_what_an_independent_query_gives(service: Rig, job: Any) -> None:
    """B-49, R-000-3, 13, 14, 83..86: at the job's path; datasources, tables, fields and rows, in order, exactly."""
    result = json.loads(service.result(job))
    accounts = query(service, "SELECT id, email, created_at::text FROM public.accounts ORDER BY id")
    invoices = query(
        service,
        "SELECT id, account_id, number, status, amount::text, currency, issued_on::text FROM accounting.invoices "
        "WHERE status IN ('paid', 'pending') ORDER BY id",
    )
    assert list(result) == ["my_postgres"]
    assert list(result["my_postgres"]) == ["accounting.invoices", "public.accounts"]
    got = [tuple(row.values()) for row in result["my_postgres"]["public.accounts"]]
    assert [(row[0], row[1]) for row in got] == [(row[0], row[1]) for row in accounts]
    assert [tuple(row.values())[:7] for row in result["my_postgres"]["accounting.invoices"]] == invoices
    assert job["rowCount"] == len(accounts) + len(invoices)
    assert list(result["my_postgres"]["public.accounts"][0]) == ["id", "email", "created_at"]


def test_the_same_rows_give_the_same_bytes(service: Rig, job: Any) -> None:
    """R-000-83, R-000-53: another correlation id is another job with an identical result."""
    again = run(service, DATA_REQUEST, "another")
    assert again["id"] != job["id"]
    assert service.result(again) == service.result(job)


def test_signature_and_manifest_prove_the_result(service: Rig, job: Any) -> None:
    """R-000-78, R-000-79, B-51, B-67: HMAC over exactly the stored bytes; a flipped bit is found in either file."""
    result = service.result(job)
    assert hmac.new(VERIFY_KEY, result, "sha256").hexdigest() == job["resultHmac"]
    assert hashlib.sha256(result).hexdigest() == job["resultSha256"]
    assert len(result) == job["sizeBytes"]
    manifest = service.http("GET", f"/v1/fetcher/{job['id']}/manifest").text.encode()
    assert verify_manifest(manifest, io.BytesIO(result), VERIFY_KEY) == []
    flipped = bytearray(result)
    flipped[len(flipped) // 2] ^= 1
    assert verify_manifest(manifest, io.BytesIO(bytes(flipped)), VERIFY_KEY)
    assert verify_manifest(manifest.replace(b'"attempts":1', b'"attempts":2'), io.BytesIO(result), VERIFY_KEY)


def test_the_manifest_names_tables_columns_and_proof(service: Rig, job: Any) -> None:
    """R-000-101: the schema block names each encoding."""
    manifest = service.http("GET", f"/v1/fetcher/{job['id']}/manifest").json()
    invoices, accounts = manifest["datasources"][0]["tables"]
    assert accounts["columns"][0] == {"name": "id", "type": "bigint", "encoding": "integer", "element": None}
    assert (invoices["order"], accounts["rows"]) == (["id"], 5000)
    assert invoices["filters"] == [{"field": "status", "operator": "in"}]
    assert "one_snapshot" in [claim["code"] for claim in manifest["proven"]]


def test_a_status_that_was_seen_is_not_sent_again(service: Rig, job: Any) -> None:
    """Design §2: ETag and 304."""
    first = service.http("GET", f"/v1/fetcher/{job['id']}")
    again = service.http("GET", f"/v1/fetcher/{job['id']}", if_none_match=first.headers["ETag"])
    assert (again.status, again.text) == (304, "")
    assert service.http("GET", f"/v1/fetcher/{job['id']}", if_none_match='"other"').status == 200


def test_the_result_is_given_as_a_link(service: Rig, job: Any) -> None:
    """B-50. R-AWS-1: never through Lambda's answer."""
    answer = service.http("GET", f"/v1/fetcher/{job['id']}/result")
    assert (answer.status, answer.text) == (303, "")
    assert answer.headers["Cache-Control"] == "no-store"
    assert urllib3.request("GET", answer.headers["Location"], retries=False).data == service.result(job)


def test_jobs_are_listed_newest_first_and_in_pages(service: Rig, job: Any) -> None:
    """Design §2: an opaque cursor, no hidden rows, filters by status and source."""
    for number in range(3):
        run(service, {"mappedFields": {"my_postgres": {"public.accounts": ["id"]}}}, f"page {number}")
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2", "source": "PAYMENTS", "status": "completed"}
    while True:
        page = service.http("GET", "/v1/fetcher", query=query).json()
        seen += [item["id"] for item in page["items"]]
        assert len(page["items"]) <= 2
        if "next" not in page:
            break
        query["cursor"] = page["next"]
    assert len(seen) == len(set(seen)) >= 4
    assert job["id"] in seen
    assert service.http("GET", "/v1/fetcher", query={"source": "nobody"}).json()["items"] == []


def test_a_result_is_erased_on_request(service: Rig) -> None:
    """Design §5: result and manifest at once, also what a lost worker left under a token of its own; the job stays."""
    ended = run(service, {"mappedFields": {"my_postgres": {"public.accounts": ["email"]}}}, "to be erased")
    path = f"/v1/fetcher/{ended['id']}"
    left = f"{ended['resultPath'].rpartition('/')[0]}/0123456789abcdef.json"
    service.s3.put_object(Bucket=service.env["FETCHER_BUCKET"], Key=left, Body=b"{}")
    assert service.http("DELETE", f"{path}/result").status == 204
    assert service.http("DELETE", f"{path}/result").status == 204
    assert not [key for key in service.objects() if ended["id"] in key]
    for gone in (f"{path}/result", f"{path}/manifest"):
        answer = service.http("GET", gone)
        assert (answer.status, answer.json()["code"]) == (410, "FET-2006")
    assert service.job(ended["id"])["status"] == "completed"


def test_a_manifest_that_no_answer_can_hold_says_where_it_is(service: Rig) -> None:
    """R-AWS-1: Lambda gives 6 MB; `*` of wide tables may be described by more."""
    ended = run(service, {"mappedFields": {"my_postgres": {"public.accounts": ["email"]}}}, "large manifest")
    where = {"Bucket": service.env["FETCHER_BUCKET"], "Key": ended["manifestPath"]}
    service.s3.put_object(**where, Body=b'{"columns":"%b"}' % (b"x" * 4_500_000))
    answer = service.http("GET", f"/v1/fetcher/{ended['id']}/manifest")
    assert (answer.status, answer.json()["code"]) == (400, "FET-2040")
    assert "manifestPath" in answer.json()["detail"]


def test_a_job_that_runs_has_no_result_yet_and_asks_to_be_polled(service: Rig) -> None:
    """R-000-59, design §2: 409 until completed, with a poll hint; and its message is on the queue."""
    answer = service.post(
        {
            "dataRequest": {"mappedFields": {"my_postgres": {"public.accounts": ["name"]}}},
            "metadata": {"source": "payments"},
        }
    )
    path = f"/v1/fetcher/{answer.json()['jobId']}"
    status = service.http("GET", path)
    assert (status.json()["status"], status.headers["Retry-After"]) == ("pending", "2")
    for method in ("GET", "DELETE"):
        refused = service.http(method, f"{path}/result")
        assert (refused.status, refused.json()["code"]) == (409, "FET-2005")
    assert service.waiting("FETCHER_WORK_QUEUE_URL") == 1
    assert service.work() is not None
    assert service.http("GET", path).json()["status"] == "completed"


def test_a_connection_is_shown_without_its_secret_and_kept_while_in_use(service: Rig) -> None:
    """R-000-96, R-000-97: the password never comes back; a running job holds its connections."""
    listed = service.http("GET", "/v1/management/connections", x_product_name="Payments").json()["items"]
    own = next(item for item in listed if item["configName"] == "my_postgres")
    password = service.stack["databases"]["my_postgres"]["password"]
    shown = service.http("GET", f"/v1/management/connections/{own['id']}")
    assert password not in shown.text
    assert "password" not in shown.json()
    assert service.http("GET", "/v1/management/connections", x_product_name="sales").json()["items"] == []
    posted = service.post(
        {
            "dataRequest": {"mappedFields": {"my_postgres": {"public.accounts": ["country"]}}},
            "metadata": {"source": "payments"},
        }
    )
    refused = service.http("DELETE", f"/v1/management/connections/{own['id']}")
    assert (refused.status, refused.json()["code"]) == (409, "FET-1021")
    assert service.ended(posted.json()["jobId"])["status"] == "completed"


def test_a_deleted_connection_frees_its_name_at_once(service: Rig) -> None:
    """§13.3-17, §13.3-19. Design §4, items 1 and 1n."""
    first = service.register("short_lived").json()["id"]
    assert service.http("DELETE", f"/v1/management/connections/{first}").status == 204
    assert service.http("GET", f"/v1/management/connections/{first}").status == 404
    assert service.http("DELETE", f"/v1/management/connections/{first}").status == 404
    second = service.register("short_lived")
    assert second.status == 201
    assert service.http("DELETE", f"/v1/management/connections/{second.json()['id']}").status == 204


def test_a_connection_is_tested_for_real(service: Rig) -> None:
    """§13.4-3. R-000-98, design §12: 200 either way, with latency and a typed reason."""
    good = service.http("GET", "/v1/management/connections").json()["items"]
    own = next(item for item in good if item["configName"] == "my_postgres")["id"]
    worked = service.http("POST", f"/v1/management/connections/{own}/test").json()
    assert worked["status"] == "success"
    assert worked["latencyMs"] >= 0
    bad = service.register("wrong_password", password="not it").json()["id"]
    failed = service.http("POST", f"/v1/management/connections/{bad}/test")
    assert (failed.status, failed.json()["status"], failed.json()["reason"]) == (200, "failure", "refused")
    assert "not it" not in failed.text


def test_readiness_asks_everything_and_tells_no_secret(service: Rig) -> None:
    """/health, /readyz, /version, /openapi.json."""
    ready = service.http("GET", "/readyz")
    assert (ready.status, ready.json()["status"]) == (200, "healthy")
    assert service.env["FETCHER_BUCKET"] not in ready.text
    assert service.http("GET", "/health").json() == {"status": "healthy"}
    assert service.http("GET", "/version").json()["version"]
    described = service.http("GET", "/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    assert {"/v1/fetcher", "/v1/fetcher/{job_id}", "/v1/management/connections"} <= described["paths"].keys()
