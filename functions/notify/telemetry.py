"""The logger and the metrics of this function."""

from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="notify")
metrics = Metrics(namespace="Fetcher", service="notify")
