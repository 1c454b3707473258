"""Keys and credentials: the ring of signing keys, and the sealed secret of each connection.

A connection's secret is sealed with a KMS data key bound to the tenant and the connection by encryption
context, and with the same pair as additional data of the AES-GCM envelope; so a ciphertext that is
moved to another record does not open. Members that Secrets Manager holds are fetched when they are used.
"""

import base64
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fetcher.aws.errors import NOT_OURS, OF_ANOTHER
from fetcher.core import envelope
from fetcher.core.seal import KeyRing
from fetcher.errors import NotReadyError, RefusedError
from fetcher.model import Secret

RING_SECONDS = 300.0
SECRET_SECONDS = 300.0
PREFIX = "fetcher/connections"

_log = logging.getLogger(__name__)

_LETTERS = r"[A-Za-z0-9/_+=.@-]+"


class Keys:
    """The master secret, fetched when first needed and again every five minutes."""

    def __init__(self, client: Any, secret_id: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._secret_id = secret_id
        self._monotonic = monotonic
        self._ring: KeyRing | None = None
        self._until = 0.0

    def ring(self) -> KeyRing:
        """Return the ring; rotation reaches every worker within `RING_SECONDS`.

        An AWS error, or the `NotReadyError` of a secret that is no ring, is raised only while there is none of before.
        """
        if self._ring is None or self._monotonic() >= self._until:
            try:
                self._ring = KeyRing.parse(self._client.get_secret_value(SecretId=self._secret_id)["SecretString"])
            except (ClientError, BotoCoreError, NotReadyError):
                if self._ring is None:
                    raise
                _log.error("the master secret could not be read again; its last good ring signs", exc_info=True)
            self._until = self._monotonic() + RING_SECONDS
        return self._ring


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret at rest: the envelope and its data key under KMS, both base64."""

    ciphertext: str
    data_key: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A member of a JSON secret in Secrets Manager."""

    secret_id: str
    field: str


def reference_problem(tenant: str, reference: Reference) -> str | None:
    """Say why a tenant may not use a secret: one must not have another's, or ours, sent to its host."""
    prefix = f"{PREFIX}/{tenant}/"
    if re.fullmatch(re.escape(prefix) + _LETTERS, reference.secret_id):
        return None
    return f"must be the name of a secret under {prefix}"


class References:
    """Fetches what references point at, and keeps it for five minutes at most."""

    def __init__(self, client: Callable[[], Any], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, str]] = {}

    def value(self, tenant: str, reference: Reference, *, fresh: bool = False) -> str:
        """Return the member's text; `fresh` asks again. Raises `RefusedError` for what cannot be had."""
        if reference_problem(tenant, reference):
            raise RefusedError("the connection refers to a secret that it may not use")
        until, text = self._kept.get(reference.secret_id, (0.0, ""))
        if fresh or until <= self._monotonic():
            text = self._fetched(reference.secret_id)
            self._kept[reference.secret_id] = (self._monotonic() + SECRET_SECONDS, text)
        return _member(text, reference.field)

    def _fetched(self, secret_id: str) -> str:
        try:
            answer = self._client().get_secret_value(SecretId=secret_id)
        except ClientError as error:
            if not NOT_OURS.include(error):
                raise
            raise RefusedError("the secret that the connection refers to cannot be read") from error
        return str(answer.get("SecretString", ""))


def _member(text: str, name: str) -> str:
    """Read a member; the cause is dropped, because a parser's error quotes the secret."""
    try:
        found = json.loads(text).get(name)
    except (ValueError, AttributeError):
        found = None
    if not isinstance(found, str) or not found:
        raise RefusedError("the secret that the connection refers to has no such field") from None
    return found


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
        """Open what `seal` sealed for the same tenant and connection. Raises `RefusedError` for anything else."""
        context = _context(tenant, connection_id)
        try:
            key = self._client.decrypt(
                KeyId=self._key_id, CiphertextBlob=base64.b64decode(sealed.data_key), EncryptionContext=context
            )
        except ClientError as error:
            if not OF_ANOTHER.include(error):
                raise
            raise RefusedError("the stored secret does not belong to this connection") from error
        return envelope.opened(base64.b64decode(sealed.ciphertext), key["Plaintext"], context)


def _context(tenant: str, connection_id: str) -> Mapping[str, str]:
    return {"tenant": tenant, "connectionId": connection_id}


def _text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")
