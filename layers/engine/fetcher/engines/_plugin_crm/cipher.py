"""Encrypted values of rows in the clear.

    base64( nonce (12 bytes) | ciphertext | tag (16 bytes) )      AES-GCM, no additional data

Every value that does not open ends the read: a row without it, or with its ciphertext, would be a wrong one.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fetcher.engines._plugin_crm.fields import Path
from fetcher.errors import RefusedError, Where

NONCE, TAG = 12, 16

NO_KEY = "the operator has set no encryption key for plugin_crm"
NOT_OPENED = "a stored value cannot be decrypted: it was encrypted with another key, or it is damaged"


def opener(places: Mapping[str, tuple[Path, ...]], key: str | None) -> Callable[[bytes], bytes]:
    """Return what opens the encrypted values at these places of a page's rows; all else keeps its own text.

    `key` is hex. Raises `RefusedError`, here without a key and there for a value that does not open; it names
    the field and never the value.
    """
    paths = [(name, *path) for name, rest in places.items() for path in rest]
    if not paths:
        return lambda body: body
    if key is None:
        raise RefusedError(NO_KEY, where=Where(field=".".join(paths[0])))
    cipher = AESGCM(bytes.fromhex(key))

    def opened(body: bytes) -> bytes:
        rows = orjson.loads(b"[%b]" % body)
        for path in paths:
            _walk(rows, path, partial(_text, cipher, path))
        return orjson.dumps(rows)[1:-1]

    return opened


def _walk(value: Any, path: Path, open_text: Callable[[str], str]) -> Any:
    """Replace the texts at a path, through lists as MongoDB's own paths do, and return what stands there now."""
    if isinstance(value, list):
        value[:] = [_walk(each, path, open_text) for each in value]
    elif not path:
        return open_text(value) if isinstance(value, str) and value else value
    elif isinstance(value, dict) and path[0] in value:
        value[path[0]] = _walk(value[path[0]], path[1:], open_text)
    return value


def _text(cipher: AESGCM, path: Path, value: str) -> str:
    """Open one value. The causes are dropped: they could quote what was opened."""
    try:
        sealed = b64decode(value, validate=True)
        if len(sealed) < NONCE + TAG:
            raise ValueError("too short to hold a nonce and a tag")
        return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], None).decode()
    except (InvalidTag, ValueError):
        raise RefusedError(NOT_OPENED, where=Where(field=".".join(path))) from None
