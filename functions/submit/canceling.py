"""The end of a job that was canceled while nobody worked on it; a live worker hears of it by its heartbeat."""

from fetcher.aws import ending
from fetcher.aws.records import Failed
from fetcher.core.extraction import Extraction
from fetcher.errors import CanceledError, LostClaimError
from submit.services import Services


def end_canceled(services: Services, extraction: Extraction) -> Extraction:
    """End the job now if no worker holds it; return it as it is then."""
    try:
        ended = services.extractions.terminate(extraction, Failed(CanceledError("the job was canceled")), claimed=False)
    except LostClaimError:
        return extraction
    ending.follow(services, ended)
    return ended
