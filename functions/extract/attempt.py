"""One attempt at an extraction: claim, read, seal, finish (`design.md` §6, steps h to m)."""

import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from extract.heart import Heart
from extract.reading import sources_of, stored_request
from extract.services import Services
from fetcher import __version__
from fetcher.aws import queues, results
from fetcher.aws.records import Completed, Failed
from fetcher.aws.results import Upload
from fetcher.aws.sweeping import stalled_error
from fetcher.aws.telemetry import count_ended, logger
from fetcher.core.clock import rfc3339
from fetcher.core.document import Meter, ResultWriter
from fetcher.core.extraction import Extraction, Message
from fetcher.core.faults import Point, reach
from fetcher.core.lifecycle import STALLED_LIMIT
from fetcher.core.manifest import DatasourceEntry, Manifest, ResultEntry, render
from fetcher.core.plan import digest
from fetcher.core.progress import Progress
from fetcher.core.retry import attempts
from fetcher.core.run import Reader
from fetcher.core.seal import Signer
from fetcher.core.stop import Stop
from fetcher.errors import CanceledError, FetcherError, LostClaimError

MARGIN_SECONDS = 60.0
"""Lambda's last minute is kept for sealing and finishing."""


def attempt(services: Services, message: Message, remaining_seconds: float) -> None:
    """Work on an extraction if the claim is won; a refused claim is success and has no effect.

    Failures of the job end the job. Failures of ours release the claim and are raised, so that the
    message comes back.
    """
    extraction = services.extractions.claim(message.tenant, message.extraction_id, message.generation, uuid4().hex)
    if extraction is None:
        logger.info("not claimed: it is being worked on, has ended, or the message is old")
        return
    reach(Point.CLAIMED)
    try:
        ended = _ended(services, extraction, remaining_seconds)
    except LostClaimError:
        logger.warning("the claim was lost; another worker goes on")
        return
    except Exception:
        services.extractions.release(extraction)
        raise
    reach(Point.FINISHED)
    count_ended(ended)
    announce(services, ended)


def announce(services: Services, ended: Extraction) -> None:
    """Hint that an event waits in the outbox. A failure here is harmless: the sweeper hints again."""
    try:
        queues.send(services.sqs, services.settings.notifications_queue, ended.message)
    except (ClientError, BotoCoreError):
        logger.exception("the event waits for the sweeper")
    reach(Point.NOTIFIED)


def clean(services: Services, extraction: Extraction) -> None:
    """Remove what a job that failed had stored; what this misses expires by the bucket's rules."""
    with suppress(ClientError, BotoCoreError):
        results.discard(services.s3, services.settings.bucket, extraction)


def _ended(services: Services, extraction: Extraction, remaining_seconds: float) -> Extraction:
    """Bring a claimed extraction to its end and return it as it ended."""
    settings = services.settings
    left = settings.limits.seconds - extraction.spent_ms / 1000
    stop = Stop(min(left, max(0.0, remaining_seconds - MARGIN_SECONDS)))
    heart = Heart(
        services.extractions,
        extraction,
        stop,
        lease_seconds=settings.lease_ms / 1000,
        every_seconds=settings.heartbeat_seconds,
    )
    try:
        with heart:
            _check(extraction)
            outcome = _Work(services, heart, stop).done()
    except (LostClaimError, ClientError, BotoCoreError):
        raise
    except FetcherError as error:
        # Not the traceback: the driver's own text is in it, and may hold a row's value.
        logger.warning("the job failed", extra={"error": error.public(), "cause": type(error.__cause__).__name__})
        return _failed(services, heart.extraction, error)
    return services.extractions.terminate(heart.extraction, outcome, claimed=True)


def _failed(services: Services, extraction: Extraction, error: FetcherError) -> Extraction:
    ended = services.extractions.terminate(extraction, Failed(error), claimed=True)
    clean(services, ended)
    return ended


def _check(extraction: Extraction) -> None:
    """What a claimant learns before it does anything."""
    if extraction.cancel_requested_at is not None:
        raise CanceledError("the job was canceled")
    if extraction.stalled >= STALLED_LIMIT:
        raise stalled_error()


