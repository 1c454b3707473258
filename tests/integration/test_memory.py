"""What a process holds that worked on many jobs, as Lambda keeps one: small, large and wide ones, on three engines."""

from collections.abc import Callable

import pytest

from infra.local.demo import TYPES
from tests.envelope import Envelope
from tests.integration.test_bounds import MIB, posted, sized, view
from tests.rig import EXTRACT, Rig, work_event
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

BOUND = 150_000_000
SMALL = 10


def test_a_warm_process_stays_within_memory_whatever_it_worked_on(
    service: Rig, stack: Stack, record_property: Callable[[str, object], None]
) -> None:
    """R-000-47: the second round of the same jobs takes what the first has taken, and no job leaves anything."""
    others = {name: at for name, at in stack["databases"].items() if at["kind"] in {"mysql", "mongodb"}}
    for name, at in others.items():
        kind, user, password = TYPES[at["kind"]], at["user"], at["password"]
        where = {"host": at["host"], "port": at["port"], "databaseName": at["database"]}
        assert service.register(name, type=kind, userName=user, password=password, **where).status == 201
    view(service, "large", sized("large", 64 * MIB, 20_000))
    view(service, "wide", f"SELECT n, repeat('x', {MIB}) AS text FROM generate_series(1, 40) n")
    with service.envelope(EXTRACT, memory_mb=512, seconds=300) as envelope:
        peaks = [_round(service, envelope, number, list(others)) for number in range(3)]
    record_property("peak", " ".join(f"{peak / 1e6:.0f}" for peak in peaks) + " MB after each round")
    assert max(peaks) < BOUND
    assert peaks[-1] - peaks[0] < 8_000_000


def _round(service: Rig, envelope: Envelope, number: int, others: list[str]) -> int:
    """Run one job of each sort, and some small ones; return the highest memory so far, in bytes."""
    tables = {"my_mariadb": {"cards": ["*"]}, "my_mongo": {"transactions": ["*"]}}
    ids = [posted(service, {"public.accounts": ["id"]}, f"small {number} {n}") for n in range(SMALL)]
    ids.append(posted(service, {"public.accounts": ["*"]}, f"all {number}", **{name: tables[name] for name in others}))
    ids += [posted(service, {table: ["*"]}, f"{table} {number}") for table in ("large", "wide")]
    reports = [envelope.invoke(work_event(job_id)) for job_id in ids]
    assert [service.job(job_id)["status"] for job_id in ids] == ["completed"] * len(ids)
    return max(report.peak_bytes for report in reports)
