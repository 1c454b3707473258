"""Results and manifests in S3: one upload token an upload, parts stored on a second thread.

S3 cannot see a claim, so the key does: every upload writes under its own token, and a key becomes a
result only when an extraction's finish names it. What a lost worker still stores is never listed,
never referenced, and expires (`design.md` §5).
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from fetcher.aws.errors import EXISTS, GONE, SPOILT
from fetcher.core.checkpoint import Mark, Part
from fetcher.core.extraction import Extraction
from fetcher.core.faults import Point, reach
from fetcher.core.seal import BLOCK, Seal
from fetcher.errors import FetcherError

PART_MINIMUM = 5 * 1024 * 1024
"""A chunk below S3's minimum for a part is a whole small result, stored by one PutObject."""

LOOK_SECONDS = 0.5
"""How often whoever waits for a part looks whether it should still."""


def result_key(tenant: str, extraction_id: str, upload_token: str) -> str:
    """Name the result of one upload."""
    return f"{result_prefix(tenant, extraction_id)}{upload_token}.json"


def result_prefix(tenant: str, extraction_id: str) -> str:
    """Name the folder of all uploads of an extraction."""
    return f"results/{tenant}/{extraction_id}/"


def manifest_key(tenant: str, extraction_id: str, upload_token: str, attempt: int) -> str:
    """Name the manifest of one upload by one attempt."""
    return f"{manifest_prefix(tenant, extraction_id)}{upload_token}.{attempt}.json"


def manifest_prefix(tenant: str, extraction_id: str) -> str:
    """Name the folder of all manifests of an extraction."""
    return f"manifests/{tenant}/{extraction_id}/"


def request_key(tenant: str, extraction_id: str) -> str:
    """Name a request body that is too large for an item."""
    return f"requests/{tenant}/{extraction_id}.json"


def request_body(client: Any, bucket: str, item: Mapping[str, Any]) -> str | bytes:
    """Return the `dataRequest` of item 6r, from the item itself or from where it says."""
    if "request" in item:
        return str(item["request"])
    return bytes(client.get_object(Bucket=bucket, Key=item["requestKey"])["Body"].read())


@dataclass(frozen=True, slots=True)
class Steps:
    """What an upload asks and tells on its way.

    `started` is called with the upload's id before the first part is sent; `stored`, on the second thread, after each
    part with all parts so far and what `mark` said when the part was given. `check` is called before each part and
    while one is waited for: when it raises nothing more is sent, but the part on its way is not called back.
    """

    started: Callable[[str], None] = lambda upload_id: None
    stored: Callable[[Sequence[Part], Mark | None], None] = lambda parts, mark: None
    mark: Callable[[], Mark | None] = lambda: None
    check: Callable[[], None] = lambda: None


