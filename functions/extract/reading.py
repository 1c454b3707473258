"""From a stored request to open sources: the connection of each datasource, found again at its claim."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from extract.services import Services
from fetcher import engines
from fetcher.aws.results import request_body
from fetcher.aws.stored import Stored
from fetcher.core.canonical import strict_loads
from fetcher.core.extraction import Extraction
from fetcher.core.request import parse
from fetcher.core.run import Source
from fetcher.errors import FetcherError, InvalidRequestError, Where
from fetcher.model import Request
from fetcher.ports import Session


def stored_request(services: Services, extraction: Extraction) -> Request:
    """Read the request back and check it again, limits included."""
    item = services.extractions.request(extraction.tenant, extraction.id)
    if item is None:
        raise FetcherError("the request of this job is gone")
    body = {
        "dataRequest": strict_loads(request_body(services.s3, services.settings.bucket, item)),
        "metadata": strict_loads(item["metadata"]),
    }
    return parse(body, services.settings.limits)


@dataclass(frozen=True, slots=True)
class Opened:
    """The sources of a request, in order; and of each connection, by its id, the version and how many may read it."""

    sources: tuple[Source, ...]
    versions: Mapping[str, int]
    workers: Mapping[str, int]


def opened(services: Services, extraction: Extraction, request: Request) -> Opened:
    """Find every datasource again. Raises `InvalidRequestError` for one that went or changed hands.

    Raises `NotReadyError` for one of the operator's that cannot be used now.
    """
    found = {name: _stored(services, extraction, name) for name in sorted(request.datasources)}
    sources = (_source(services, extraction, request, name, at) for name, at in found.items())
    at_once = {at.id: at.workers for at in found.values()}
    return Opened(tuple(sources), {at.id: at.version for at in found.values()}, at_once)


def _stored(services: Services, extraction: Extraction, name: str) -> Stored:
    stored = services.connections.again(extraction.tenant, name, extraction.connections[name])
    if stored is None or not stored.serves(extraction.source):
        raise InvalidRequestError(
            "the connection is gone or belongs to another product now", code="FET-2010", where=Where(name)
        )
    return stored


def _source(services: Services, extraction: Extraction, request: Request, name: str, stored: Stored) -> Source:
    selections = request.datasources[name]
    stored = replace(stored, connection=engines.narrowed(stored.connection, selections, request.metadata))
    naming = engines.engine(stored.connection.kind).NAMING
    scope = naming.scope([selection.table for selection in selections], stored.connection)
    return Source(
        name=name,
        connection=stored.connection,
        selections=selections,
        naming=naming,
        open=partial(_open, services, stored, extraction.id),
        remember=partial(services.schemas.put, stored, scope),
    )


def _open(services: Services, stored: Stored, extraction_id: str, seconds: float) -> AbstractContextManager[Session]:
    return services.sources.open(stored, seconds=seconds, application=f"fetcher-{extraction_id}")
