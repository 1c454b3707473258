"""The composition root of extract and of the dead-letter consumer."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from fetcher.aws.clients import client
from fetcher.aws.connections import Connections
from fetcher.aws.extractions import Extractions
from fetcher.aws.gates import Gates
from fetcher.aws.schemas import Schemas
from fetcher.aws.secrets import Keys, Vault
from fetcher.aws.slots import Slots
from fetcher.aws.sources import Sources
from fetcher.core.clock import now_ms
from fetcher.ports import Clock
from fetcher.settings import Settings, load


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that an attempt needs."""

    settings: Settings
    clock: Clock
    extractions: Extractions
    beats: Extractions
    """The same table for the heartbeat, by a client that gives up well within a lease."""
    connections: Connections
    schemas: Schemas
    sources: Sources
    slots: Slots
    renewals: Slots
    """The same slots for the heartbeat, by its own client."""
    gates: Gates
    keys: Keys
    sqs: Any
    s3: Any


@cache
def services() -> Services:
    """Build the services of this process."""
    settings = load()
    dynamodb = client("dynamodb")
    quick = client("dynamodb", seconds=5, tries=3)
    return Services(
        settings=settings,
        clock=now_ms,
        extractions=Extractions.of(dynamodb, settings, now_ms),
        beats=Extractions.of(quick, settings, now_ms),
        connections=Connections(dynamodb, settings.connections_table, settings.main_table, now_ms),
        schemas=Schemas(dynamodb, settings.main_table, now_ms),
        sources=Sources(Vault(client("kms"), settings.key_id), settings),
        slots=Slots(dynamodb, settings.main_table, now_ms, lease_ms=settings.lease_ms),
        renewals=Slots(quick, settings.main_table, now_ms, lease_ms=settings.lease_ms),
        gates=Gates(dynamodb, settings.main_table, now_ms),
        keys=Keys(client("secretsmanager"), settings.master_secret),
        sqs=client("sqs"),
        s3=client("s3"),
    )
