"""Digest, signature and hash chain of a result: made while it is written, checked by anyone who holds the key."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fetcher.core.tenants import DEFAULT_TENANT
from fetcher.errors import FetcherError, NotReadyError

KEY_INFO = "fetcher-external-hmac-v1"
SHORTEST_MASTER_KEY = 32
BLOCK = 1024 * 1024

START_OF_CHAIN = ""
"""What stands in for the previous link of the first chunk."""


def external_hmac_key(master: bytes, tenant: str) -> bytes:
    """Derive the 32 bytes that sign a tenant's results: HKDF-SHA-256, no salt.

    A consumer may hold it: neither the master key nor any other derived key follows from it. For
    `default` it is the public system's key, so that its consumers verify unchanged (R-000-80).
    """
    info = KEY_INFO if tenant == DEFAULT_TENANT else f"{KEY_INFO}:{tenant}"
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info.encode()).derive(master)


def chained(previous: str, sha256: str) -> str:
    """Return the link of one chunk: the hex SHA-256 of two hex texts, as ASCII, one after the other.

    `previous` is the link of the chunk before, or `START_OF_CHAIN`; `sha256` is this chunk's digest.
    """
    return hashlib.sha256(previous.encode() + sha256.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One stored stretch of a result. `chain` binds it to all the chunks before it."""

    size: int
    sha256: str
    chain: str


@dataclass(frozen=True, slots=True, repr=False)
class KeyRing:
    """The master keys by version, of which `current` signs. It has no `repr`: no log line can hold it."""

    current: str
    keys: Mapping[str, bytes]

    @classmethod
    def parse(cls, text: str) -> "KeyRing":
        """Read `{"current":"1","keys":{"1":"<base64, at least 32 bytes>"}}`.

        The same without `keys`, versions beside `current`, is what CloudFormation can generate.
        Raises `NotReadyError` that names the member at fault, never its content, and keeps no cause:
        a JSON error would carry the whole secret.
        """
        secret = _object(_json(text), "it must be a JSON object")
        flat = {version: key for version, key in secret.items() if version != "current"}
        keys = _object(secret.get("keys", flat), "`keys` must be an object")
        ring = cls(str(secret.get("current")), {version: _key(version, value) for version, value in keys.items()})
        if ring.current not in ring.keys:
            raise _broken("`current` must name one of `keys`")
        return ring

    def signing_key(self, version: str, tenant: str) -> bytes:
        """Derive the tenant's key of one version; old versions stay verifiable."""
        if version not in self.keys:
            raise FetcherError(f"the master secret has no key of version {version}")
        return external_hmac_key(self.keys[version], tenant)


class Seal:
    """SHA-256 and HMAC-SHA-256 of one byte stream, side by side."""

    def __init__(self, key: bytes) -> None:
        self._digest = hashlib.sha256()
        self._signature = hmac.new(key, digestmod="sha256")

    def update(self, body: bytes | bytearray) -> None:
        """Take the next bytes; large pieces cost least and release the interpreter lock."""
        self._digest.update(body)
        self._signature.update(body)

    @property
    def sha256(self) -> str:
        """Lower-case hex digest of the bytes so far."""
        return self._digest.hexdigest()

    @property
    def hmac(self) -> str:
        """Lower-case hex signature of the bytes so far."""
        return self._signature.hexdigest()


class Signer:
    """What one tenant signs with now."""

    def __init__(self, ring: KeyRing, tenant: str) -> None:
        self.version = ring.current
        self.key = ring.signing_key(ring.current, tenant)

    def seal(self) -> Seal:
        """Begin the seal of one result."""
        return Seal(self.key)


def sealed(source: Path | BinaryIO, key: bytes) -> Seal:
    """Seal what is already stored, in blocks of 1 MiB."""
    if isinstance(source, Path):
        with source.open("rb") as stream:
            return sealed(stream, key)
    seal = Seal(key)
    while block := source.read(BLOCK):
        seal.update(block)
    return seal


def verify(source: Path | BinaryIO, signature: str, key: bytes) -> bool:
    """Say whether exactly these bytes were signed; compares in constant time (R-000-79)."""
    return same(sealed(source, key).hmac, signature)


def same(expected: str, given: str) -> bool:
    """Compare two digests in constant time; `given` may be any text."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def _json(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return None


def _object(value: Any, otherwise: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _broken(otherwise)
    return value


def _key(version: str, value: Any) -> bytes:
    key = _base64(value) if isinstance(value, str) else b""
    if len(key) < SHORTEST_MASTER_KEY:
        raise _broken(f"key {version} must be base64 of at least {SHORTEST_MASTER_KEY} bytes")
    return key


def _base64(text: str) -> bytes:
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(text, validate=True)
    return b""


def _broken(what: str) -> NotReadyError:
    return NotReadyError(f"the master secret is not usable: {what}")