class _Work:
    """The reading and storing of one attempt, up to the moment before finish."""

    def __init__(self, services: Services, heart: Heart, stop: Stop) -> None:
        self._services = services
        self._heart = heart
        self._stop = stop
        self._retries = 0

    def done(self) -> Completed:
        """Read, store and seal; begin again from the start while a source is only unavailable."""
        return attempts(self._once, sleep=self._pause)

    def _pause(self, seconds: float) -> None:
        logger.info("a source is not available; trying again", extra={"seconds": round(seconds, 2)})
        self._retries += 1
        self._stop.recover(seconds)

    def _once(self) -> Completed:
        services, extraction = self._services, self._heart.extraction
        request = stored_request(services, extraction)
        progress = Progress(sum(map(len, request.datasources.values())))
        self._heart.show(progress.shown)
        sources = sources_of(services, extraction, request)
        with Reader(sources, services.settings.limits, self._stop, progress) as reader:
            plan_digest = digest(reader.plan())
            upload = self._begin_upload(extraction)
            try:
                return self._stored(reader, upload, plan_digest)
            except BaseException:
                upload.abandon()
                raise

    def _begin_upload(self, extraction: Extraction) -> Upload:
        """Open an upload under a token of its own, and drop what an earlier attempt left."""
        clean(self._services, extraction)
        token = uuid4().hex
        key = results.result_key(extraction.tenant, extraction.id, token)
        checkpoint = {"uploadToken": token, "key": key}
        self._heart.begin_again(checkpoint)
        return Upload(
            self._services.s3,
            self._services.settings.bucket,
            key,
            started=lambda upload_id: self._heart.checkpoint({**checkpoint, "uploadId": upload_id}),
            stored=lambda _: reach(Point.PART_STORED),
        )

    def _stored(self, reader: Reader, upload: Upload, plan_digest: str) -> Completed:
        signer = Signer(self._services.keys.ring(), self._heart.extraction.tenant)
        seal, meter = signer.seal(), Meter(self._services.settings.limits.result_bytes)
        writer = ResultWriter(upload, seal, meter)
        datasources = reader.read(writer, meter, Path(tempfile.gettempdir()))
        writer.end()
        upload.close()
        self._stop.check()
        self._heart.seal({"parts": [asdict(part) for part in upload.parts], "size": meter.size, "sha256": seal.sha256})
        reach(Point.SEALED)
        upload.complete()
        reach(Point.STORED)
        entry = ResultEntry(upload.key, meter.size, seal.sha256, seal.hmac, signer.version, tuple(writer.chunks))
        return self._described(entry, datasources, plan_digest, signer)

    def _described(
        self, entry: ResultEntry, datasources: tuple[DatasourceEntry, ...], plan_digest: str, signer: Signer
    ) -> Completed:
        """Store the manifest and name everything that finish will publish."""
        self._stop.check()
        services, extraction = self._services, self._heart.extraction
        manifest = self._manifest(extraction, entry, datasources, plan_digest)
        token = (extraction.checkpoint or {})["uploadToken"]
        where = results.manifest_key(extraction.tenant, extraction.id, token, extraction.attempts)
        results.put_manifest(services.s3, services.settings.bucket, where, render(manifest, signer.key))
        reach(Point.MANIFEST_STORED)
        return Completed(
            {
                "bucket": services.settings.bucket,
                "path": entry.path,
                "manifestPath": where,
                "format": "json",
                "sizeBytes": entry.size,
                "rowCount": manifest.rows,
                "sha256": entry.sha256,
                "hmac": entry.hmac,
                "keyVersion": entry.key_version,
            }
        )

    def _manifest(
        self, extraction: Extraction, entry: ResultEntry, datasources: tuple[DatasourceEntry, ...], plan_digest: str
    ) -> Manifest:
        now = rfc3339(self._services.clock())
        return Manifest(
            extraction_id=extraction.id,
            tenant=extraction.tenant,
            request_hash=extraction.request_hash,
            plan_digest=plan_digest,
            datasources=datasources,
            result=entry,
            created_at=extraction.created_at,
            started_at=extraction.started_at or now,
            completed_at=now,
            attempts=extraction.attempts,
            engine_version=__version__,
            retries=self._retries,
        )
