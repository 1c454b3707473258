"""Several at the same moment: one wins, and what the losers do has no effect.

Workers are threads of the deployed code in this process, each with a claim of its own, because eight
Lambda environments are more than a machine of two cores can run at once. What they share, as real ones
do, is only DynamoDB, S3 and SQS.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from extract.attempt import attempt
from extract.services import Services
from fetcher.aws.connections import Connections
from fetcher.aws.extractions import Extractions
from fetcher.aws.gates import Gates
from fetcher.aws.records import Accepted, Completed, Duplicate, Failed
from fetcher.aws.schemas import Schemas
from fetcher.aws.secrets import Keys, Vault
from fetcher.aws.slots import Slots
from fetcher.aws.sources import Sources
from fetcher.core.clock import now_ms
from fetcher.core.extraction import Extraction
from fetcher.core.lifecycle import Status
from fetcher.errors import CanceledError, FetcherError, LostClaimError
from fetcher.settings import load
from tests.cloud import Cloud
from tests.cloudproxy import Fault
from tests.envelope import Envelope
from tests.faultproxy import faulty
from tests.moments import Moment, asked, at_once, request
from tests.rig import NOTIFY, SUBMIT, Rig
from tests.scenarios import WAYS, clouded, posted
from tests.stack import Stack

pytestmark = pytest.mark.stack

WORKERS = 8
ROUNDS = 25
MOMENTS = 12
STORIES = {(False, False), (True, False), (True, True)}
"""Of a moment: whether its cancel was accepted, and whether a request became another job."""
CANCELED = Failed(CanceledError("the job was canceled"))


@pytest.fixture(scope="module")
def at(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with clouded(stack, tmp_path_factory.mktemp("races")) as made:
        yield made


@pytest.fixture(scope="module")
def services(at: Cloud) -> Services:
    """What a worker is made of, with the rig's clients."""
    settings = load(at.env)
    extractions = Extractions.of(at.dynamodb, settings, now_ms)
    slots = Slots(at.dynamodb, settings.main_table, now_ms, lease_ms=settings.lease_ms)
    return Services(
        settings=settings,
        clock=now_ms,
        extractions=extractions,
        beats=extractions,
        connections=Connections(at.dynamodb, settings.connections_table, settings.main_table, now_ms),
        schemas=Schemas(at.dynamodb, settings.main_table, now_ms),
        sources=Sources(Vault(at.kms, settings.key_id), settings),
        slots=slots,
        renewals=slots,
        gates=Gates(at.dynamodb, settings.main_table, now_ms),
        keys=Keys(at.secrets, settings.master_secret),
        sqs=at.sqs,
        s3=at.s3,
    )


@pytest.fixture(scope="module")
def submits(at: Cloud) -> Iterator[tuple[Envelope, Envelope]]:
    """Two more processes of submit, whose way to AWS is clear."""
    with Rig.envelope(at, SUBMIT) as one, Rig.envelope(at, SUBMIT) as two:
        yield one, two


def accepted(extractions: Extractions, request_hash: str | None = None, replaces: str | None = None) -> Any:
    """Accept a job that nobody is told of."""
    name = str(uuid4())
    job = Accepted(
        "default",
        name,
        "payments",
        request_hash or name,
        {"pg": name},
        1,
        '{"source":"payments"}',
        "{}",
        None,
        now_ms(),
    )
    return extractions.accept(job, replaces)


def test_one_message_at_eight_workers_is_read_by_one(at: Cloud, services: Services) -> None:
    """R-000-68: the others end without effect, and leave one result, one manifest and one event."""
    job_id = posted(at, WAYS["small"])
    extraction = services.extractions.get("default", job_id)
    assert extraction is not None
    outcomes = at_once(*[lambda: attempt(services, extraction.message, 120)] * WORKERS)
    assert outcomes == [None] * WORKERS
    job = at.items_of(job_id)["META"]
    assert (job["status"]["S"], job["attempts"]["N"]) == ("completed", "1")
    assert sorted(key.split("/")[0] for key in at.objects() if job_id in key) == ["manifests", "results"]
    assert set(at.drive(job_id)) == {f"fetcher.job.completed.{job_id}"}


