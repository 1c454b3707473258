"""From the outbox to EventBridge: at least once, under one id (`design.md` §6 n)."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from fetcher.aws import batches
from fetcher.aws.clients import client
from fetcher.aws.events import publish
from fetcher.aws.outboxes import Outboxes
from fetcher.aws.telemetry import count, logger, metrics
from fetcher.core.clock import now_ms
from fetcher.core.extraction import Message
from fetcher.core.faults import Point, reach
from fetcher.settings import load


@dataclass(frozen=True, slots=True)
class Services:
    """What notify needs: the outbox and the bus."""

    outboxes: Outboxes
    events: Any
    bus: str


@cache
def services() -> Services:
    """Build the services of this process."""
    settings = load()
    outboxes = Outboxes(client("dynamodb"), settings.main_table, now_ms, dispatch_ms=settings.dispatch_ms)
    return Services(outboxes, client("events"), settings.bus)


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Publish the event of each message; only those that failed come back."""
    return batches.handled(event, context, lambda message: notify(services(), message))


def notify(services: Services, message: Message) -> None:
    """Publish one terminal event unless it is known to be published."""
    outbox = services.outboxes.get(message.tenant, message.extraction_id)
    if outbox is None or outbox.published_at is not None:
        logger.info("nothing to publish")
        return
    reach(Point.PUBLISHING)
    publish(services.events, services.bus, outbox)
    reach(Point.PUBLISHED)
    if services.outboxes.published(outbox):
        count("EventsPublished")
    reach(Point.MARKED)
