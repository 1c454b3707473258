"""The composition root: what the routes work with, made once a process from the environment."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from fetcher.aws.clients import client
from fetcher.aws.connections import Connections
from fetcher.aws.extractions import Extractions
from fetcher.aws.outboxes import Outboxes
from fetcher.aws.rates import Rates
from fetcher.aws.schemas import Schemas
from fetcher.aws.secrets import Vault
from fetcher.aws.slots import Slots
from fetcher.aws.sources import Sources
from fetcher.aws.sweeping import Overdue
from fetcher.core.clock import now_ms
from fetcher.ports import Clock
from fetcher.settings import Settings, load


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that submit, the sweeper and their tests need."""

    settings: Settings
    clock: Clock
    extractions: Extractions
    outboxes: Outboxes
    overdue: Overdue
    connections: Connections
    vault: Vault
    sources: Sources
    schemas: Schemas
    rates: Rates
    slots: Slots
    sqs: Any
    s3: Any


@cache
def services() -> Services:
    """Build the services of this process."""
    settings = load()
    vault = Vault(client("kms"), settings.key_id)
    dynamodb = client("dynamodb")
    return Services(
        settings=settings,
        clock=now_ms,
        extractions=Extractions.of(dynamodb, settings, now_ms),
        outboxes=Outboxes(dynamodb, settings.main_table, now_ms, dispatch_ms=settings.dispatch_ms),
        overdue=Overdue(dynamodb, settings.main_table, now_ms),
        connections=Connections(dynamodb, settings.connections_table, settings.main_table, now_ms),
        vault=vault,
        sources=Sources(vault, settings),
        schemas=Schemas(dynamodb, settings.main_table, now_ms),
        rates=Rates(dynamodb, settings.main_table, now_ms),
        slots=Slots(dynamodb, settings.main_table, now_ms, lease_ms=settings.lease_ms),
        sqs=client("sqs"),
        s3=client("s3"),
    )
