"""What follows an end, whoever wrote it: what was stored is removed, and the event is hinted at.

Neither can undo the end, so a failure of AWS here is logged and left: to the bucket's rules, and to the
sweeper, which finds the event in the outbox.
"""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws import queues, results
from fetcher.aws.telemetry import logger
from fetcher.core.extraction import Extraction


def clean(s3: Any, bucket: str, ended: Extraction) -> None:
    """Remove what a job that did not complete had stored."""
    try:
        results.discard(s3, bucket, ended)
    except (ClientError, BotoCoreError):
        logger.warning("what the job had stored is left to its expiry", exc_info=True)


def announce(sqs: Any, notifications_queue: str, ended: Extraction) -> None:
    """Hint that an event waits in the outbox."""
    try:
        queues.send(sqs, notifications_queue, ended.message)
    except (ClientError, BotoCoreError):
        logger.exception("the event waits for the sweeper")
