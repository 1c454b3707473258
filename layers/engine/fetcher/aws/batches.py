"""The messages of one invocation, one after the other: what fails goes back to its queue, and the log says why.

The batch processor tells SQS alone which messages failed, and the function itself ends well: no alarm on its errors
tells of it, so its log must.
"""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from fetcher.aws import queues
from fetcher.aws.telemetry import about, about_none, logger
from fetcher.core.extraction import Message

_processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


def _leave(_: SQSRecord) -> None:
    """Let a message come back when the queue's own timeout is over."""


def handled(
    event: dict[str, Any],
    context: LambdaContext,
    handle: Callable[[Message], None],
    failed: Callable[[SQSRecord], None] = _leave,
) -> PartialItemFailureResponse:
    """Handle each message of an SQS event; only those that failed come back, after `failed` had their record."""

    def one(record: SQSRecord) -> None:
        about_none()  # what cannot be read has no id, least of all that of the message before it
        try:
            message = queues.read(record.body)
            about(message)
            handle(message)
        except Exception:
            logger.exception("a message could not be handled; it comes back")
            failed(record)
            raise

    return process_partial_response(event=event, record_handler=one, processor=_processor, context=context)
