"""A product service that posts jobs, posts again whenever it did not get an answer, and looks until they end."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import urllib3

from infra.local.api import Answer, Api
from tests.soak.jobs import Kind

ACCEPTED = (200, 202)
PATIENCE_SECONDS = 120.0
"""How long one job is posted again and again: the gateway, a probe or the process may fail at any time."""


@dataclass(slots=True)
class Posted:
    """One job as its poster knows it. `latencies` are seconds of single requests; `begun` is a monotonic instant."""

    kind: Kind
    correlation: str
    begun: float
    ids: set[str] = field(default_factory=set)
    latencies: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    job: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0

    @property
    def ended(self) -> bool:
        """Whether the job was seen in a terminal status."""
        return self.completed or self.job.get("status") == "failed"

    @property
    def completed(self) -> bool:
        """Whether the job was seen to have a result."""
        return self.job.get("status") == "completed"


def post(api: Api, kind: Kind, correlation: str, random: Random) -> Posted:
    """Post a job until it is accepted; some are posted once more, as a client does that lost the answer."""
    posted = Posted(kind, correlation, time.monotonic())
    while not posted.ids and time.monotonic() < posted.begun + PATIENCE_SECONDS:
        _post_once(api, posted)
        if not posted.ids:
            time.sleep(random.uniform(0.1, 0.5))
    if random.random() < 0.1:
        _post_once(api, posted)
    return posted


def look(api: Api, posted: Posted) -> None:
    """Ask how the job is doing; an answer that does not come is asked for again later."""
    (job_id,) = posted.ids
    answer = _sent(api, "GET", f"/v1/fetcher/{job_id}")
    if answer is not None and answer.status == 200:
        posted.job = answer.json()
        posted.seconds = time.monotonic() - posted.begun


def _post_once(api: Api, posted: Posted) -> None:
    begun = time.monotonic()
    answer = _sent(api, "POST", "/v1/fetcher", posted.kind.body(posted.correlation))
    posted.latencies.append(time.monotonic() - begun)
    if answer is not None and answer.status in ACCEPTED:
        posted.ids.add(answer.json()["jobId"])
    else:
        posted.refusals.append("no answer" if answer is None else f"{answer.status} {answer.body[:200]!r}")


def _sent(api: Api, method: str, path: str, body: Any = None) -> Answer | None:
    try:
        return api.post(path, body) if method == "POST" else api.get(path)
    except urllib3.exceptions.HTTPError:
        return None
