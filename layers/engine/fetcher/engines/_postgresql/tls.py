"""TLS as libpq wants it: its own modes, and certificates as files that exist only in memory."""

import ssl
from collections.abc import Mapping
from contextlib import ExitStack

from fetcher.core.pem import check, memory_file
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Secret

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
FALLING_BACK = ("allow", "prefer")


def tls(to: Connection, secret: Secret, stack: ExitStack) -> Mapping[str, str]:
    """Return libpq's parameters; the files that they name live as long as `stack`.

    With an authority libpq verifies against it in every mode with TLS. That is documented for `require`, and right;
    `prefer` would go on in clear text when it fails, which is worse than a certificate that nobody looks at.
    """
    mode = to.tls_mode or "disable"
    if mode not in MODES:
        raise InvalidRequestError(f"unknown TLS mode {mode!r} for PostgreSQL; known: {', '.join(MODES)}")
    if mode == "disable":
        return {"sslmode": mode}
    check(secret)
    authority = None if mode in FALLING_BACK else secret.tls_ca
    texts = {"sslrootcert": authority, "sslcert": secret.tls_certificate, "sslkey": secret.tls_key}
    files = {name: memory_file(text, stack) for name, text in texts.items() if text}
    if mode.startswith("verify"):
        files.setdefault("sslrootcert", ssl.get_default_verify_paths().cafile or "system")
    return {"sslmode": mode, **files}
