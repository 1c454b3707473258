"""Certificates and keys as drivers want them, in files that exist only in memory: no key ever reaches a disk."""

import os
import ssl
from contextlib import ExitStack

from fetcher.errors import InvalidRequestError
from fetcher.model import Secret


def memory_file(text: str, stack: ExitStack) -> str:
    """Return the path of a file with this text, readable by this user alone, that lives as long as `stack`."""
    descriptor = os.memfd_create("tls")
    stack.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text.encode())
    return f"/proc/self/fd/{descriptor}"


def check(secret: Secret) -> None:
    """Raise `InvalidRequestError` for texts that are none, before a driver says so in words of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if secret.tls_ca:
            context.load_verify_locations(cadata=secret.tls_ca)
        if secret.tls_certificate:
            identify(context, secret.tls_certificate, secret.tls_key or "")
    except (ssl.SSLError, ValueError) as error:
        raise InvalidRequestError("a TLS certificate or key of the connection cannot be read") from error


def identify(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let a context show the client's certificate. Raises what `ssl` raises for a text that is none."""
    with ExitStack() as stack:
        # Without a password of our own OpenSSL would ask for one on a terminal.
        context.load_cert_chain(memory_file(f"{certificate}\n{key}", stack), password="")
