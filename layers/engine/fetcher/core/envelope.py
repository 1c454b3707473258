"""A connection's secret at rest: AES-256-GCM under a data key that somebody else wrapped.

    nonce (12 bytes) | ciphertext | tag (16 bytes)

The context, tenant and connection id, is bound as additional data, so that an envelope moved to
another record does not open.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fetcher.core.canonical import dumps
from fetcher.errors import RefusedError
from fetcher.model import Secret

NONCE = 12


def seal(
    secret: Secret,
    data_key: bytes,
    context: Mapping[str, str],
    random: Callable[[int], bytes] = os.urandom,
) -> bytes:
    """Encrypt under a 32-byte key; two envelopes of one secret differ."""
    nonce = random(NONCE)
    members = {field.name: getattr(secret, field.name) for field in fields(secret)}
    present = {name: value for name, value in members.items() if value is not None}
    return nonce + AESGCM(data_key).encrypt(nonce, dumps(present).encode(), _bound(context))


def opened(envelope: bytes, data_key: bytes, context: Mapping[str, str]) -> Secret:
    """Decrypt; raises `RefusedError` when the key, the context or a single bit is another one."""
    try:
        text = AESGCM(data_key).decrypt(envelope[:NONCE], envelope[NONCE:], _bound(context))
    except (InvalidTag, ValueError) as error:
        raise RefusedError("the stored secret does not belong to this connection") from error
    return Secret(**json.loads(text))


def _bound(context: Mapping[str, str]) -> bytes:
    return dumps(context, sort=True).encode()