class Upload:
    """An `Exchange` of chunks that become one object; nothing is visible before `complete`.

    Holds one chunk, the one being stored, and gives its memory back for the one after the next.
    """

    def __init__(self, client: Any, bucket: str, key: str, steps: Steps | None = None) -> None:
        self._client = client
        self._bucket = bucket
        self.key = key
        self._steps = steps or Steps()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._pending: Future[None] | None = None
        self._held = bytearray()
        self._upload_id: str | None = None
        self._next = 1
        self.parts: list[Part] = []

    def go_on(self, upload_id: str, parts: Sequence[Part], first_number: int) -> None:
        """Continue an upload behind these parts; new ones are numbered from `first_number`, gaps are legal."""
        self._upload_id = upload_id
        self.parts = list(parts)
        self._next = first_number

    def exchange(self, body: bytearray, /) -> bytearray:
        """Take a chunk for the one before it, once that is stored. Raises what storing that one raised."""
        if self._upload_id is None and len(body) >= PART_MINIMUM:
            self._begin()
        self._settle()
        self._steps.check()
        if self._upload_id is not None:
            self._pending = self._thread.submit(self._send, self._next, body, self._steps.mark())
            self._next += 1
        free, self._held = self._held, body
        return free

    def close(self) -> None:
        """Wait until everything given is stored, or held if the result is small."""
        self._settle()
        self._thread.shutdown()

    def complete(self) -> None:
        """Make the object appear, whole, once. A repeat that finds it there is done."""
        try:
            if self._upload_id is None:
                self._client.put_object(
                    **self._where(),
                    Body=self._held,
                    ContentType="application/json",
                    IfNoneMatch="*",
                    ChecksumSHA256=_base64(sha256(self._held).digest()),
                )
            else:
                self._client.complete_multipart_upload(
                    **self._where(), UploadId=self._upload_id, MultipartUpload=self._listed(), IfNoneMatch="*"
                )
        except ClientError as error:
            if not self._is_there(error):
                raise

    def stop(self) -> None:
        """Send nothing more; what is stored stays for a worker that goes on, or for whoever ends the job."""
        self._thread.shutdown(cancel_futures=True)

    def _is_there(self, error: ClientError) -> bool:
        """Whether a refused completion means that an earlier try of this same upload succeeded."""
        if not any(answers.include(error) for answers in (GONE, SPOILT, EXISTS)):
            return False
        try:
            head = self._client.head_object(**self._where(), ChecksumMode="ENABLED")
        except ClientError:
            return False
        return bool(head.get("ChecksumSHA256") == self._checksum())

    def _checksum(self) -> str:
        """What S3 calls the SHA-256 of the whole: of the bytes, or of the parts' digests and how many they are."""
        if self._upload_id is None:
            return _base64(sha256(self._held).digest())
        digests = b"".join(bytes.fromhex(part.sha256) for part in self.parts)
        return f"{_base64(sha256(digests).digest())}-{len(self.parts)}"

    def _begin(self) -> None:
        # An upload whose id never arrived is known to nobody: the bucket's rule `abort-uploads` ends it in a day.
        answer = self._client.create_multipart_upload(
            **self._where(), ContentType="application/json", ChecksumAlgorithm="SHA256"
        )
        self._upload_id = answer["UploadId"]
        self._steps.started(answer["UploadId"])

    def _send(self, number: int, body: bytearray, mark: Mark | None) -> None:
        digest = sha256(body)
        answer = self._client.upload_part(
            **self._where(),
            UploadId=self._upload_id,
            PartNumber=number,
            Body=body,
            ChecksumSHA256=_base64(digest.digest()),
        )
        self.parts.append(Part(number, answer["ETag"], len(body), digest.hexdigest()))
        self._steps.stored(self.parts, mark)

    def _settle(self) -> None:
        """Wait for the part that is on its way, and raise what became of it."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            while not wait([pending], LOOK_SECONDS).done:
                self._steps.check()
            pending.result()

    def _listed(self) -> dict[str, Any]:
        return {
            "Parts": [
                {
                    "PartNumber": part.number,
                    "ETag": part.etag,
                    "ChecksumSHA256": _base64(bytes.fromhex(part.sha256)),
                }
                for part in self.parts
            ]
        }

    def _where(self) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self.key}


def read_back(
    client: Any,
    bucket: str,
    key: str,
    parts: Sequence[Part],
    key_of_tenant: bytes,
    check: Callable[[], None] = lambda: None,
) -> Seal:
    """Seal a completed object by reading it once; `check` is called before each block of at most 1 MiB.

    Raises `FetcherError` if a part is not what was stored.
    """
    seal = Seal(key_of_tenant)
    with closing(client.get_object(Bucket=bucket, Key=key)["Body"]) as body:
        for part in parts:
            piece, left = sha256(), part.size
            while left:
                check()
                if not (block := body.read(min(left, BLOCK))):
                    break
                piece.update(block)
                seal.update(block)
                left -= len(block)
            if piece.hexdigest() != part.sha256:
                raise FetcherError("the stored result is not what was written")
        if body.read(1):
            raise FetcherError("the stored result is longer than what was written")
    return seal


def abort(client: Any, bucket: str, key: str, upload_id: str) -> None:
    """Drop an upload's parts; one that is gone already is fine."""
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except ClientError as error:
        if not GONE.include(error):
            raise
    reach(Point.ABORTED)


def put_manifest(client: Any, bucket: str, key: str, body: bytes) -> None:
    """Store a manifest; its key belongs to one attempt, so a repeat replaces it by itself."""
    client.put_object(
        Bucket=bucket,
        Key=key,
        Body=body,
        ContentType="application/json",
        ChecksumSHA256=_base64(sha256(body).digest()),
    )


def erase(client: Any, bucket: str, tenant: str, extraction_id: str) -> None:
    """Delete every result and every manifest of an extraction, also what a lost worker or a failed clean-up left."""
    for prefix in (result_prefix(tenant, extraction_id), manifest_prefix(tenant, extraction_id)):
        _delete_all(client, bucket, prefix)


def discard(client: Any, bucket: str, extraction: Extraction) -> None:
    """Remove what an extraction that did not complete had stored: its upload, object and manifests."""
    checkpoint = extraction.checkpoint
    if checkpoint is not None and checkpoint.upload_id is not None:
        abort(client, bucket, checkpoint.key, checkpoint.upload_id)
    if checkpoint is not None and extraction.phase == "seal":
        _delete(client, bucket, checkpoint.key)
        _delete_all(client, bucket, manifest_prefix(extraction.tenant, extraction.id))


def _delete_all(client: Any, bucket: str, prefix: str) -> None:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            client.delete_object(Bucket=bucket, Key=entry["Key"])
            reach(Point.EACH_DELETED)


def _delete(client: Any, bucket: str, key: str) -> None:
    client.delete_object(Bucket=bucket, Key=key)
    reach(Point.OBJECT_DELETED)


def drop(client: Any, bucket: str, extraction: Extraction) -> None:
    """Remove what an earlier attempt stored under its own token, and nothing of another token.

    Only for a worker whose new token is written already: the old one can become a result no more.
    """
    old = extraction.checkpoint
    if old is None:
        return
    if old.upload_id is not None:
        abort(client, bucket, old.key, old.upload_id)
    if extraction.phase == "seal":
        _delete(client, bucket, old.key)


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")
