"""TLS with MySQL by its four modes, against a server whose certificate an authority of the test's own has signed."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fetcher.engines.mysql import MySQLSession, connect
from fetcher.errors import FetcherError, InvalidRequestError, RefusedError
from fetcher.model import Connection, Query, Secret
from infra.local import mariadb
from infra.local.places import StackError
from tests.contract.kinds import Source

HOST = "db.example"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _signed("authority", key, key, authority=True))

    @property
    def pem(self) -> str:
        return _pem(self.certificate)

    def issued(self, name: str) -> tuple[str, str]:
        """Return the certificate of a host or a client, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        text = key.private_bytes(serialization.Encoding.PEM, *form).decode()
        return _pem(_signed(name, key, self.key, authority=False)), text


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.9"))]
    return (
        x509.CertificateBuilder(_name("authority"), _name(name), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


AUTHORITY, STRANGER = Authority.made(), Authority.made()


@dataclass(frozen=True, slots=True, repr=False)
class Guarded:
    """A server with TLS, reached at a pinned address under a name that only its certificate knows."""

    to: Connection
    secret: Secret


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    certificate, key = AUTHORITY.issued(HOST)
    texts = {"ssl-ca": AUTHORITY.pem, "ssl-cert": certificate, "ssl-key": key}
    with tempfile.TemporaryDirectory() as folder:
        settings = {name: _readable(Path(folder), name, text) for name, text in texts.items()}
        try:
            with mariadb.running(settings) as server:
                with server.connection() as connection, connection.cursor() as cursor:
                    cursor.execute("CREATE USER certified@'%' IDENTIFIED BY 'x' REQUIRE X509")
                    cursor.execute("CREATE TABLE numbers AS SELECT seq AS id, repeat('x', 500) b FROM seq_1_to_20000")
                to = Connection("tls", "mysql", HOST, server.port, server.database, server.user, address=server.host)
                yield Guarded(to, Secret(server.password, tls_ca=AUTHORITY.pem))
        except StackError as missing:
            pytest.skip(f"mysql: {missing}")


def _readable(folder: Path, name: str, text: str) -> str:
    """The server runs as somebody else, who may read only what everybody may."""
    folder.chmod(0o755)
    file = folder / name
    file.write_text(text)
    return str(file)


def opened(to: Connection, secret: Secret) -> AbstractContextManager[MySQLSession]:
    return connect(to, secret, seconds=20, application="tls")


def is_encrypted(session: MySQLSession) -> bool:
    with session._connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        ((_, cipher),) = cursor.fetchall()
    return bool(cipher)


@pytest.mark.parametrize(
    ("mode", "encrypted"),
    [(None, False), ("false", False), ("true", True), ("skip-verify", True), ("preferred", True)],
)
def test_a_mode_does_what_it_says(guarded: Guarded, mode: str | None, encrypted: bool) -> None:
    """R-000-100, B-34: and the pinned address is the one connected to, whatever the name."""
    with opened(replace(guarded.to, tls_mode=mode), guarded.secret) as session:
        assert is_encrypted(session) is encrypted


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        ("other.example", AUTHORITY),
        ("127.0.0.1", AUTHORITY),
        (HOST, STRANGER),
        (HOST, None),
    ],
    ids=["wrong name", "wrong address", "wrong authority", "the system's authorities"],
)
def test_true_verifies_the_certificate_and_the_hosts_name(
    guarded: Guarded, host: str, authority: Authority | None
) -> None:
    """The other modes that encrypt trust whatever they are shown."""
    to = replace(guarded.to, host=host, tls_mode="true")
    secret = replace(guarded.secret, tls_ca=authority.pem if authority else None)
    with pytest.raises(RefusedError, match="certificate"), opened(to, secret):
        pass
    with opened(replace(to, tls_mode="skip-verify"), secret) as session:
        assert is_encrypted(session)


def test_an_address_in_the_certificate_is_a_name_too(guarded: Guarded) -> None:
    to = replace(guarded.to, host="127.0.0.9", tls_mode="true")
    with opened(to, guarded.secret) as session:
        assert is_encrypted(session)


@pytest.mark.parametrize("mode", ["true", "skip-verify"])
def test_a_server_without_tls_is_refused(sources: Callable[[str], Source], mode: str) -> None:
    """R-000-100: never a silent fall back to clear text."""
    source = sources("mysql")
    with pytest.raises(RefusedError, match="TLS"), opened(replace(source.to, tls_mode=mode), source.secret):
        pass


def test_preferred_goes_on_in_clear_text_where_there_is_no_tls(sources: Callable[[str], Source]) -> None:
    source = sources("mysql")
    with opened(replace(source.to, tls_mode="preferred"), source.secret) as session:
        assert not is_encrypted(session)


def test_rows_come_whole_through_tls(guarded: Guarded) -> None:
    """And a read that is left half-way ends the session here as well."""
    with opened(replace(guarded.to, tls_mode="true"), guarded.secret) as session:
        table = session.discover(()).tables["numbers",]
        query = Query("numbers", table.path, table.columns)
        assert sum(page.rows for page in session.read(query, None)) == 20_000
        assert next(iter(session.read(query, None))).rows
        session.cancel()


def test_a_client_shows_its_certificate(guarded: Guarded) -> None:
    """B-34: certificate and key are used, and come as text."""
    certificate, key = AUTHORITY.issued("client")
    to = replace(guarded.to, user="certified", database="information_schema", tls_mode="true")
    plain = replace(guarded.secret, password="x")
    with opened(to, replace(plain, tls_certificate=certificate, tls_key=key)) as session:
        assert is_encrypted(session)
    with pytest.raises(RefusedError), opened(to, plain):
        pass
    certificate, key = STRANGER.issued("client")
    with pytest.raises(FetcherError), opened(to, replace(plain, tls_certificate=certificate, tls_key=key)):
        pass


@pytest.mark.parametrize(
    "secret",
    [
        Secret("x", tls_ca="no certificate"),
        Secret("x", tls_certificate="no certificate", tls_key="no key"),
        Secret("x", tls_certificate=AUTHORITY.pem, tls_key=STRANGER.issued("other")[1]),
    ],
    ids=["authority", "certificate", "key of another"],
)
def test_what_is_no_certificate_is_invalid(secret: Secret) -> None:
    to = Connection("tls", "mysql", HOST, 1, "d", "u", tls_mode="true")
    with pytest.raises(InvalidRequestError, match="TLS") as caught, opened(to, secret):
        pass
    assert caught.value.__cause__ is not None


def test_a_locked_key_is_invalid_and_asks_nobody_for_its_password() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"secret")
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked).decode()
    secret = Secret("x", tls_certificate=_pem(_signed("client", key, key, authority=False)), tls_key=text)
    to = Connection("tls", "mysql", HOST, 1, "d", "u", tls_mode="true")
    with pytest.raises(InvalidRequestError, match="TLS"), opened(to, secret):
        pass
