"""The engine without any AWS: the same plan, the same reading and the same bytes, into a sink of yours.

Hosts are not guarded here: whoever embeds the engine chose the connections.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fetcher import engines
from fetcher.core.document import Meter, ResultWriter
from fetcher.core.limits import DEFAULTS, lowered
from fetcher.core.manifest import DatasourceEntry
from fetcher.core.plan import digest
from fetcher.core.progress import Progress
from fetcher.core.request import parse
from fetcher.core.run import Reader, Source
from fetcher.core.seal import Chunk, Seal
from fetcher.core.stop import Stop
from fetcher.errors import InvalidRequestError, Where
from fetcher.model import Connection, Request, Secret
from fetcher.ports import Session, Sink

Opened = tuple[Connection, Secret]


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was read and what it hashes to. `hmac` is that of the key given, if one was."""

    datasources: tuple[DatasourceEntry, ...]
    rows: int
    size: int
    sha256: str
    hmac: str | None
    plan_digest: str
    chunks: tuple[Chunk, ...]


def extract(
    request: Mapping[str, Any],
    connections: Mapping[str, Opened],
    sink: Sink,
    *,
    overrides: Mapping[str, float] | None = None,
    key: bytes | None = None,
    folder: Path | None = None,
) -> Extracted:
    """Read what a body of `POST /v1/fetcher` asks for and write the result document to `sink`.

    `connections` maps datasource names to where they are and what opens them. `overrides` lowers limits
    by the names of `Limits`, never raises them. `sink.write` gets chunks of about 8 MiB. `folder` holds
    the spools of parallel datasources. Raises `FetcherError`s; the sink then holds an unfinished
    document, which the caller drops.
    """
    limits = lowered(DEFAULTS, overrides or {})
    checked = parse(request, limits)
    stop = Stop(limits.seconds)
    progress = Progress(sum(map(len, checked.datasources.values())))
    with Reader(_sources(checked, connections), limits, stop, progress) as reader:
        plan_digest = digest(reader.plan())
        seal = Seal(key if key is not None else b"")
        meter = Meter(limits.result_bytes)
        writer = ResultWriter(sink, seal, meter)
        datasources = reader.read(writer, meter, folder or Path(tempfile.gettempdir()))
        writer.end()
    return Extracted(
        datasources=datasources,
        rows=meter.rows,
        size=meter.size,
        sha256=seal.sha256,
        hmac=None if key is None else seal.hmac,
        plan_digest=plan_digest,
        chunks=tuple(writer.chunks),
    )


def _sources(request: Request, connections: Mapping[str, Opened]) -> list[Source]:
    unknown = [name for name in request.datasources if name not in connections]
    if unknown:
        raise InvalidRequestError(
            f"no connection was given for {', '.join(unknown)}", code="FET-1020", where=Where(unknown[0])
        )
    return [_source(request, name, *connections[name]) for name in request.datasources]


def _source(request: Request, name: str, connection: Connection, secret: Secret) -> Source:
    selections = request.datasources[name]
    connection = engines.narrowed(connection, selections, request.metadata)
    return Source(
        name=name,
        connection=connection,
        selections=selections,
        naming=engines.engine(connection.kind).NAMING,
        open=partial(_open, connection, secret),
    )


def _open(connection: Connection, secret: Secret, seconds: float) -> AbstractContextManager[Session]:
    application = f"fetcher-embedded-{os.getpid()}"
    return engines.engine(connection.kind).connect(connection, secret, seconds=seconds, application=application)