def test_a_dead_lease_is_taken_by_one(services: Services) -> None:
    """R-000-69: in every round exactly one of eight, and `stalled` counts each once."""
    lazy = Extractions(
        services.extractions._client, services.settings.main_table, now_ms, lease_ms=-1, window_ms=1, dispatch_ms=1
    )
    for _ in range(5):
        job = accepted(lazy)
        for round_number in range(3):
            names = [uuid4().hex for _ in range(WORKERS)]
            claims = at_once(*[partial(services.extractions.claim, "default", job.id, 0, name) for name in names])
            [winner] = [claim for claim in claims if claim is not None]
            assert (winner.attempts, winner.stalled) == (round_number + 1, round_number)
            expired = lazy.beat(winner, {}, 0)
            assert expired.claim == winner.claim
        lazy.terminate(winner, CANCELED, claimed=True)


def test_what_the_old_owner_writes_beside_the_new_one_has_no_effect(services: Services) -> None:
    """R-000-69: beat, release and end of the one whose lease was over, at the moment that the other one beats."""
    extractions = services.extractions
    lazy = Extractions(
        extractions._client, services.settings.main_table, now_ms, lease_ms=-1, window_ms=1, dispatch_ms=1
    )
    for _ in range(5):
        job = accepted(lazy)
        old = lazy.claim("default", job.id, 0, uuid4().hex)
        new = extractions.claim("default", job.id, 0, uuid4().hex)
        assert old is not None
        assert new is not None
        beaten, failed, _, kept = at_once(
            partial(extractions.beat, old, {"rows": 1}, 0),
            partial(extractions.terminate, old, Failed(FetcherError("x")), claimed=True),
            partial(extractions.release, old),
            partial(extractions.beat, new, {"rows": 2}, 0),
        )
        assert (type(beaten), type(failed)) == (LostClaimError, LostClaimError)
        assert extractions.get("default", job.id) == kept
        assert (kept.claim, kept.progress) == (new.claim, {"rows": 2})
        extractions.terminate(new, CANCELED, claimed=True)


def test_finish_cancel_and_sweep_at_one_moment_end_in_one_state(services: Services) -> None:
    """R-000-63, design §4: an accepted cancel always ends canceled; a refused one leaves the job completed."""
    extractions = services.extractions
    for _ in range(ROUNDS):
        job = accepted(extractions)
        claimed = extractions.claim("default", job.id, 0, uuid4().hex)
        assert claimed is not None
        jitter = random.Random(job.id)
        pauses = [jitter.random() * 0.01 for _ in range(3)]

        def finish(worker: Extraction = claimed, pause: float = pauses[0]) -> Any:
            time.sleep(pause)
            return extractions.terminate(worker, Completed({"path": "p"}), claimed=True).status

        def cancel(job: Extraction = job, pause: float = pauses[1]) -> Any:
            time.sleep(pause)
            accepted_it = extractions.cancel("default", job.id)
            found = extractions.get("default", job.id)
            assert found is not None
            if accepted_it:
                at_most_lost(lambda: extractions.terminate(found, CANCELED, claimed=False))
            return accepted_it

        def give_up(job: Extraction = claimed, pause: float = pauses[2]) -> Any:
            time.sleep(pause)
            return at_most_lost(lambda: extractions.terminate(job, Failed(FetcherError("x")), claimed=False))

        ended, accepted_it, given_up = at_once(finish, cancel, give_up)
        assert isinstance(given_up, LostClaimError), "a live worker was failed by others"
        after = extractions.get("default", job.id)
        assert after is not None
        assert ended is after.status
        assert after.status is (Status.FAILED if accepted_it else Status.COMPLETED)
        assert after.error == (CANCELED.error.public() if accepted_it else None)
        assert after.look_at is None


def at_most_lost(write: Callable[[], Any]) -> Any:
    """Write; a lost claim is an answer."""
    try:
        return write()
    except LostClaimError as lost:
        return lost


