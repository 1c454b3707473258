"""The logger and the metrics of this function; dimensions never hold an id."""

from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="extract")
metrics = Metrics(namespace="Fetcher", service="extract")
