"""The upload's exchange of memory. S3 is a fake, because a real one cannot be held in the middle of a part."""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as waited
from threading import Event
from typing import Any

from fetcher.aws.results import PART_MINIMUM, Upload


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
