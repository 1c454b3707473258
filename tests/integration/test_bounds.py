"""Size, memory, time and failure, with the real handler inside its limits."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from fetcher.errors import ACTIONS, SCHEMA_VALIDATION
from tests.faultproxy import faulty
from tests.rig import EXTRACT, Rig, until, work_event

pytestmark = pytest.mark.stack

MIB = 1024 * 1024
LIMIT = 256 * MIB
ROWS = 100_000
FIVE = ("e_1", "e_2", "e_3", "e_4", "e_waits")
TOLD = "SELECT obj_description(to_regclass(%s), 'pg_class')"
"""What a view is made of, in its maker's words."""
READS = b"OFFSET 0) rows"
"""How a read of a view without a key ends, and nothing else that is asked."""
UNHURRIED = {"FETCHER_LEASE_SECONDS": "60", "FETCHER_HEARTBEAT_SECONDS": "1"}
"""Nobody dies here, and a busy machine may keep a heartbeat waiting for longer than a lease of seconds."""


@contextmanager
def source(service: Rig) -> Iterator[psycopg.Connection]:
    """A connection to the source, past the engine."""
    at = service.stack["databases"]["my_postgres"]
    with psycopg.connect(
        host=at["host"],
        port=at["port"],
        user=at["user"],
        password=at["password"],
        dbname=at["database"],
        autocommit=True,
    ) as connection:
        yield connection


def view(service: Rig, name: str, sql: str) -> None:
    """Make a view of rows that cost the source no disk, or find it made. All tests of a run share its names."""
    with source(service) as connection:
        # Processes of a run that begin together would replace one view at once: "tuple concurrently updated".
        connection.execute("SELECT pg_advisory_lock(hashtext('view'))")
        told = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class')", [f'public."{name}"']
        ).fetchone()
        assert told in {(None,), (sql,)}, f"another test's view is called {name}"
        connection.execute(f'CREATE OR REPLACE VIEW public."{name}" AS {sql}'.encode())
        connection.execute(SQL("COMMENT ON VIEW public.{} IS {}").format(Identifier(name), sql))


def sized(name: str, total: int, rows: int = ROWS) -> str:
    """Rows whose result document has exactly `total` bytes."""
    frame = len(f'{{"my_postgres":{{"{name}":[]}}}}') + rows - 1
    digits = sum(len(str(n)) for n in range(1, rows + 1))
    each = len('{"n":,"text":""}')
    filler, rest = divmod(total - frame - digits - each * rows, rows)
    text = f"repeat('x', {filler} + CASE WHEN n <= {rest} THEN 1 ELSE 0 END) AS text"
    return f"SELECT n, {text} FROM generate_series(1, {rows}) n"


def posted(service: Rig, tables: Any, name: str, **more: Any) -> str:
    """Post a job and return its id."""
    return service.posted({"my_postgres": tables, **more}, name)


def worked(service: Rig, job_id: str, **env: str) -> tuple[Any, int]:
    """Run the job in a fresh process under the template's memory limit; return it and the peak in bytes."""
    with service.envelope(EXTRACT, {**UNHURRIED, **env}, memory_mb=512, seconds=300) as envelope:
        report = envelope.invoke(work_event(job_id))
    assert report.outcome == "response", report
    return service.job(job_id), report.peak_bytes


