"""The end of a message that was received five times: its job fails, with an event (`design.md` §6 o)."""

from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from extract.services import Services, services
from fetcher.aws import batches, ending
from fetcher.aws.records import Failed
from fetcher.aws.sweeping import stalled_error
from fetcher.aws.telemetry import logger, metrics
from fetcher.core.extraction import Message
from fetcher.errors import LostClaimError


@logger.inject_lambda_context(clear_state=True)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Fail the job of each message, unless it moved on or a worker holds it."""
    return batches.handled(event, context, lambda message: give_up(services(), message))


def give_up(services: Services, message: Message) -> None:
    """Fail the extraction in the message's generation; a live worker or a newer one is left alone."""
    extraction = services.extractions.get(message.tenant, message.extraction_id)
    if extraction is None or extraction.terminal or extraction.generation != message.generation:
        logger.info("nothing to end: the job ended, moved on or is gone")
        return
    try:
        ended = services.extractions.terminate(extraction, Failed(stalled_error(extraction)), claimed=False)
    except LostClaimError:
        logger.info("a worker holds the job; it goes on")
        return
    ending.follow(services, ended)
