"""The worker: one SQS message, one attempt; what fails goes back to the queue by itself."""

from random import randint
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from extract.attempt import attempt
from extract.services import services
from fetcher.aws import batches, queues
from fetcher.aws.telemetry import logger, metrics
from fetcher.core.extraction import Message
from fetcher.core.faults import Point, reach

LONGEST_HIDDEN = 60
"""Seconds until a message whose handling failed is seen again, at most; the queue's own timeout is hours."""


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on each message; only those that failed come back."""

    def handle(message: Message) -> None:
        attempt(services(), message, context.get_remaining_time_in_millis() / 1000)

    return batches.handled(event, context, handle, _soon)


def _soon(record: SQSRecord) -> None:
    """Shorten the wait; if that fails too, the sweeper is quicker than the queue."""
    try:
        queues.look_again(
            services().sqs, services().settings.work_queue, record.receipt_handle, randint(1, LONGEST_HIDDEN)
        )
        reach(Point.HIDDEN)
    except (ClientError, BotoCoreError):
        logger.warning("the message keeps its long wait", exc_info=True)
