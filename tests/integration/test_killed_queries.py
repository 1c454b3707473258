"""How long a server works on for a worker that was killed, which leaves nobody to cancel its query."""

import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.databases import KINDS, NAMES, Database
from tests.rig import EXTRACT, Rig, until, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

SLACK = 4.0
"""Seconds that a busy machine may add."""
VIEW = "busy_long"


@dataclass(frozen=True, slots=True)
class Kind:
    """How a database is kept busy without a byte for the client, and what bounds that when the client is gone."""

    busy: str
    working: str
    """How many sessions are at it, and not at what comes before."""
    within: float
    """Seconds from the kill."""
    env: Mapping[str, str] = field(default_factory=dict)


SEEN = {
    "postgresql": Kind(
        "SELECT 1 AS id, pg_sleep(60)::text AS note",
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'fetcher-{}'",
        within=2,  # the server looks at the client's end of the wire every two seconds
    ),
    "mysql": Kind(
        "SELECT seq AS id, benchmark(100000000, md5('x')) AS note FROM seq_1_to_2",
        "SELECT count(*) FROM information_schema.PROCESSLIST"
        f" WHERE INFO LIKE '%CONCAT(%{VIEW}%' AND ID <> connection_id()",
        within=4,  # it finds out when it sends; before that, the job's time ends the statement
        env={"FETCHER_EXTRACTION_SECONDS": "4"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_query_of_a_killed_worker_ends_by_itself(service: Rig, stack: Stack, kind: str) -> None:
    """R-002-88: on PostgreSQL within two seconds, on MariaDB with the job's time."""
    database, seen = Database.of(stack, kind), SEEN[kind]
    database.run(f"DROP VIEW IF EXISTS {VIEW}", f"CREATE VIEW {VIEW} AS {seen.busy}")
    if kind == "mysql":
        database.register(service, NAMES[kind], database.at["port"])
    job_id = service.posted({NAMES[kind]: {VIEW: ["*"]}}, "killed while the source works")

    def working() -> int:
        return int(database.run(seen.working.format(job_id))[0][0])

    with service.envelope(EXTRACT, seen.env) as worker, ThreadPoolExecutor(1) as threads:
        invoked = threads.submit(worker.invoke, work_event(job_id))
        until(working, "the query", 60)
        worker.signal(signal.SIGKILL)
        assert invoked.result().outcome == "exited"
    until(lambda: not working(), "the query's end", seen.within + SLACK)
