"""What a request is answered with."""

from types import SimpleNamespace
from typing import Any

from fetcher.aws.extractions import Extractions
from fetcher.aws.records import Accepted, Failed
from fetcher.core.canonical import request_hash
from fetcher.core.extraction import Extraction
from fetcher.errors import CanceledError
from submit.accepting import accept
from submit.caller import Caller
from submit.schemas import JobBody
from tests.unit.conftest import Clock


class Hurried(Extractions):
    """A table whose jobs are canceled as soon as somebody has looked at them."""

    def get(self, tenant: str, extraction_id: str) -> Extraction | None:
        found = super().get(tenant, extraction_id)
        if found is not None and not found.terminal and self.cancel(tenant, extraction_id):
            self.terminate(found, Failed(CanceledError("the job was canceled")), claimed=False)
        return found


def test_an_answer_shows_the_job_as_it_was_when_it_answered(client: Any, clock: Clock) -> None:
    """R-000-52: canceled right after the look at it, it is no 200 that says `failed`."""
    table = Hurried(client, "main", clock, lease_ms=60_000, window_ms=300_000, dispatch_ms=30_000)
    body = {"dataRequest": {"mappedFields": {"pg": {"t": ["*"]}}}, "metadata": {"source": "payments"}}
    asked = JobBody(body)
    digest = request_hash(asked.data_request, asked.metadata)
    job = Accepted("default", "a", "payments", digest, {"pg": "c1"}, 1, "{}", "{}", None, clock.now)
    made = table.accept(job, None)
    answer = accept(SimpleNamespace(extractions=table), Caller("default", "nobody"), asked)  # type: ignore[arg-type] # all it asks
    assert (answer.extraction, answer.new) == (made, False)
    assert table.duplicate("default", digest) == (None, "a")
