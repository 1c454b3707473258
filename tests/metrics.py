"""Which service writes which metric of its own, and under which dimensions: shown by jobs of every fate."""

from collections.abc import Mapping

PLAIN = ("service",)
FAMILY = ("family", "service")
COLD = ("function_name", "service")

ENDED = {"ExtractionSeconds": PLAIN, "Attempts": PLAIN, "JobsFailed": FAMILY}
"""Whoever ends a job writes them."""

WRITTEN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "submit": {"JobsCreated": PLAIN, "JobsDuplicate": PLAIN, "JobsRetried": PLAIN, "ColdStart": COLD, **ENDED},
    "sweeper": {"Swept": PLAIN, "OutboxAgeSeconds": PLAIN, **ENDED},
    "extract": {
        "JobsCompleted": PLAIN,
        "RowsRead": PLAIN,
        "BytesWritten": PLAIN,
        "QueueSeconds": PLAIN,
        "Retries": PLAIN,
        "Resumed": PLAIN,
        "Waits": PLAIN,
        "ColdStart": COLD,
        **ENDED,
    },
    "dead-letter": ENDED,
    "notify": {"EventsPublished": PLAIN, "ColdStart": COLD},
}

FAILURES: Mapping[str, frozenset[str]] = {
    "extract": frozenset({"invalid", "refused", "unavailable", "limit", "timeout", "internal"}),
    "sweeper": frozenset({"timeout", "internal"}),
    "dead-letter": frozenset({"internal"}),
    "submit": frozenset(),
}
"""The families as which a service can end a job, where that is a failure: all but `canceled`, which people ask for."""

Metric = tuple[str, str, tuple[str, ...]]
"""Service, name and the names of the dimensions."""


def written() -> set[Metric]:
    """Every metric that is written."""
    return {(service, name, names) for service, metrics in WRITTEN.items() for name, names in metrics.items()}
