"""What TLS means on MongoDB, by the stand-in's certificates, and what a wire that breaks inside it does."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from fetcher.engines import engine
from fetcher.engines._mongodb import client
from fetcher.engines._mongodb.errors import refused
from fetcher.errors import FetcherError, RefusedError, UnavailableError
from fetcher.model import Connection, Secret
from infra.local import secantus
from tests.certificates import Authority
from tests.contract.kinds import Source
from tests.contract.serving import served as serving
from tests.contract.test_mongodb_faults import connected
from tests.faultproxy import RESET, Fault, faulty


@pytest.fixture(scope="module")
def served(sources: Callable[[str], Source]) -> Source:
    return sources("mongodb")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.made()


@pytest.fixture(scope="module")
def encrypted(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A server that wants a client's certificate, known as `db.example`."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = authority.issued("db.example")
    for name, text in (("cert", certificate), ("key", key), ("ca", authority.pem)):
        (folder / name).write_text(text)
    options = [f"--tls-{name}-file={folder / name}" for name in ("cert", "key", "ca")]
    with secantus.running([*options, "--tls-require-client-cert"], tls=True) as server:
        _insert_one(server, folder / "client", authority)
        to = Connection("tls", "mongodb", "db.example", server.port, server.database, server.user, address="127.0.0.1")
        yield replace(to, options={"password": server.password})


def _insert_one(server: secantus.Server, file: Path, authority: Authority) -> None:
    """A database exists from its first document on."""
    file.write_text("\n".join(authority.issued("client")))
    with MongoClient[dict[str, Any]](
        server.host,
        server.port,
        username=server.user,
        password=server.password,
        tls=True,
        tlsInsecure=True,
        tlsCertificateKeyFile=str(file),
        directConnection=True,
    ) as writer:
        writer[server.database]["one"].insert_one({})


def attempt(to: Connection, mode: str, **secrets: str) -> None:
    secret = Secret(to.options["password"], **secrets)
    with engine("mongodb").connect(replace(to, tls_mode=mode), secret, seconds=10, application="tls") as session:
        session.discover(["none"])


def client_of(authority: Authority) -> dict[str, str]:
    certificate, key = authority.issued("client")
    return {"tls_certificate": certificate, "tls_key": key}


@pytest.mark.parametrize("mode", ["true", "enable"])
def test_tls_is_checked_against_the_name_though_the_address_is_pinned(
    encrypted: Connection, authority: Authority, mode: str
) -> None:
    """R-000-99, B-34: connect to the checked address, trust the certificate of the name."""
    attempt(encrypted, mode, tls_ca=authority.pem, **client_of(authority))
    with pytest.raises(RefusedError, match="certificate"):
        attempt(replace(encrypted, host="other.example"), mode, tls_ca=authority.pem, **client_of(authority))


def test_an_unknown_authority_is_refused_unless_the_mode_says_insecure(
    encrypted: Connection, authority: Authority
) -> None:
    for authorities in ({}, {"tls_ca": Authority.made().pem}):
        with pytest.raises(RefusedError, match="certificate"):
            attempt(encrypted, "true", **authorities, **client_of(authority))
    attempt(encrypted, "insecure", **client_of(authority))


def test_a_client_without_a_certificate_does_not_get_in(encrypted: Connection, authority: Authority) -> None:
    with pytest.raises((RefusedError, UnavailableError)):
        attempt(encrypted, "true", tls_ca=authority.pem)


@pytest.mark.parametrize("mode", ["true", "insecure"])
@pytest.mark.parametrize("hangs_up", [b"", RESET], ids=["ends", "resets"])
def test_a_server_that_hangs_up_on_a_greeting_of_tls_may_be_tried_again(
    served: Source, mode: str, hangs_up: bytes
) -> None:
    """R-000-100, R-002-59: never a silent fall back to clear text. MongoDB without TLS hangs up on what it cannot read,
    and so does a wire that breaks; the words say both.
    """

    def hang_up(wire: socket.socket) -> None:
        wire.recv(16)
        if hangs_up:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hangs_up)

    with serving(hang_up) as port:
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="it may not offer TLS"):
            connected(replace(served.to, port=port, tls_mode=mode), served.secret)
        assert time.monotonic() - began < 5


def test_an_answer_that_is_no_tls_may_be_tried_again(served: Source) -> None:
    """R-002-59, R-000-100: another server on this port says so, and so does garbage; never a fall back to clear."""
    with (
        serving(lambda wire: wire.sendall(wire.recv(16) and b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port,
        pytest.raises(UnavailableError, match="was not TLS; it may not offer it"),
    ):
        connected(replace(served.to, port=port, tls_mode="true"), served.secret)


@pytest.mark.parametrize("after", [0, 3, 100, 1000])
@pytest.mark.parametrize("fault", ["rst", "fin", "half", "stall"])
def test_a_wire_that_breaks_in_the_handshake_may_be_tried_again(
    encrypted: Connection, authority: Authority, monkeypatch: pytest.MonkeyPatch, fault: Fault, after: int
) -> None:
    """R-002-59, R-002-63: before the server's first byte, and inside its first record and its certificate."""
    monkeypatch.setattr(client, "CONNECT_SECONDS", 1.0)
    with faulty("127.0.0.1", encrypted.port, fault, after) as proxy:
        with pytest.raises(UnavailableError):
            attempt(replace(encrypted, port=proxy.port), "true", tls_ca=authority.pem, **client_of(authority))
        assert proxy.broken.is_set()


@pytest.mark.parametrize("fault", ["rst", "fin", "half", "garbage"])
def test_a_wire_that_breaks_inside_tls_may_be_tried_again(
    encrypted: Connection, authority: Authority, fault: Fault
) -> None:
    """R-002-63: what comes then is no record of TLS, or the end of the wire in the middle of one."""
    secret = Secret(encrypted.options["password"], tls_ca=authority.pem, **client_of(authority))
    with faulty("127.0.0.1", encrypted.port) as proxy:
        to = replace(encrypted, port=proxy.port, tls_mode="true")
        with engine("mongodb").connect(to, secret, seconds=10, application="tls") as session:
            proxy.fault, proxy.after = fault, 50
            with pytest.raises(UnavailableError):
                session.discover(["one"])
        assert proxy.broken.is_set()


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", RefusedError),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", RefusedError),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate", RefusedError),
        ("[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version", RefusedError),
        ("[SSL: TLSV1_UNRECOGNIZED_NAME] tlsv1 unrecognized name", RefusedError),
        ("[SSL: UNSUPPORTED_PROTOCOL] unsupported protocol", RefusedError),
        ("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error", UnavailableError),
        ("[SSL: SSLV3_ALERT_BAD_RECORD_MAC] sslv3 alert bad record mac", UnavailableError),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", UnavailableError),
        ("[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed or bad record mac", UnavailableError),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol", UnavailableError),
        ("TLS/SSL connection has been closed (EOF)", UnavailableError),
        ("[Errno 104] Connection reset by peer", UnavailableError),
        ("[Errno 32] Broken pipe", UnavailableError),
        ("The handshake operation timed out", UnavailableError),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "certificate", "alert-eof.example"])
def test_what_tls_says_has_its_class_and_no_name_of_a_host_does(
    said: str, family: type[FetcherError], host: str
) -> None:
    """Python's `ssl` and OpenSSL, their words, behind those of the driver."""
    assert type(refused(AutoReconnect(f"SSL handshake failed: {host}:27017: {said} (_ssl.c:1000)"))) is family
    assert type(refused(AutoReconnect(f"{host}:27017: [Errno 111] Connection refused"))) is UnavailableError
