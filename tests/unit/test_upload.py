"""The upload's exchange of memory, and where a stop reaches it and the reading back.

S3 is a fake, because a real one cannot be held in the middle of a part.
"""

import io
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as waited
from hashlib import sha256
from threading import Event
from typing import Any

import pytest

from fetcher.aws.results import PART_MINIMUM, Steps, Upload, read_back
from fetcher.core.checkpoint import Part
from fetcher.core.seal import BLOCK
from fetcher.core.stop import Stop
from fetcher.errors import CanceledError, LostClaimError


class HeldStorage:
    """S3 as far as parts go; it reads a part's body when the test lets it."""

    def __init__(self) -> None:
        self.open = Event()
        self.bodies: list[bytes] = []

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "upload"}

    def upload_part(self, *, Body: bytearray, **_: Any) -> dict[str, str]:  # noqa: N803 - AWS's name
        assert self.open.wait(60)
        self.bodies.append(bytes(Body))
        return {"ETag": "etag"}


def test_memory_comes_back_only_when_its_part_is_stored() -> None:
    """R-000-47: two parts in memory, and no byte of one is written over before S3 has it."""
    first, second = (bytearray(letter * PART_MINIMUM) for letter in (b"1", b"2"))
    storage = HeldStorage()
    upload = Upload(storage, "bucket", "key")
    assert upload.exchange(first) == b""
    with ThreadPoolExecutor(1) as threads:
        exchanging = threads.submit(upload.exchange, second)
        assert not waited([exchanging], 0.1).done
        storage.open.set()
        assert exchanging.result(60) is first
    upload.close()
    assert storage.bodies == [first, second]
    assert [part.number for part in upload.parts] == [1, 2]


def test_a_stop_ends_the_wait_for_a_part_and_the_part_is_not_called_back() -> None:
    """Design §6, fail-fast: whoever waits hears of it, and only the part on its way is still stored."""
    storage, stop, reason = HeldStorage(), Stop(60), CanceledError("the job was canceled")
    upload = Upload(storage, "bucket", "key", Steps(check=stop.check))
    upload.exchange(bytearray(PART_MINIMUM))
    with ThreadPoolExecutor(1) as threads:
        exchanging = threads.submit(upload.exchange, bytearray(PART_MINIMUM))
        assert not waited([exchanging], 0.1).done
        stop.set(reason)
        assert exchanging.exception(60) is reason
        assert storage.bodies == []
        storage.open.set()
    upload.stop()
    assert len(storage.bodies) == len(upload.parts) == 1


def test_a_stop_ends_the_wait_for_the_last_part() -> None:
    """Design §6, fail-fast: all is given by then, and nothing is sealed yet."""
    storage, stop, reason = HeldStorage(), Stop(60), CanceledError("the job was canceled")
    upload = Upload(storage, "bucket", "key", Steps(check=stop.check))
    upload.exchange(bytearray(PART_MINIMUM))
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(upload.close)
        assert not waited([closing], 0.1).done
        stop.set(reason)
        assert closing.exception(60) is reason
        storage.open.set()
    upload.stop()


def test_nothing_is_sent_after_a_stop() -> None:
    """Design §6: also when nothing is waited for."""
    storage, stop = HeldStorage(), Stop(60)
    storage.open.set()
    upload = Upload(storage, "bucket", "key", Steps(check=stop.check))
    upload.exchange(bytearray(PART_MINIMUM))
    stop.set(LostClaimError("lost"))
    with pytest.raises(LostClaimError):
        upload.exchange(bytearray(PART_MINIMUM))
    upload.stop()
    assert len(storage.bodies) == 1


class StoredObject(io.BytesIO):
    """An object's body; `stop` comes when so many blocks have been read."""

    def __init__(self, body: bytes, stop: Stop, after: int) -> None:
        super().__init__(body)
        self.reads = 0
        self._stop = stop
        self._after = after

    def get_object(self, **_: Any) -> dict[str, io.BytesIO]:
        return {"Body": self}

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads == self._after:
            self._stop.set(LostClaimError("lost"))
        return super().read(size)


def test_a_stop_ends_the_reading_back() -> None:
    """Design §6: block by block, and the object's connection is given back."""
    body = bytes(8 * BLOCK)
    parts = [Part(1, "etag", len(body), sha256(body).hexdigest())]
    stop = Stop(60)
    stored = StoredObject(body, stop, after=3)
    with pytest.raises(LostClaimError):
        read_back(stored, "bucket", "key", parts, bytes(32), stop.check)
    assert stored.reads == 3
    assert stored.closed
    whole = StoredObject(body, Stop(60), after=0)
    assert read_back(whole, "bucket", "key", parts, bytes(32)).sha256 == sha256(body).hexdigest()
