"""One boto3 client a service, made when first asked for and kept for the life of the process.

Timeouts are short because every call here is small; S3 parts are 8 MiB and get more. Checksums are
ours (SHA-256 of each part), so botocore adds none of its own.
"""

from functools import cache
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

_CONFIG = Config(
    connect_timeout=3,
    read_timeout=20,
    retries={"mode": "standard", "total_max_attempts": 4},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    max_pool_connections=16,
)
_S3 = _CONFIG.merge(Config(read_timeout=60, signature_version="s3v4", s3={"addressing_style": "path"}))


_making = Lock()
"""boto3's default session is for one thread at a time."""


def client(service: str, *, seconds: float | None = None, tries: int = 1) -> Any:
    """Return the process's client of a service; `AWS_ENDPOINT_URL` decides where it talks to.

    With `seconds`, a client whose tries are bounded by that time each, as health checks and heartbeats need it.
    """
    with _making:
        return _client(service, seconds, tries)


@cache
def _client(service: str, seconds: float | None, tries: int) -> Any:
    config = _S3 if service == "s3" else _CONFIG
    if seconds is not None:
        config = config.merge(
            Config(
                connect_timeout=seconds,
                read_timeout=seconds,
                retries={"mode": "standard", "total_max_attempts": tries},
            )
        )
    return boto3.client(service, config=config)  # type: ignore[call-overload] # the name is no literal
