"""Every minute: whatever should have been looked at by now is sent again or ended (`design.md` §4)."""

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import ending, queues
from fetcher.aws.records import Due, Failed, Outbox, owner
from fetcher.aws.sweeping import Action, decide
from fetcher.aws.telemetry import count, logger, metrics
from fetcher.core.extraction import Extraction, Message
from fetcher.core.faults import Point, reach
from fetcher.errors import FetcherError, LostClaimError
from submit.services import Services, services

MARGIN_MS = 10_000


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Sweep once; what time does not suffice for is due again in a minute.

    Raises `FetcherError` at the end if something could not be swept, so that the function's alarm tells of it.
    """
    at = services()
    swept, failed, oldest = 0, 0, 0.0
    for due in at.overdue.rows():
        if context.get_remaining_time_in_millis() < MARGIN_MS:
            break
        tenant, extraction_id = owner(due.key)
        with logger.append_context_keys(extraction_id=extraction_id, tenant=tenant):
            try:
                item = at.overdue.item(due)
                oldest = max(oldest, _age(at, item))
                swept += sweep(at, due, item)
            except Exception:
                # Whatever is wrong with one item must not keep the others from being swept.
                logger.exception("an item could not be swept; it stays due")
                failed += 1
    count("Swept", swept)
    count("OutboxAgeSeconds", oldest, MetricUnit.Seconds)
    if failed:
        raise FetcherError(f"{failed} items could not be swept")
    return {"swept": swept}


def sweep(at: Services, due: Due, item: Extraction | Outbox | None) -> bool:
    """Do what one due item needs. False when it needed nothing or another sweep was first."""
    match item:
        case Extraction() as extraction:
            return _extraction(at, due, extraction)
        case Outbox() as outbox:
            return _outbox(at, outbox)
        case _:
            return False


def _extraction(at: Services, due: Due, extraction: Extraction) -> bool:
    action, error = decide(extraction, at.clock(), at.settings.max_queued_ms)
    if action is Action.WAIT:
        return False
    reach(Point.SWEEPING)
    until = at.overdue.take(due)
    if until is None:
        return False
    reach(Point.SWEPT)
    logger.info("swept", extra={"action": str(action)})
    try:
        return _again(at, extraction) if error is None else _fail(at, extraction, error)
    except (ClientError, BotoCoreError):
        reach(Point.GIVING_BACK)
        at.overdue.give_back(due, until)  # the next sweep does it, and not the one in a quarter of an hour
        reach(Point.GIVEN_BACK)
        raise


def _again(at: Services, extraction: Extraction) -> bool:
    queues.send(at.sqs, at.settings.work_queue, extraction.message)
    reach(Point.SENT_AGAIN)
    return True


def _fail(at: Services, extraction: Extraction, error: FetcherError) -> bool:
    try:
        ended = at.extractions.terminate(extraction, Failed(error), claimed=False)
    except LostClaimError:
        return False
    ending.follow(at, ended)
    return True


def _outbox(at: Services, outbox: Outbox) -> bool:
    until = at.outboxes.take(outbox)
    if until is None:
        return False
    reach(Point.OUTBOX_SWEPT)
    try:
        queues.send(at.sqs, at.settings.notifications_queue, Message(outbox.tenant, outbox.extraction_id, 0))
    except (ClientError, BotoCoreError):
        reach(Point.GIVING_BACK)
        at.outboxes.give_back(outbox, until)  # a hint that was never sent is none
        reach(Point.GIVEN_BACK)
        raise
    reach(Point.NOTIFIED_AGAIN)
    return True


def _age(at: Services, item: Extraction | Outbox | None) -> float:
    """Seconds that an overdue event has waited; an alarm watches the oldest one's."""
    return (at.clock() - item.ended_ms) / 1000 if isinstance(item, Outbox) else 0.0
