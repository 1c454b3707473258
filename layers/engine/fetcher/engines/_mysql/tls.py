"""TLS by the four modes of MySQL, doing what they say, with certificates given as text."""

import ssl
from contextlib import ExitStack

from fetcher.core.pem import identify, memory_file, readable
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Secret

MODES = ("false", "true", "skip-verify", "preferred")


def contexts(to: Connection, secret: Secret) -> tuple[ssl.SSLContext | None, ...]:
    """Return what to try in turn; None is clear text, and only tried where the mode allows it.

    `true` verifies the certificate and the host's name, against `ca` or else the system's authorities.
    `preferred` falls back when the server offers no TLS, and like `skip-verify` trusts any certificate.
    """
    match to.tls_mode or "false":
        case "false":
            return (None,)
        case "true":
            return (_context(secret, verified=True),)
        case "skip-verify":
            return (_context(secret, verified=False),)
        case "preferred":
            return (_context(secret, verified=False), None)
        case mode:
            raise InvalidRequestError(f"unknown TLS mode {mode!r} for MySQL; known: {', '.join(MODES)}")


def _context(secret: Secret, *, verified: bool) -> ssl.SSLContext:
    with readable():
        with ExitStack() as files:
            context = ssl.create_default_context(cafile=memory_file(secret.tls_ca, files) if secret.tls_ca else None)
        # The certificates that MySQL makes for itself lack what Python 3.13 began to insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if secret.tls_certificate:
            identify(context, secret.tls_certificate, secret.tls_key or "")
    return context
