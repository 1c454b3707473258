"""A certificate authority of a test run's own, strict enough for every client and server here."""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS = "127.0.0.9"
"""Every certificate is one of this address too."""

Identity = tuple[str, str]
"""A certificate and its key, as PEM."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls) -> "Authority":
        """Make one that signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _signed("authority", key, key, authority=True))

    @property
    def pem(self) -> str:
        """Its certificate."""
        return _pem(self.certificate)

    def issued(self, name: str, *, expired: bool = False, password: bytes | None = None) -> Identity:
        """Return the certificate of a host or a client, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock).decode()
        return _pem(_signed(name, key, self.key, authority=False, expired=expired)), text


def identified(context: ssl.SSLContext, identity: Identity) -> None:
    """Let a context show this certificate from its next handshake on."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write("\n".join(identity))
        file.flush()
        context.load_cert_chain(file.name)


def server_context(identity: Identity, clients: Authority | None = None, *, required: bool = False) -> ssl.SSLContext:
    """Make a server's context that asks for certificates of this authority's clients, if one is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if clients:
        context.load_verify_locations(cadata=clients.pem)
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    identified(context, identity)
    return context


def written(folder: Path, **texts: str) -> dict[str, str]:
    """Write PEMs where a server that runs as somebody else can read them; return their paths by name."""
    folder.chmod(0o755)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
    expired: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName(name), x509.IPAddress(ip_address(ADDRESS))]
    usage = x509.KeyUsage(True, False, False, False, False, authority, authority, False, False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder(_name("authority"), _name(name), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + timedelta(hours=-1 if expired else 1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer, critical=False)
        .sign(signer, hashes.SHA256())
    )
