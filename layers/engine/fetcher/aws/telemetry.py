"""Logs and metrics of every function; the environment names the service, no dimension holds an id.

A log holds no secret and no row, at any level (R-000-82). So libraries never log below INFO, where botocore writes
answers of Secrets Manager and MongoDB's driver documents; and of an exception that is neither ours nor AWS's only the
class and the frames are written, because a driver's text quotes values.

`POWERTOOLS_SERVICE_NAME` is the dimension `service`, `POWERTOOLS_METRICS_NAMESPACE` the namespace.
"""

import logging
import os
import traceback
from collections.abc import Iterator

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError

from fetcher.core.extraction import Extraction, Message
from fetcher.errors import FetcherError

NAMESPACE = os.environ.get("POWERTOOLS_METRICS_NAMESPACE", "Fetcher")
SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "fetcher")

QUOTABLE = (FetcherError, ClientError, BotoCoreError)


class Formatter(LambdaPowertoolsFormatter):
    """Writes an exception with all that led to it, in the order in which it happened."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - the standard library's name
        """Render frames and classes; words only of those that are `QUOTABLE`."""
        error = ei[1] if isinstance(ei, tuple) else None
        return "\n".join(reversed([_told(each) for each in _chain(error)]))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _told(error: BaseException) -> str:
    words = f": {error}" if isinstance(error, QUOTABLE) else ""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__qualname__ + words


logger = Logger(service=SERVICE, logger_formatter=Formatter(serialize_stacktrace=False))
metrics = Metrics(namespace=NAMESPACE, service=SERVICE)


def about(message: Message) -> None:
    """Name a job on every further line of this invocation, or until another is named."""
    logger.append_keys(extraction_id=message.extraction_id, tenant=message.tenant)


def about_none() -> None:
    """Name no job on further lines."""
    logger.remove_keys(["extraction_id", "tenant"])


PACKAGES = ("fetcher", "submit", "extract", "notify")


def adopt(packages: tuple[str, ...] = PACKAGES) -> None:
    """Let what our packages log by the standard library carry the same keys, and keep all others from DEBUG."""
    others = logging.getLogger()
    others.setLevel(max(others.level, logging.INFO))
    for name in packages:
        ours = logging.getLogger(name)
        ours.handlers = [logger.registered_handler]
        ours.setLevel(logger.log_level)
        ours.propagate = False  # else Lambda's own handler writes each line again, without the keys


adopt()


def count(name: str, value: float = 1, unit: MetricUnit = MetricUnit.Count) -> None:
    """Add to a metric of this service."""
    metrics.add_metric(name, unit, value)


def count_ended(ended: Extraction) -> None:
    """Report how an extraction ended; failures by family."""
    count("ExtractionSeconds", ended.spent_ms / 1000, MetricUnit.Seconds)
    count("Attempts", ended.attempts)
    if ended.result is not None:
        count("JobsCompleted")
        count("RowsRead", ended.result["rowCount"])
        count("BytesWritten", ended.result["sizeBytes"], MetricUnit.Bytes)
        return
    family = str((ended.error or {}).get("family", "internal"))
    with single_metric(name="JobsFailed", unit=MetricUnit.Count, value=1, namespace=NAMESPACE) as metric:
        metric.add_dimension("service", SERVICE)
        metric.add_dimension("family", family)