@pytest.mark.slow
def test_a_result_of_the_maximum_size_fits_and_memory_stays_flat(
    service: Rig, record_property: Callable[[str, object], None]
) -> None:
    """R-000-41, R-000-43, R-000-47: exactly 256 MiB completes; ten times the rows adds under 20 MB."""
    view(service, "tenth", sized("tenth", LIMIT // 10, ROWS // 10))
    view(service, "at bound", sized("at bound", LIMIT))
    small, small_peak = worked(service, posted(service, {"tenth": ["*"]}, "tenth"))
    large, large_peak = worked(service, posted(service, {"at bound": ["*"]}, "at bound"))
    assert (small["status"], small["sizeBytes"]) == ("completed", LIMIT // 10)
    assert (large["status"], large["sizeBytes"], large["rowCount"]) == ("completed", LIMIT, ROWS)
    record_property("peak", f"{small_peak / 1e6:.0f} MB for 25.6 MiB, {large_peak / 1e6:.0f} MB for 256 MiB")
    assert large_peak < 125_000_000
    assert large_peak - small_peak < 20_000_000
    service.http("DELETE", f"/v1/fetcher/{large['id']}/result")


def test_one_byte_over_the_bound_fails_and_leaves_nothing(service: Rig) -> None:
    """R-000-41, R-000-42, R-000-46: no object, no part and no path."""
    bound = 20 * MIB
    view(service, "over", sized("over", bound + 1, 10_000))
    view(service, "just", sized("just", bound, 10_000))
    over, _ = worked(service, posted(service, {"over": ["*"]}, "over"), ENGINE_MAX_RESULT_BYTES=str(bound))
    just, _ = worked(service, posted(service, {"just": ["*"]}, "just"), ENGINE_MAX_RESULT_BYTES=str(bound))
    assert (over["status"], over["error"]["family"], over["error"]["code"]) == ("failed", "limit", "FET-2040")
    assert over["error"]["phase"] == "reading"
    assert (just["status"], just["sizeBytes"]) == ("completed", bound)
    assert "resultPath" not in over
    assert not [key for key in service.objects() + service.uploads() if over["id"] in key]
    far, _ = worked(service, posted(service, {"just": ["*"]}, "far over"), ENGINE_MAX_RESULT_BYTES=str(MIB))
    assert (far["error"]["phase"], far["error"]["datasource"], far["error"]["table"]) == (
        "reading",
        "my_postgres",
        "just",
    )


@pytest.mark.slow
def test_rows_of_a_mebibyte_stay_within_memory(service: Rig, record_property: Callable[[str, object], None]) -> None:
    """R-000-47: under 150 MB with rows of 1 MiB, since pages are bounded by bytes."""
    view(service, "wide rows", f"SELECT n, repeat('x', {MIB}) AS text FROM generate_series(1, 100) n")
    job, peak = worked(service, posted(service, {"wide rows": ["*"]}, "wide rows"))
    record_property("peak", f"{peak / 1e6:.0f} MB with rows of 1 MiB")
    assert job["status"] == "completed"
    assert peak < 150_000_000


@pytest.mark.slow
def test_a_row_of_eighty_megabytes_fits_with_its_key(
    service: Rig, record_property: Callable[[str, object], None]
) -> None:
    """R-000-47: parsed for its key, it took a worker of 512 MB with it."""
    with source(service) as connection:
        connection.execute("DROP TABLE IF EXISTS tall; CREATE TABLE tall (id int PRIMARY KEY, body text)")
        connection.execute("INSERT INTO tall SELECT n, repeat('x', 80000000) FROM generate_series(1, 1) n")
    job, peak = worked(service, posted(service, {"tall": ["*"]}, "tall"))
    record_property("peak", f"{peak / 1e6:.0f} MB with a row of 80 MB")
    assert (job["status"], job.get("error"), job.get("rowCount")) == ("completed", None, 1)
    assert peak < 512 * MIB
    service.http("DELETE", f"/v1/fetcher/{job['id']}/result")
    with source(service) as connection:
        connection.execute("DROP TABLE tall")


def test_several_datasources_are_read_side_by_side_into_one_result(service: Rig) -> None:
    """R-000-3, R-000-23, R-000-39: in sorted order, whatever finishes first."""
    names = [f"pg_{number}" for number in range(6)]
    for name in names:
        assert service.register(name).status == 201
    mapped = {name: {"public.accounts": ["id"]} for name in names}
    job, _ = worked(service, posted(service, {"accounting.invoices": ["id"]}, "many", **mapped))
    result = json.loads(service.result(job))
    assert list(result) == sorted(["my_postgres", *names])
    assert all(len(result[name]["public.accounts"]) == 5000 for name in names)
    assert len(result["my_postgres"]["accounting.invoices"]) == 20_000


def test_an_empty_table_is_an_empty_list(service: Rig) -> None:
    """Design §5; B-46."""
    view(service, "empty", "SELECT 1 AS n WHERE false")
    job, _ = worked(service, posted(service, {"empty": ["*"]}, "empty"))
    assert service.result(job) == b'{"my_postgres":{"empty":[]}}'


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        ({"no_such_table": ["*"]}, {"table": "no_such_table"}),
        ({"public.accounts": ["id", "nope"]}, {"table": "public.accounts", "field": "nope"}),
    ],
)
def test_a_bad_selection_fails_the_job_with_the_safe_text(service: Rig, tables: Any, where: Any) -> None:
    """§13.10-2. R-000-20, R-000-70: the text is exact, the details name what the caller wrote."""
    job, _ = worked(service, posted(service, tables, f"bad {where}"))
    assert job["status"] == "failed"
    assert job["error"] == {
        "code": "FET-2010",
        "family": "invalid",
        "message": SCHEMA_VALIDATION,
        "action": ACTIONS["invalid"],
        "phase": "planning",
        "datasource": "my_postgres",
        **where,
    }


def broken_and_endless(service: Rig) -> None:
    """Make a view that fails in its fifth row, and one that does not end."""
    view(service, "broken", "SELECT 1 / (n - 5) AS n FROM generate_series(1, 10) n")
    view(service, "endless", "SELECT n, repeat('x', 1000) AS text FROM generate_series(1, 100000000) n")


def test_one_failing_datasource_stops_the_others(service: Rig) -> None:
    """R-000-70: running reads are cancelled at the source, and no partial result exists."""
    assert service.register("bad_one").status in {201, 409}
    broken_and_endless(service)
    job_id = posted(service, {"endless": ["*"]}, "fail fast", bad_one={"broken": ["*"]})
    job, _ = worked(service, job_id)
    assert (job["status"], job["error"]["datasource"], job["error"]["table"]) == ("failed", "bad_one", "broken")
    assert active_queries(service, job_id) == 0
    assert not [key for key in service.objects() + service.uploads() if job_id in key]


def test_a_datasource_that_waits_behind_a_failed_one_is_never_read(service: Rig) -> None:
    """R-000-70: four of five are read at once; when one of them fails, the fifth has not been asked for a row."""
    at = service.stack["databases"]["my_postgres"]
    view(service, "small", "SELECT 1 AS n")
    broken_and_endless(service)
    with faulty(at["host"], at["port"]) as proxy:
        ports = {name: proxy.port if name == "e_waits" else at["port"] for name in FIVE}
        assert {service.register(name, port=port).status for name, port in ports.items()} == {201}
        calm, _ = worked(service, five(service, "calm", {}))
        assert calm["status"] == "completed"
        assert READS in proxy.heard
        proxy.heard.clear()
        job_id = five(service, "one fails", {"e_2": "broken", "e_3": "endless", "e_4": "endless", "e_1": "endless"})
        job, _ = worked(service, job_id)
        assert (job["status"], job["error"]["datasource"]) == ("failed", "e_2")
        assert proxy.heard
        assert READS not in proxy.heard
    assert active_queries(service, job_id) == 0
    assert not [key for key in service.objects() + service.uploads() if job_id in key]


def five(service: Rig, name: str, views: Mapping[str, str]) -> str:
    """Post a job over five datasources, each with one view."""
    return service.posted({each: {views.get(each, "small"): ["*"]} for each in FIVE}, name)


def test_the_clock_ends_a_job_at_the_source_too(service: Rig) -> None:
    """R-000-40: failed with a timeout, nothing stored, nothing running two seconds later."""
    view(service, "slow", "SELECT n, pg_sleep(0.2)::text AS s FROM generate_series(1, 1000) n")
    job_id = posted(service, {"slow": ["*"]}, "slow")
    job, _ = worked(service, job_id, FETCHER_EXTRACTION_SECONDS="3")
    assert (job["status"], job["error"]["family"]) == ("failed", "timeout")
    assert job["error"]["phase"] == "reading"
    assert job["progress"]["current"] == "my_postgres/slow"
    assert "rate" not in job["progress"]
    assert active_queries(service, job_id) == 0
    assert not [key for key in service.objects() + service.uploads() if job_id in key]


def active_queries(service: Rig, job_id: str) -> int:
    """Sessions of a job that still compute, given two seconds to stop."""
    sql = b"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name = %s"
    until = time.monotonic() + 2
    with source(service) as connection:
        while True:
            row = connection.execute(sql, [f"fetcher-{job_id}"]).fetchone()
            assert row is not None
            if row[0] == 0 or time.monotonic() > until:
                return int(row[0])
            time.sleep(0.1)


def test_a_table_that_is_emptied_or_changed_while_another_is_read_stays_whole(service: Rig) -> None:
    """R-002-1: neither TRUNCATE nor ALTER of a later table is seen by the job, nor blocks it for ever."""
    view(service, "a first", "SELECT n, pg_sleep(0.2)::text AS s FROM generate_series(1, 10) n")
    with source(service) as connection:
        connection.execute("DROP TABLE IF EXISTS later; CREATE TABLE later (id int, v int)")
        connection.execute("INSERT INTO later SELECT n, n FROM generate_series(1, 1000) n")
    job_id = posted(service, {"a first": ["*"], "later": ["*"]}, "held")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(worked, service, job_id)
        until(lambda: service.job(job_id)["progress"].get("current", "").endswith("a first"), "the first table")
        with source(service) as connection:
            connection.execute("BEGIN; TRUNCATE later; INSERT INTO later VALUES (1, 1); COMMIT")
        job, _ = running.result()
    assert job["status"] == "completed"
    assert len(json.loads(service.result(job))["my_postgres"]["later"]) == 1000


def test_a_schema_that_changed_since_the_last_job_is_read_as_it_is_now(service: Rig) -> None:
    """R-000-21: a text in a column that was a number a moment ago is a string, and a new column is there."""
    with source(service) as connection:
        connection.execute("DROP TABLE IF EXISTS drifting; CREATE TABLE drifting (id int, v int)")
        connection.execute("INSERT INTO drifting VALUES (1, 7)")
        first, _ = worked(service, posted(service, {"drifting": ["*"]}, "before the change"))
        connection.execute("ALTER TABLE drifting ALTER v TYPE text USING NULL, ADD w int")
        connection.execute("INSERT INTO drifting VALUES (2, '1},{\"id\":99', 3)")
    second, _ = worked(service, posted(service, {"drifting": ["*"]}, "after the change"))
    assert json.loads(service.result(first)) == {"my_postgres": {"drifting": [{"id": 1, "v": 7}]}}
    assert json.loads(service.result(second))["my_postgres"]["drifting"] == [
        {"id": 1, "v": None, "w": None},
        {"id": 2, "v": '1},{"id":99', "w": 3},
    ]


def test_thousands_of_values_do_not_slow_every_row(service: Rig) -> None:
    """A list is parsed once, not once a row: 200,000 rows against 5,000 values within the job's time."""
    values = [f"note {number}" for number in range(5000)]
    body = {
        "dataRequest": {
            "mappedFields": {"my_postgres": {"public.movements": ["id"]}},
            "filters": {"my_postgres": {"public.movements": {"code": {"nin": values}}}},
        },
        "metadata": {"source": "payments", "correlationId": "many values"},
    }
    job, _ = worked(service, str(service.post(body).json()["jobId"]), FETCHER_EXTRACTION_SECONDS="60")
    assert (job["status"], job["rowCount"]) == ("completed", 200_000)


def test_json_of_any_depth_is_read(service: Rig) -> None:
    """A key is found without parsing what a row holds."""
    with source(service) as connection:
        connection.execute("DROP TABLE IF EXISTS deep; CREATE TABLE deep (id int PRIMARY KEY, doc jsonb)")
        connection.execute("INSERT INTO deep VALUES (1, %s)", ["[" * 3000 + "]" * 3000])
    job, _ = worked(service, posted(service, {"deep": ["*"]}, "deep"))
    assert service.result(job) == b'{"my_postgres":{"deep":[{"id":1,"doc":' + b"[" * 3000 + b"]" * 3000 + b"}]}}"
