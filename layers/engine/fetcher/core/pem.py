"""Certificates and keys as text in PEM form: what of them cannot be used, and files that exist only in memory.

No key ever reaches a disk. OpenSSL itself reads the texts, so what passes here is what drivers can read.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fetcher.errors import InvalidRequestError
from fetcher.model import Secret

WITHOUT_CLIENT_CERTIFICATES = frozenset({"SQL_SERVER"})
"""Kinds, by the API's names, whose driver takes no client certificate beside a user and password."""


def memory_file(text: str, stack: ExitStack) -> str:
    """Return the path of a file with this text, readable by this user alone, that lives as long as `stack`."""
    descriptor = os.memfd_create("tls")
    stack.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text.encode())
    return f"/proc/self/fd/{descriptor}"


def problems(
    kind: str, ca: str | None, certificate: str | None, key: str | None, *, key_elsewhere: bool = False
) -> Iterator[tuple[str, str]]:
    """Name each of `ca`, `cert` and `key` that no connection of this kind (the API's name) could use, and why.

    With `key_elsewhere` there is a key, which cannot be looked at now.
    """
    if ca and not _are_certificates(ca):
        yield "ca", "must be one or more certificates in PEM form"
    if kind in WITHOUT_CLIENT_CERTIFICATES:
        given = {"cert": certificate, "key": key or key_elsewhere}
        yield from (
            (name, f"cannot be used with {kind}, which knows clients by password") for name in given if given[name]
        )
    elif certificate and not _are_certificates(certificate):
        yield "cert", "must be a certificate in PEM form, with those between it and its authority behind it"
    elif certificate and not key_elsewhere:
        yield from (("key", problem) for problem in _key_problems(certificate, key or ""))
    elif not certificate and (key or key_elsewhere):
        yield "cert", "is missing: a key proves nothing without its certificate"


def check(secret: Secret) -> None:
    """Raise `InvalidRequestError` for texts that are none, before a driver says so in words of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with readable():
        if secret.tls_ca:
            trust(context, secret.tls_ca)
        if secret.tls_certificate:
            identify(context, secret.tls_certificate, secret.tls_key or "")


@contextmanager
def readable() -> Iterator[None]:
    """Raise `InvalidRequestError` for a text that the block cannot read as what it should be."""
    try:
        yield
    except (ssl.SSLError, ValueError) as error:
        raise InvalidRequestError("a TLS certificate or key of the connection cannot be read") from error


def trust(context: ssl.SSLContext, authorities: str) -> None:
    """Let a context trust these certificates. Raises what `ssl` raises for a text that is none.

    As a file they may stand in any text, as for other drivers; a string must be ASCII throughout.
    """
    with ExitStack() as stack:
        context.load_verify_locations(cafile=memory_file(authorities, stack))


def identify(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let a context show the client's certificate. Raises what `ssl` raises for a text that is none."""
    with ExitStack() as stack:
        # Without a password of our own OpenSSL would ask for one on a terminal.
        context.load_cert_chain(memory_file(f"{certificate}\n{key}", stack), password="")


def _are_certificates(text: str) -> bool:
    try:
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), text)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _key_problems(certificate: str, key: str) -> Iterator[str]:
    try:
        identify(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            yield "does not belong to the certificate"
        else:
            yield "must be a private key in PEM form that no password locks" if key else "is missing"
    except ValueError:
        yield "must be a private key in PEM form that no password locks"
