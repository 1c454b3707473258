"""Protection of the sources: the gate and the slots that an attempt needs before it opens a session, and the waits.

A wait of up to 20 seconds is slept through. A longer one gives everything back: the claim, the slots, the
Lambda; a message of the next generation comes when it is over. So no wait uses up a receive, none is a
part of the job's own time, and only what a source answered is a try.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from random import uniform

from botocore.exceptions import BotoCoreError, ClientError

from extract.heart import Heart
from extract.services import Services
from fetcher.aws import ending, queues
from fetcher.aws.queues import LONGEST_DELAY
from fetcher.aws.slots import Holder
from fetcher.aws.telemetry import count, logger
from fetcher.core import progress
from fetcher.core.clock import from_rfc3339
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.retry import slot_delay
from fetcher.core.stop import A_SLOT, THE_SOURCE, Stop, Waiting
from fetcher.errors import TimedOutError

SPREAD_SECONDS = 5.0
"""Workers that waited for one gate come back over this time, and not all at once."""


def admitted(services: Services, heart: Heart, stop: Stop, workers: Mapping[str, int]) -> None:
    """Pass the gates and hold a slot of every connection, or raise `Waiting`, or why everything should stop.

    `workers` says of each connection, by its id, how many extractions may read it at once.
    """
    extraction = heart.extraction
    closed = services.gates.closed_for(extraction.tenant, workers)
    if closed > 0:
        raise Waiting(closed + uniform(0, SPREAD_SECONDS), THE_SOURCE)
    if heart.holds:
        return
    at = time.monotonic()
    held = services.slots.take(Holder.of(extraction), workers)
    stop.check()  # the claim may have been lost on the way, and then whoever has it must have the slots too
    if held is None:
        raise Waiting(slot_delay(extraction.waits), A_SLOT)
    heart.hold(held, at)


def wait(services: Services, extraction: Extraction, waiting: Waiting) -> None:
    """Free claim and slots, and send the message that ends the wait.

    Raises `TimedOutError` when the job would wait beyond what the deployment allows, `CanceledError` when
    a cancel came first, and `LostClaimError`.
    """
    seconds = math.ceil(waiting.seconds)
    if services.clock() + seconds * 1000 > from_rfc3339(extraction.created_at) + services.settings.max_queued_ms:
        raise TimedOutError(f"the job waited too long for {waiting.for_what}")
    shown = progress.waiting(extraction.progress, waiting.for_what)
    following = services.extractions.wait(replace(extraction, progress=shown), seconds)
    count("Waits")
    logger.info("waiting", extra={"for": waiting.for_what, "seconds": seconds, "generation": following.generation})
    ending.free(services, extraction)
    if seconds <= LONGEST_DELAY:
        send_next(services, following, seconds)


def send_next(services: Services, following: Extraction, delay: int = 0) -> None:
    """Send the message of the next attempt; if that fails, the sweeper does it."""
    try:
        queues.send(services.sqs, services.settings.work_queue, following.message, delay)
    except (ClientError, BotoCoreError):
        logger.exception("the next attempt waits for the sweeper")
    reach(Point.NEXT_SENT)
