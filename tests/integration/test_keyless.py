"""A table without a key between two that have one: what is read again after an attempt that ended in the middle of it,
or behind it (`design.md` §5, resume points).

Four attempts at one job: the first hands over in the second table, the next is killed there, another one in the third.
The wire falls silent where they end. Behind each of them every row changes, so that a row shows which attempt read it.
"""

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from tests.databases import KINDS, SERIES, Database
from tests.envelope import Envelope
from tests.faultproxy import FaultProxy, faulty
from tests.integration.test_cancel import cancel
from tests.integration.test_crashes import MARGIN_SECONDS, checkpointed, finished, manifest
from tests.rig import EXTRACT, Rig, until, work_event
from tests.stack import Stack

pytestmark = pytest.mark.stack

MIB = 1024 * 1024
ROWS, NOTE = 1300, "x" * 8192
"""A table is 10.2 MiB of the result: parts end at 8.1 MiB in the first one, at 16.3 in the second, at 24.4 in the
third, of 30.6 in all."""
FIRST, KEYLESS, LAST = TABLES = ("a_keyed", "b_keyless", "c_keyed")
"""In the order in which they are read."""
FROM_THE_BEGINNING, GONE_ON = round(18.5 * MIB), round(10.5 * MIB)
"""What an attempt gets until it is at 18.5 MiB, in the second table: it begins at 0, or behind the first part."""
IN_LAST = FROM_THE_BEGINNING
"""What one gets that goes on behind the first part, until it is at 26.6 MiB, in the third table."""
PATIENCE = (1.5, 3, 6, 12, 24)
"""Seconds of an attempt that hands over. On a busy machine it takes longer to come as far as it should."""
READ = re.compile(rb"(?i)concat\([^\0]*? FROM (?:\"public\"\.)?[\"`]([abc]_key\w+)[\"`]( WHERE)?")
"""The table that a statement reads, and whether from behind a key."""
SPELLED = re.compile(rb"X'([0-9a-f]+)'")
"""How a statement travels to MySQL."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One job over the three tables, on a wire that can fall silent."""

    service: Rig
    wire: FaultProxy
    job_id: str

    def silence(self, after: int) -> None:
        """Let the wire fall silent after so many bytes of the next attempt."""
        self.wire.broken.clear()
        self.wire.heard.clear()
        self.wire.fault, self.wire.after, self.wire.alone = "stall", after, True

    def event(self) -> Any:
        """The message that brings the job as it is now."""
        return work_event(self.job_id, int(self.service.record(self.job_id)["generation"]["N"]))

    def parts(self) -> tuple[int, int]:
        """How many parts the record trusts, and how many are stored."""
        known = self.service.record(self.job_id).get("checkpoint", {}).get("M", {})
        if "uploadId" not in known:
            return 0, 0
        upload = {"Key": known["key"]["S"], "UploadId": known["uploadId"]["S"]}
        stored = self.service.s3.list_parts(Bucket=self.service.env["FETCHER_BUCKET"], **upload)
        return checkpointed(self.service, self.job_id), len(stored.get("Parts", []))

    def mark(self) -> tuple[str, int]:
        """The table and the key behind which the next attempt goes on."""
        mark = self.service.record(self.job_id)["checkpoint"]["M"]["mark"]["M"]
        (pair,) = mark["position"]["L"]
        return TABLES[int(mark["table"]["N"])], int(pair["L"][1]["S"])

    def reads(self) -> list[tuple[str, bool]]:
        """What the last attempt read: each table, and whether from behind a key."""
        heard = bytes(self.wire.heard)
        said = [heard, *(bytes.fromhex(each.decode()) for each in SPELLED.findall(heard))]
        return [(table.decode(), bool(behind)) for each in said for table, behind in READ.findall(each)]


def killed(scene: Scene, worker: Envelope, after: int, parts: tuple[int, int]) -> None:
    """Kill the worker where the wire falls silent, once so many parts are there, and wait until its claim is over."""
    scene.silence(after)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(worker.invoke, scene.event())
        until(lambda: scene.wire.broken.is_set() and scene.parts() == parts, f"{parts} parts", 60)
        worker.signal(signal.SIGKILL)
        assert working.result().outcome == "exited"
    lease = int(scene.service.record(scene.job_id)["leaseUntil"]["N"])
    until(lambda: time.time() * 1000 > lease, "the end of the lease")


