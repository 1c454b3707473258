"""A patch of `tests.cloud`: no client of botocore waits longer than 5 s for an answer, as the heartbeat's own does.

The service waits 20 s, and 60 s for S3. Botocore has no setting of the environment for it, and what only tests would
set is no setting of the service's.
"""

from typing import Any

from botocore.endpoint import EndpointCreator

SECONDS = 5.0

_patient: Any = EndpointCreator.create_endpoint


def _impatient(self: Any, *positional: Any, timeout: tuple[float, float], **named: Any) -> Any:
    connect, read = timeout
    return _patient(self, *positional, timeout=(min(connect, SECONDS), min(read, SECONDS)), **named)


EndpointCreator.create_endpoint = _impatient  # type: ignore[assignment,method-assign] # what this module is for
