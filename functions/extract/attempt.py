"""One attempt at an extraction: claim, work, then finish, fail, hand over, wait or release (`design.md` §6, h to m)."""

import time
from uuid import uuid4

from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError

from extract.heart import Heart
from extract.reading import opened, stored_request
from extract.sealed import already_read
from extract.services import Services
from extract.storing import Storing
from extract.waiting import admitted, send_next, wait
from fetcher.aws import ending
from fetcher.aws.records import Completed, Failed
from fetcher.aws.sweeping import stalled_error
from fetcher.aws.telemetry import count, logger
from fetcher.core.clock import from_rfc3339
from fetcher.core.extraction import Extraction, Message
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import STALLED_LIMIT
from fetcher.core.progress import Progress
from fetcher.core.retry import LONGEST_WAIT, wait_after
from fetcher.core.run import Reader
from fetcher.core.stop import THE_SOURCE, Paused, Stop, Waiting
from fetcher.errors import (
    CanceledError,
    FetcherError,
    LostClaimError,
    NotReadyError,
    TimedOutError,
    UnavailableError,
    during,
)


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
    if extraction.attempts == 1:
        waited = services.clock() - from_rfc3339(extraction.created_at)
        count("QueueSeconds", waited / 1000, MetricUnit.Seconds)
    try:
        ended = _worked(services, extraction, claimed_at, remaining_seconds)
    except LostClaimError:
        logger.warning("the claim was lost; another worker goes on")
        ending.free(services, extraction)
        return
    except Exception:
        services.extractions.release(extraction)
        ending.free(services, extraction)
        raise
    if ended is not None:
        ending.follow(services, ended)


def _worked(
    services: Services, extraction: Extraction, claimed_at: float, remaining_seconds: float
) -> Extraction | None:
    """Bring a claimed extraction to its end and return it so; None when the next attempt goes on."""
    settings = services.settings
    left = settings.limits.seconds - extraction.spent_ms / 1000
    since = time.monotonic() - claimed_at  # a claim may have been repeated for seconds
    stop = Stop(left, remaining_seconds - since - settings.margin_seconds)
    heart = Heart(services.beats, services.renewals, extraction, stop, settings, claimed_at=claimed_at)
    try:
        with heart, during("starting"):
            _check(extraction)
            outcome = _Work(services, heart, stop).done()
    except Paused:
        return _left(services, heart.extraction, None)
    except Waiting as waiting:
        return _left(services, heart.extraction, waiting)
    except (LostClaimError, NotReadyError, ClientError, BotoCoreError):
        raise
    except FetcherError as error:
        return _failed(services, heart.extraction, error)
    return services.extractions.terminate(heart.extraction, outcome, claimed=True)


def _failed(services: Services, extraction: Extraction, error: FetcherError) -> Extraction:
    # Not the traceback: the driver's own text is in it, and may hold a row's value.
    logger.warning("the job failed", extra={"error": error.public(), "cause": type(error.__cause__).__name__})
    return services.extractions.terminate(extraction, Failed(error), claimed=True)


def _left(services: Services, extraction: Extraction, waiting: Waiting | None) -> Extraction | None:
    """Leave the rest to the next attempt, now or after a wait; an accepted cancel ends the job instead."""
    try:
        if waiting is None:
            _hand_over(services, extraction)
        else:
            wait(services, extraction, waiting)
    except (CanceledError, TimedOutError) as error:
        return _failed(services, extraction, error)
    return None


def _hand_over(services: Services, extraction: Extraction) -> None:
    """Free claim and slots, and send the next attempt's message."""
    following = services.extractions.hand_over(extraction)
    logger.info("handed over to the next attempt", extra={"generation": following.generation})
    ending.free(services, extraction)
    send_next(services, following)


def _check(extraction: Extraction) -> None:
    """What a claimant learns before it does anything."""
    if extraction.cancel_requested_at is not None:
        raise CanceledError("the job was canceled")
    if extraction.stalled >= STALLED_LIMIT:
        raise stalled_error(extraction)


class _Work:
    """The tries of one attempt: as long as a source is only unavailable, go on from the checkpoint."""

    def __init__(self, services: Services, heart: Heart, stop: Stop) -> None:
        self._services = services
        self._heart = heart
        self._stop = stop

    def done(self) -> Completed:
        """Read, store and seal. Raises the last error of the source, `Waiting`, or why everything should stop."""
        while True:
            try:
                return self._once()
            except UnavailableError as error:
                seconds = self._next_try(error)
                if seconds is None:
                    raise
                self._stop.recover(error, seconds)

    def _next_try(self, error: UnavailableError) -> float | None:
        """Count the try; return the wait before the next one, or None if it was the last. Raises `Waiting`."""
        self._heart.tried()
        reach(Point.RETRIED)
        seconds = wait_after(self._heart.extraction.tries, error)
        if seconds is None:
            return None
        count("Retries")
        logger.info("a source is not available; trying again", extra={"seconds": round(seconds, 2)})
        if seconds > LONGEST_WAIT:
            self._close_gate(error, seconds)
            raise Waiting(seconds, THE_SOURCE) from error
        return seconds

    def _close_gate(self, error: UnavailableError, seconds: float) -> None:
        """Keep everybody else from the source, too, for as long as it asked for."""
        extraction = self._heart.extraction
        connection = extraction.connections.get(error.where.datasource or "")
        if connection is not None:
            self._services.gates.close(extraction.tenant, connection, seconds)

    def _once(self) -> Completed:
        services, extraction = self._services, self._heart.extraction
        with during("starting"):
            request = stored_request(services, extraction)
            found = opened(services, extraction, request)
            admitted(services, self._heart, self._stop, found.workers)
            progress = Progress(sum(map(len, request.datasources.values())))
            progress.credit(*already_read(extraction))
            self._heart.show(progress.shown)
        with Reader(found.sources, services.settings.limits, self._stop, progress) as reader:
            with during("planning"):
                plan = reader.plan()
            return Storing(services, self._heart, self._stop, found).stored(reader, plan)
