"""What follows an end, whoever wrote it: what was stored is removed, slots are freed, and the event is hinted at.

None of it can undo the end, so a failure of AWS here is logged and left: to the bucket's rules, to the
slots' leases, and to the sweeper, which finds the event in the outbox.
"""

from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import queues, results
from fetcher.aws.slots import Holder, Slots
from fetcher.aws.telemetry import count_ended, logger
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.settings import Settings


class Services(Protocol):
    """What whoever ends a job has at hand."""

    @property
    def settings(self) -> Settings: ...
    @property
    def slots(self) -> Slots: ...
    @property
    def sqs(self) -> Any: ...
    @property
    def s3(self) -> Any: ...


def follow(services: Services, ended: Extraction) -> None:
    """Do all that follows an end."""
    count_ended(ended)
    if ended.result is None:
        _clean(services, ended)
    free(services, ended, ended=True)
    _announce(services, ended)


def free(services: Services, extraction: Extraction, *, ended: bool = False) -> None:
    """Give back the source slots of the attempt that read this record, or of an extraction that has `ended`."""
    try:
        services.slots.free(Holder.of(extraction), extraction.connections.values(), ended=ended)
    except (ClientError, BotoCoreError):
        logger.warning("the source slots are left to their leases", exc_info=True)


def _clean(services: Services, ended: Extraction) -> None:
    try:
        results.discard(services.s3, services.settings.bucket, ended)
    except (ClientError, BotoCoreError):
        logger.warning("what the job had stored is left to its expiry", exc_info=True)
    reach(Point.CLEANED)


def _announce(services: Services, ended: Extraction) -> None:
    try:
        queues.send(services.sqs, services.settings.notifications_queue, ended.message)
    except (ClientError, BotoCoreError):
        logger.exception("the event waits for the sweeper")
    reach(Point.NOTIFIED)
