"""What a TLS handshake that failed means: real handshakes of OpenSSL, in memory, broken at any byte."""

import ssl
from contextlib import suppress
from random import Random

import pytest

from fetcher.engines._tls import is_refusal
from tests.certificates import Authority, Identity, server_context

HOST = "db.example"
AUTHORITY = Authority.made()
RIGHT = AUTHORITY.issued(HOST)
OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
STEP = 7
"""Every seventh byte: each is a handshake."""
SIGNATURE = "certificate signature failure"
"""What OpenSSL says of a certificate with other bytes in its signature, whoever put them there."""


def client_context(authority: Authority = AUTHORITY) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem)


class Handshake:
    """Two ends and the bytes between them; the client's ends in an error, or not at all."""

    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext) -> None:
        self.heard, self._said = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._asked, self._answer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.heard, self._said, server_hostname=HOST)
        self._server = server.wrap_bio(self._asked, self._answer, server_side=True)

    def answer(self) -> bytes:
        """Let each say what it can, and return what the server says."""
        with suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        self._asked.write(self._said.read())
        with suppress(ssl.SSLError):
            self._server.do_handshake()
        return self._answer.read()

    def error(self) -> ssl.SSLError | None:
        """Hand everything on until there is no more."""
        try:
            while answer := self.answer():
                self.heard.write(answer)
            self.client.read()
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            return error
        return None


def garbled(version: ssl.TLSVersion, at: int) -> ssl.SSLError | None:
    """Put garbage in place of what the server says from this byte of its first answer on; None behind its end."""
    server = server_context(RIGHT)
    server.maximum_version = version
    shaken = Handshake(client_context(), server)
    answer = shaken.answer()
    if at >= len(answer):
        return None
    shaken.heard.write(answer[:at] + Random(at).randbytes(4096))
    shaken.heard.write_eof()
    with pytest.raises(ssl.SSLError) as caught:
        shaken.client.do_handshake()
    return caught.value


@pytest.mark.parametrize("version", [OLD, NEW])
def test_garbage_in_a_handshake_is_no_refusal(version: ssl.TLSVersion) -> None:
    """R-002-59: wherever it begins. One place looks like another's certificate, and only where that goes in clear."""
    at, refusals = 0, []
    while (error := garbled(version, at)) is not None:
        if is_refusal(error):
            refusals.append(getattr(error, "verify_message", error.reason))
        at += STEP
    assert at > 500
    assert set(refusals) == ({SIGNATURE} if version is OLD else set())


def refused_by(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    error = Handshake(client, server).error()
    return error is not None and is_refusal(error)


def test_what_one_side_will_not_have_is_a_refusal() -> None:
    """R-000-100: it will be refused again; and a handshake that both want is none."""
    assert not refused_by(client_context(), server_context(RIGHT))
    for other in (AUTHORITY.issued("other.example"), AUTHORITY.issued(HOST, expired=True), stranger()):
        assert refused_by(client_context(), server_context(other))
    assert refused_by(client_context(), server_context(RIGHT, AUTHORITY, required=True))
    new, old = server_context(RIGHT), client_context()
    new.minimum_version, old.maximum_version = NEW, OLD
    assert refused_by(old, new)
    new, old = client_context(), server_context(RIGHT)
    new.minimum_version, old.maximum_version = NEW, OLD
    assert refused_by(new, old)


def stranger() -> Identity:
    return Authority.made().issued(HOST)


@pytest.mark.parametrize(
    ("reason", "refusal"),
    [
        ("TLSV1_ALERT_INTERNAL_ERROR", False),
        ("SSLV3_ALERT_BAD_RECORD_MAC", False),
        ("TLSV1_ALERT_DECODE_ERROR", False),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", True),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("TLSV1_UNRECOGNIZED_NAME", True),
        ("UNSUPPORTED_PROTOCOL", True),
        ("WRONG_VERSION_NUMBER", False),
        ("UNEXPECTED_EOF_WHILE_READING", False),
        (None, False),
    ],
)
def test_a_reason_is_a_refusal_or_a_broken_wire(reason: str | None, refusal: bool) -> None:
    """RFC 8446 §6.2: an alert is the server's own word, and some of them say that it could not read us."""
    error = ssl.SSLError(1, "words")
    vars(error)["reason"] = reason  # some of OpenSSL's have no name in Python
    assert is_refusal(error) is refusal
