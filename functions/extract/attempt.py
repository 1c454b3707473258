"""One attempt at an extraction: claim, work, then finish, fail, hand over or release (`design.md` §6, h to m)."""

import time
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from extract.heart import Heart
from extract.reading import opened, stored_request
from extract.services import Services
from extract.storing import Storing
from fetcher.aws import ending, queues
from fetcher.aws.records import Completed, Failed
from fetcher.aws.sweeping import stalled_error
from fetcher.aws.telemetry import count, count_ended, logger
from fetcher.core.extraction import Extraction, Message
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import STALLED_LIMIT
from fetcher.core.progress import Progress
from fetcher.core.retry import attempts
from fetcher.core.run import Reader
from fetcher.core.stop import Paused, Stop
from fetcher.errors import CanceledError, FetcherError, LostClaimError


def attempt(services: Services, message: Message, remaining_seconds: float) -> None:
    """Work on an extraction if the claim is won; a refused claim is success and has no effect.

    Failures of the job end the job. Failures of ours release the claim and are raised, so that the
    message comes back.
    """
    claimed_at = time.monotonic()
    extraction = services.extractions.claim(message.tenant, message.extraction_id, message.generation, uuid4().hex)
    if extraction is None:
        logger.info("not claimed: it is being worked on, has ended, or the message is old")
        return
    reach(Point.CLAIMED)
    try:
        ended = _worked(services, extraction, claimed_at, remaining_seconds)
    except LostClaimError:
        logger.warning("the claim was lost; another worker goes on")
        return
    except Exception:
        services.extractions.release(extraction)
        raise
    if ended is not None:
        reach(Point.FINISHED)
        count_ended(ended)
        announce(services, ended)


def announce(services: Services, ended: Extraction) -> None:
    """Hint that an event waits in the outbox."""
    ending.announce(services.sqs, services.settings.notifications_queue, ended)
    reach(Point.NOTIFIED)


def clean(services: Services, extraction: Extraction) -> None:
    """Remove what a job that failed had stored."""
    ending.clean(services.s3, services.settings.bucket, extraction)


def _worked(
    services: Services, extraction: Extraction, claimed_at: float, remaining_seconds: float
) -> Extraction | None:
    """Bring a claimed extraction to its end and return it so; None when the next attempt goes on."""
    settings = services.settings
    left = settings.limits.seconds - extraction.spent_ms / 1000
    stop = Stop(left, remaining_seconds - settings.margin_seconds)
    heart = Heart(
        services.beats,
        extraction,
        stop,
        lease_seconds=settings.lease_ms / 1000,
        every_seconds=settings.heartbeat_seconds,
        claimed_at=claimed_at,
    )
    try:
        with heart:
            _check(extraction)
            outcome = _Work(services, heart, stop).done()
    except Paused:
        return _handed_over(services, heart.extraction)
    except (LostClaimError, ClientError, BotoCoreError):
        raise
    except FetcherError as error:
        return _failed(services, heart.extraction, error)
    return _finished(services, heart.extraction, outcome)


def _finished(services: Services, extraction: Extraction, outcome: Completed) -> Extraction:
    """Finish; a cancel that came first makes it a failure, whose object must go."""
    ended = services.extractions.terminate(extraction, outcome, claimed=True)
    if ended.result is None:
        clean(services, ended)
    return ended


def _failed(services: Services, extraction: Extraction, error: FetcherError) -> Extraction:
    # Not the traceback: the driver's own text is in it, and may hold a row's value.
    logger.warning("the job failed", extra={"error": error.public(), "cause": type(error.__cause__).__name__})
    ended = services.extractions.terminate(extraction, Failed(error), claimed=True)
    clean(services, ended)
    return ended


def _handed_over(services: Services, extraction: Extraction) -> Extraction | None:
    """Free the claim and send the next attempt's message; an accepted cancel ends the job instead."""
    try:
        following = services.extractions.hand_over(extraction)
    except CanceledError as canceled:
        return _failed(services, extraction, canceled)
    reach(Point.HANDED_OVER)
    logger.info("handed over to the next attempt", extra={"generation": following.generation})
    try:
        queues.send(services.sqs, services.settings.work_queue, following.message)
    except (ClientError, BotoCoreError):
        logger.exception("the next attempt waits for the sweeper")
    return None


def _check(extraction: Extraction) -> None:
    """What a claimant learns before it does anything."""
    if extraction.cancel_requested_at is not None:
        raise CanceledError("the job was canceled")
    if extraction.stalled >= STALLED_LIMIT:
        raise stalled_error()


class _Work:
    """The tries of one attempt: as long as a source is only unavailable, go on from the checkpoint."""

    def __init__(self, services: Services, heart: Heart, stop: Stop) -> None:
        self._services = services
        self._heart = heart
        self._stop = stop
        self._retries = 0

    def done(self) -> Completed:
        """Read, store and seal. Raises the last error of the source, or why everything should stop."""
        return attempts(self._once, sleep=self._pause)

    def _pause(self, seconds: float) -> None:
        logger.info("a source is not available; trying again", extra={"seconds": round(seconds, 2)})
        count("Retries")
        self._retries += 1
        self._stop.recover(seconds)

    def _once(self) -> Completed:
        services, extraction = self._services, self._heart.extraction
        request = stored_request(services, extraction)
        progress = Progress(sum(map(len, request.datasources.values())))
        self._heart.show(progress.shown)
        found = opened(services, extraction, request)
        with Reader(found.sources, services.settings.limits, self._stop, progress) as reader:
            plan = reader.plan()
            return Storing(services, self._heart, self._stop, found, self._retries).stored(reader, plan)
