"""Keys and credentials: the ring of signing keys, and the sealed secret of each connection.

A connection's secret is sealed with a KMS data key bound to the tenant and the connection by encryption
context, and with the same pair as additional data of the AES-GCM envelope; so a ciphertext that is
moved to another record does not open.
"""

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fetcher.core import envelope
from fetcher.core.seal import KeyRing
from fetcher.model import Secret

RING_SECONDS = 300.0


class Keys:
    """The master secret, fetched when first needed and again every five minutes."""

    def __init__(self, client: Any, secret_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._secret_id = secret_id
        self._monotonic = monotonic
        self._ring: KeyRing | None = None
        self._until = 0.0

    def ring(self) -> KeyRing:
        """Return the ring; rotation reaches every worker within `RING_SECONDS`."""
        if self._ring is None or self._monotonic() >= self._until:
            text = self._client.get_secret_value(SecretId=self._secret_id)["SecretString"]
            self._ring = KeyRing.parse(text)
            self._until = self._monotonic() + RING_SECONDS
        return self._ring


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret at rest: the envelope and its data key under KMS, both base64."""

    ciphertext: str
    data_key: str


class Vault:
    """Seals and opens connection secrets."""

    def __init__(self, client: Any, key_id: str) -> None:
        self._client = client
        self._key_id = key_id

    def seal(self, tenant: str, connection_id: str, secret: Secret) -> Sealed:
        """Seal a secret for one connection of one tenant."""
        context = _context(tenant, connection_id)
        key = self._client.generate_data_key(KeyId=self._key_id, KeySpec="AES_256", EncryptionContext=context)
        ciphertext = envelope.seal(secret, key["Plaintext"], context)
        return Sealed(_text(ciphertext), _text(key["CiphertextBlob"]))

    def open(self, tenant: str, connection_id: str, sealed: Sealed) -> Secret:
        """Open what `seal` sealed for the same tenant and connection, and nothing else."""
        context = _context(tenant, connection_id)
        key = self._client.decrypt(
            KeyId=self._key_id, CiphertextBlob=base64.b64decode(sealed.data_key), EncryptionContext=context
        )
        return envelope.opened(base64.b64decode(sealed.ciphertext), key["Plaintext"], context)


def _context(tenant: str, connection_id: str) -> Mapping[str, str]:
    return {"tenant": tenant, "connectionId": connection_id}


def _text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")