def test_claim_cancel_and_dead_letter_at_one_moment_end_in_one_state(services: Services) -> None:
    """Design §3: whoever is first, the job ends once, and with the cancel that was accepted."""
    extractions = services.extractions
    for _ in range(ROUNDS):
        job = accepted(extractions)

        def work(job: Extraction = job) -> Any:
            mine = extractions.claim("default", job.id, 0, uuid4().hex)
            if mine is None:
                return None
            outcome = CANCELED if mine.cancel_requested_at else Completed({"path": "p"})
            return extractions.terminate(mine, outcome, claimed=True).status

        def cancel(job: Extraction = job) -> bool:
            return extractions.cancel("default", job.id)

        def give_up(job: Extraction = job) -> Any:
            return at_most_lost(lambda: extractions.terminate(job, Failed(FetcherError("x")), claimed=False))

        worked, accepted_it, given_up = at_once(work, cancel, give_up)
        after = extractions.get("default", job.id)
        assert after is not None
        assert after.terminal
        by_worker, by_others = isinstance(worked, Status), isinstance(given_up, Extraction)
        assert by_worker != by_others, (worked, given_up)
        if accepted_it:
            assert after.error is not None
            assert after.error["family"] == "canceled"


def test_of_eight_retries_of_a_failed_job_one_is_new(services: Services) -> None:
    """R-000-52, R-000-56: the others learn its id."""
    extractions = services.extractions
    for _ in range(5):
        failed = accepted(extractions)
        extractions.terminate(failed, Failed(FetcherError("x")), claimed=False)
        outcomes = at_once(*[partial(accepted, extractions, failed.request_hash, failed.id)] * WORKERS)
        [winner] = [one for one in outcomes if isinstance(one, Extraction)]
        assert [one for one in outcomes if one != winner] == [Duplicate(winner.id)] * (WORKERS - 1)
        extractions.terminate(winner, CANCELED, claimed=False)


def test_a_request_whose_probe_fails_finds_the_one_that_was_faster(
    at: Cloud, submits: tuple[Envelope, Envelope]
) -> None:
    """Design §6 d: between its own look at the lock and its failed probe, the same request was accepted."""
    database = at.stack["databases"]["my_postgres"]
    proxy = at.proxies[SUBMIT]
    with faulty(database["host"], database["port"]) as wire:
        assert at.register("breakable", port=wire.port).status == 201
        body = request(at, "breakable")
        proxy.arm(Fault("kms:Decrypt", "held"))
        with ThreadPoolExecutor(1) as threads:
            slower = threads.submit(at.post, body)
            try:
                assert proxy.held.wait(60)
                first = asked(submits[0], "/v1/fetcher", body)
                wire.fault = "rst"
            finally:
                proxy.release.set()
            answer = slower.result()
        assert wire.broken.is_set()
    assert (first.status, answer.status) == (202, 200)
    assert answer.json()["jobId"] == first.json()["jobId"]
    assert at.http("POST", f"/v1/fetcher/{answer.json()['jobId']}/cancel").status == 202


def test_submit_cancel_and_finish_at_one_moment_tell_one_story(
    at: Cloud, submits: tuple[Envelope, Envelope], services: Services
) -> None:
    """R-000-50, 52, 55, 56, 63, 73: whoever is first, all answers fit, and each job has one end and one event.

    A job whose cancel was accepted answers for nothing, though its worker may not know yet: only then there are two.
    """
    jitter, stories, ends = random.Random(4), set(), dict[str, str]()
    at.arm({})
    for number in count(1):
        moment = Moment.of(at, submits, services, number, jitter)
        successor = moment.successor()
        moment.stored(at, successor)
        stories.add((moment.canceled, successor is not None))
        ends[moment.first] = str(moment.finish.it)
        if successor is not None:
            assert asked(submits[1], f"/v1/fetcher/{successor}/cancel").status == 202
            ends[successor] = "failed"
        if number >= MOMENTS and stories == STORIES:
            break
        assert number < 20 * MOMENTS, stories
    at.forget_messages()
    while at.once(NOTIFY):
        pass
    told = Counter(event["detail"]["id"] for event in at.published() if event["detail"]["jobId"] in ends)
    assert told == {f"fetcher.job.{status}.{job_id}": 1 for job_id, status in ends.items()}
    for job_id, status in ends.items():
        items = at.items_of(job_id)
        assert items.keys() == {"META", "REQUEST", "OUTBOX#TERMINAL"}
        assert items["META"]["status"]["S"] == status