def handed_over(service: Rig, database: Database, wire: FaultProxy, name: str, worker: Envelope) -> Scene:
    """Post a job that a worker hands over in the second table: its time ends behind the silence.

    On a busy machine it takes longer to come so far, and another job has more time.
    """
    for seconds in PATIENCE:
        fill(database)
        job_id = service.posted({name: {table: ["*"] for table in TABLES}}, f"{name} {seconds}")
        scene = Scene(service, wire, job_id)
        scene.silence(FROM_THE_BEGINNING)
        report = worker.invoke(scene.event(), MARGIN_SECONDS + seconds)
        assert report.payload == {"batchItemFailures": []}, report
        assert service.job(job_id)["status"] == "processing"
        if wire.broken.is_set() and scene.parts()[1] == 2:
            return scene
        assert cancel(service, job_id) == 202
    raise AssertionError(f"{seconds} s were too short")


def fill(database: Database) -> None:
    """Make the tables anew, in version 0."""
    for table in TABLES:
        key = "" if table == KEYLESS else ", PRIMARY KEY (id)"
        database.run(
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (id bigint NOT NULL, version int NOT NULL, note text NOT NULL{key})",
            f"INSERT INTO {table} SELECT n, 0, '{NOTE}' FROM ({SERIES[database.kind].format(ROWS)}) s",
        )


def change(database: Database) -> None:
    """Give every row of every table the next version."""
    database.run(*(f"UPDATE {table} SET version = version + 1" for table in TABLES))


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_table_without_a_key_is_read_again_from_its_start(service: Rig, stack: Stack, kind: str) -> None:
    """R-002-3, R-002-19, R-002-20: in whose middle an attempt ended, and whole; one that ended behind it does not bring
    it back. With a key, what is stored stays as the first read saw it, and the next one goes on behind it.
    """
    database, name = Database.of(stack, kind), f"keyless_{kind}"
    with faulty(database.at["host"], database.at["port"]) as wire, service.envelope(EXTRACT) as worker:
        database.register(service, name, wire.port)
        scene = handed_over(service, database, wire, name, worker)
        assert scene.parts() == (1, 2)
        assert scene.reads() == [(FIRST, False), (KEYLESS, False)]
        table, first = scene.mark()
        assert table == FIRST
        change(database)
        killed(scene, worker, GONE_ON, (1, 3))
        assert scene.reads() == [(FIRST, True), (KEYLESS, False)]
        assert scene.mark() == (FIRST, first)
        change(database)
        killed(scene, worker, IN_LAST, (3, 5))
        assert scene.reads() == [(FIRST, True), (KEYLESS, False), (LAST, False)]
        table, last = scene.mark()
        assert table == LAST
        change(database)
        wire.fault = "none"
        wire.heard.clear()
        body = finished(service, scene.job_id)
        assert scene.reads() == [(LAST, True)]
    seen = {table: [(row["id"], row["version"]) for row in rows] for table, rows in json.loads(body)[name].items()}
    owed = {
        FIRST: [(n, 0 if n <= first else 2) for n in range(1, ROWS + 1)],
        KEYLESS: [(n, 2) for n in range(1, ROWS + 1)],
        LAST: [(n, 2 if n <= last else 3) for n in range(1, ROWS + 1)],
    }
    assert {**seen, KEYLESS: sorted(seen[KEYLESS])} == owed
    rows = {table: [{"id": n, "version": version, "note": NOTE} for n, version in seen[table]] for table in TABLES}
    assert sha256(body).digest() == sha256(json.dumps({name: rows}, separators=(",", ":")).encode()).digest()
    told = manifest(service, scene.job_id)
    (datasource,) = told["datasources"]
    assert (datasource["snapshots"], [table["rows"] for table in datasource["tables"]]) == (3, [ROWS] * 3)
    (unsure,) = (claim["text"] for claim in told["notProven"] if claim["code"] == "unique_rows")
    assert unsure == f"No unique key orders the rows of: {name}/{KEYLESS}."
    service.forget(scene.job_id)
