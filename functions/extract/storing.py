"""From open sources to one sealed object: begun, gone on with after a crash, or only completed.

    no checkpoint, or another plan    a new upload under a new token, from the beginning
    a checkpoint that fits            behind its mark, in the same upload, parts in a block of their own
    a seal over a multipart list      the same list, the same bytes; nothing is read again

Source: `design.md` §5. Part numbers are `writer × block + n`; a worker that lost its claim can only
write numbers that nobody lists.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from extract.heart import Heart
from extract.reading import Opened
from extract.sealed import SealedUpload, restored, sealed_upload, to_item
from extract.services import Services
from fetcher import __version__
from fetcher.aws import results
from fetcher.aws.errors import GONE, SPOILT
from fetcher.aws.records import Completed
from fetcher.aws.results import Steps, Upload
from fetcher.aws.telemetry import count, logger
from fetcher.core.checkpoint import Checkpoint, Mark, Part, chunks_of
from fetcher.core.clock import rfc3339
from fetcher.core.document import CHUNK, Meter, ResultWriter
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.manifest import DatasourceEntry, Manifest, ResultEntry, render
from fetcher.core.plan import digest
from fetcher.core.run import Reader
from fetcher.core.seal import Seal, Signer
from fetcher.core.stop import Stop
from fetcher.errors import ChangedError, UnavailableError, during
from fetcher.model import Query

LAST_PART_NUMBER = 10_000
Plan = Mapping[str, Sequence[Query]]


class Storing:
    """Stores the result of one planned reader."""

    def __init__(self, services: Services, heart: Heart, stop: Stop, opened: Opened) -> None:
        self._services = services
        self._heart = heart
        self._stop = stop
        self._opened = opened
        self._signer = Signer(services.keys.ring(), heart.extraction.tenant)
        self._bucket = services.settings.bucket
        self._limit = services.settings.limits.result_bytes
        self._sealing_seconds = services.settings.margin_seconds / 2  # the other half is for the hand-over

    def stored(self, reader: Reader, plan: Plan) -> Completed:
        """Bring the result to where only finish is missing. Raises `UnavailableError` when its upload can be none."""
        plan_digest = digest(plan)
        try:
            return self._stored(reader, plan_digest)
        except ClientError as error:
            if not (GONE.include(error) or SPOILT.include(error)):
                raise
            # Sealed or not: without its upload, or with another part in it, it can become no object; so read again.
            self._begin(self._heart.extraction, plan_digest)
            raise UnavailableError("the upload to go on with is gone or spoilt; it is begun again") from error
        except ChangedError:
            # Its parts are of a plan that was not true; the next try may make the same one, if it is true again.
            self._begin(self._heart.extraction, plan_digest)
            raise

    def _stored(self, reader: Reader, plan_digest: str) -> Completed:
        extraction = self._heart.extraction
        if (sealed := sealed_upload(extraction, plan_digest)) is not None:
            with during("sealing"), self._stop.put_off(self._sealing_seconds):
                return self._completed(sealed, reader)
        checkpoint = self._begun(extraction, plan_digest)
        upload = self._upload(reader, checkpoint)
        try:
            with during("sealing"):
                return self._read(reader, upload, checkpoint)
        finally:
            upload.stop()

    # --- where to go on

    def _begun(self, extraction: Extraction, plan_digest: str) -> Checkpoint:
        """Go on with the checkpoint's upload when it fits and has room, else begin one."""
        known = extraction.checkpoint
        versions = self._opened.versions
        if known is not None and known.upload_id and known.fits(plan_digest, versions) and self._has_room(extraction):
            self._heart.go_on()
            reach(Point.GONE_ON)
            count("Resumed")
            logger.info("going on from the checkpoint", extra={"parts": len(known.parts)})
            return known
        return self._begin(extraction, plan_digest)

    def _begin(self, extraction: Extraction, plan_digest: str) -> Checkpoint:
        """Note a new upload, by a fenced write, and only then drop the old one."""
        token = uuid4().hex
        key = results.result_key(extraction.tenant, extraction.id, token)
        begun = Checkpoint(token, key, plan_digest=plan_digest, versions=self._opened.versions)
        self._heart.begin(begun)
        reach(Point.BEGUN)
        with suppress(ClientError, BotoCoreError):  # what stays expires
            results.drop(self._services.s3, self._bucket, extraction)
        reach(Point.DROPPED)
        return begun

    def _has_room(self, extraction: Extraction) -> bool:
        return extraction.phase is None and (extraction.writer + 2) * self._block <= LAST_PART_NUMBER

    @property
    def _block(self) -> int:
        """Part numbers of one worker: `b` of `design.md` §5."""
        return -(-self._limit // CHUNK) + 2

    def _upload(self, reader: Reader, checkpoint: Checkpoint) -> Upload:
        known = replace(checkpoint, snapshots=checkpoint.snapshots + 1) if checkpoint.mark else checkpoint

        def started(upload_id: str) -> None:
            nonlocal known
            reach(Point.UPLOAD_MADE)
            known = replace(known, upload_id=upload_id)
            self._heart.checkpoint(known)
            reach(Point.UPLOAD_NOTED)

        def stored(parts: Sequence[Part], mark: Mark | None) -> None:
            reach(Point.PART_SENT)
            if mark is not None:
                self._heart.checkpoint(replace(known, parts=tuple(parts), mark=mark))
            reach(Point.PART_STORED)

        steps = Steps(started=started, stored=stored, mark=lambda: reader.mark, check=self._stop.check)
        upload = Upload(self._services.s3, self._bucket, checkpoint.key, steps)
        if checkpoint.mark is not None and checkpoint.upload_id is not None:
            upload.go_on(checkpoint.upload_id, checkpoint.parts, self._heart.extraction.writer * self._block + 1)
        return upload

    # --- reading and sealing

    def _read(self, reader: Reader, upload: Upload, checkpoint: Checkpoint) -> Completed:
        resumed = checkpoint if checkpoint.mark is not None else None
        seal = None if resumed else self._signer.seal()
        meter = _meter(self._limit, checkpoint)
        writer = ResultWriter(upload, seal, meter, checkpoint.chunks if resumed else ())
        with during("reading"):
            datasources = reader.read(writer, meter, Path(tempfile.gettempdir()), resumed)
            writer.end()
        upload.close()
        self._stop.check()
        with self._stop.put_off(self._sealing_seconds):
            self._heart.seal(to_item(upload.parts, checkpoint.plan_digest, datasources))
            reach(Point.SEALED)
            upload.complete()
            reach(Point.STORED)
            proof = seal or self._read_back(checkpoint.key, upload.parts)
            entry = ResultEntry(
                checkpoint.key, meter.size, proof.sha256, proof.hmac, self._signer.version, tuple(writer.chunks)
            )
            return self._described(entry, datasources, checkpoint)

    def _completed(self, sealed: SealedUpload, reader: Reader) -> Completed:
        """Complete what an earlier attempt sealed: the same list, the same bytes."""
        checkpoint, parts = sealed.checkpoint, sealed.parts
        count("Resumed")
        logger.info("completing what an earlier attempt sealed", extra={"parts": len(parts)})
        upload = Upload(self._services.s3, self._bucket, checkpoint.key)
        upload.go_on(sealed.upload_id, parts, LAST_PART_NUMBER)
        self._stop.check()
        upload.complete()
        upload.stop()
        reach(Point.STORED)
        proof = self._read_back(checkpoint.key, parts)
        size = sum(part.size for part in parts)
        entry = ResultEntry(checkpoint.key, size, proof.sha256, proof.hmac, self._signer.version, chunks_of(parts))
        return self._described(entry, restored(sealed.datasources, reader), checkpoint)

    def _read_back(self, key: str, parts: Sequence[Part]) -> Seal:
        return results.read_back(self._services.s3, self._bucket, key, parts, self._signer.key, self._stop.check)

    # --- describing

    def _described(
        self, entry: ResultEntry, datasources: Sequence[DatasourceEntry], checkpoint: Checkpoint
    ) -> Completed:
        """Store the manifest and name everything that finish will publish."""
        self._stop.check()
        extraction = self._heart.extraction
        manifest = self._manifest(extraction, entry, tuple(datasources), checkpoint.plan_digest)
        where = results.manifest_key(extraction.tenant, extraction.id, checkpoint.token, extraction.attempts)
        results.put_manifest(self._services.s3, self._bucket, where, render(manifest, self._signer.key))
        reach(Point.MANIFEST_STORED)
        return Completed(
            {
                "bucket": self._bucket,
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
            retries=extraction.retries,
            waits=extraction.waits,
        )


def _meter(limit: int, checkpoint: Checkpoint) -> Meter:
    """Count what the checkpoint holds first."""
    if checkpoint.mark is None:
        return Meter(limit)
    return Meter(limit, sum(part.size for part in checkpoint.parts), sum(checkpoint.mark.rows))
