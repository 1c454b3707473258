"""The environment, read once a process into one frozen value; a bad variable stops the function and is named."""

import ipaddress
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from fetcher.errors import FetcherError
from fetcher.model import Limits

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

DATASOURCES_VARIABLE = "FETCHER_DATASOURCES_SECRET_ID"
"""Read by `fetcher.aws.operated`, together with the variables that the secret completes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a function was deployed with. Names a function does not use are empty strings."""

    stage: str
    main_table: str
    connections_table: str
    bucket: str
    bus: str
    work_queue: str
    notifications_queue: str
    key_id: str
    master_secret: str
    authorizer: str
    tenant_claim: str
    products_claim: str
    allowed_networks: Networks
    limits: Limits
    lease_ms: int
    heartbeat_seconds: float
    stall_seconds: float
    dispatch_ms: int
    duplicate_window_ms: int
    max_queued_ms: int
    margin_seconds: float

    @property
    def local(self) -> bool:
        """Whether this is the stage for laptops: loopback hosts allowed, fault points armed."""
        return self.stage == "local"


def load(env: Mapping[str, str] = os.environ) -> Settings:
    """Read the environment. Raises `FetcherError` naming the variable that cannot be used."""
    lease_ms = _ms(env, "FETCHER_LEASE_SECONDS", 60)
    return Settings(
        stage=env.get("FETCHER_STAGE", "prod"),
        main_table=env.get("FETCHER_MAIN_TABLE", ""),
        connections_table=env.get("FETCHER_CONNECTIONS_TABLE", ""),
        bucket=env.get("FETCHER_BUCKET", ""),
        bus=env.get("FETCHER_BUS", ""),
        work_queue=env.get("FETCHER_WORK_QUEUE_URL", ""),
        notifications_queue=env.get("FETCHER_NOTIFICATIONS_QUEUE_URL", ""),
        key_id=env.get("FETCHER_KEY_ID", ""),
        master_secret=env.get("FETCHER_MASTER_SECRET_ID", ""),
        authorizer=env.get("FETCHER_AUTHORIZER", "iam"),
        tenant_claim=env.get("FETCHER_TENANT_CLAIM", "tenant"),
        products_claim=env.get("FETCHER_PRODUCTS_CLAIM", "products"),
        allowed_networks=_networks(env.get("FETCHER_ALLOWED_NETWORKS", "")),
        limits=Limits(
            seconds=_positive(env, "FETCHER_EXTRACTION_SECONDS", 300),
            result_bytes=max_result_bytes(env.get("ENGINE_MAX_RESULT_BYTES")),
        ),
        lease_ms=lease_ms,
        heartbeat_seconds=_heartbeat(env, lease_ms / 1000),
        stall_seconds=stall_seconds(env),
        dispatch_ms=_ms(env, "FETCHER_DISPATCH_SECONDS", 30),
        duplicate_window_ms=_ms(env, "FETCHER_DUPLICATE_WINDOW_SECONDS", 300),
        max_queued_ms=_ms(env, "FETCHER_MAX_QUEUED_HOURS", 24) * 3600,
        margin_seconds=_positive(env, "FETCHER_MARGIN_SECONDS", 60),
    )


def _heartbeat(env: Mapping[str, str], lease_seconds: float) -> float:
    """With a rarer one no worker could keep its claim: every job would fail, five leases later and without a reason."""
    seconds = _positive(env, "FETCHER_HEARTBEAT_SECONDS", 2)
    if seconds > lease_seconds / 2:
        raise FetcherError("FETCHER_HEARTBEAT_SECONDS is more than half of FETCHER_LEASE_SECONDS")
    return seconds


def stall_seconds(env: Mapping[str, str] = os.environ) -> float:
    """Read `FETCHER_STALL_SECONDS`, the silence after which a wire counts as dead: all that an engine needs of this."""
    return _positive(env, "FETCHER_STALL_SECONDS", 30)


def max_result_bytes(text: str | None) -> int:
    """Read `ENGINE_MAX_RESULT_BYTES`: unset, zero, negative or no integer means the default (R-000-46)."""
    default = Limits().result_bytes
    try:
        value = int(text or "")
    except ValueError:
        return default
    return value if value > 0 else default


def _positive(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name) or default)
    except ValueError as error:
        raise FetcherError(f"the environment variable {name} is not a number") from error
    if not 0 < value < math.inf:
        raise FetcherError(f"the environment variable {name} is not a number above zero")
    return value


def _ms(env: Mapping[str, str], name: str, default: float) -> int:
    return round(_positive(env, name, default) * 1000)


def _networks(text: str) -> Networks:
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise FetcherError("FETCHER_ALLOWED_NETWORKS is not a comma-separated list of networks") from error
