"""TLS by the modes that the API names, doing what they say, with certificates given as text and no wallet."""

import ssl
from typing import Any

from fetcher.core.pem import identify, readable, trust
from fetcher.engines._tls import no_socket_left
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Secret

CLEAR = ("disable", "false")
VERIFIED = ("true", "enable", "verify")
UNVERIFIED = ("skip-verify",)
MODES = (*CLEAR, *VERIFIED, *UNVERIFIED)


class Context(ssl.SSLContext):
    """A context that checks the host's own name, although the driver connects to an address.

    The driver switches the check of the name off and makes its own afterwards, against what it connected to.
    """

    host = ""
    verified = True

    def wrap_socket(self, sock: Any, *_arguments: Any, **_options: Any) -> ssl.SSLSocket:
        """Greet the server, and check who it is before a byte of the login is sent."""
        self.check_hostname = self.verified
        with no_socket_left():
            return super().wrap_socket(sock, server_hostname=self.host)


def context(to: Connection, secret: Secret) -> Context | None:
    """Return the context of the connection's mode; None is clear text."""
    mode = to.tls_mode or "disable"
    if mode not in MODES:
        raise InvalidRequestError(f"unknown TLS mode {mode!r} for Oracle; known: {', '.join(MODES)}")
    return None if mode in CLEAR else _context(to.host, secret, verified=mode in VERIFIED)


def _context(host: str, secret: Secret, *, verified: bool) -> Context:
    made = Context(ssl.PROTOCOL_TLS_CLIENT)
    made.host, made.verified = host, verified
    with readable():
        if not verified:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        elif secret.tls_ca:
            trust(made, secret.tls_ca)
        else:
            made.load_default_certs()
        if secret.tls_certificate:
            identify(made, secret.tls_certificate, secret.tls_key or "")
    return made
