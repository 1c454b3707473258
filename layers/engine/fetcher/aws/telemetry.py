"""Logs and metrics of every function; the environment names the service, no dimension holds an id.

`POWERTOOLS_SERVICE_NAME` is the dimension `service`, `POWERTOOLS_METRICS_NAMESPACE` the namespace.
"""

import logging
import os

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit

from fetcher.core.extraction import Extraction

NAMESPACE = os.environ.get("POWERTOOLS_METRICS_NAMESPACE", "Fetcher")
SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "fetcher")

logger = Logger(service=SERVICE)
metrics = Metrics(namespace=NAMESPACE, service=SERVICE)

PACKAGES = ("fetcher", "submit", "extract", "notify")


def adopt(packages: tuple[str, ...] = PACKAGES) -> None:
    """Let what our packages log by the standard library carry the same keys: the core knows no other logger."""
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
