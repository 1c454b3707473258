"""The connection string, made of parts: what each one holds stays inside its braces."""

from collections.abc import Mapping

from fetcher.engines._sqlserver import driver
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Secret

ENCRYPT: Mapping[str, str] = {"disable": "no", "false": "no", "true": "yes", "strict": "strict"}
"""With `no` the login packet alone is encrypted, where the server can; `strict` is TDS 8, TLS before anything else."""

LONGEST = 128
"""UTF-16 units of a login's name or password (MS-TDS 2.2.6.4); of more the driver says that no server is in reach."""
FIXED: Mapping[str, str] = {
    "TrustServerCertificate": "no",
    "ConnectRetryCount": "0",  # the driver would go on after a cut wire in a new session, without its snapshot
    "MARS_Connection": "no",
    "Regional": "no",
}


def connection_string(to: Connection, secret: Secret, application: str) -> str:
    """Name the checked address to connect to, and the host for the certificate."""
    mode = to.tls_mode or "disable"
    if mode not in ENCRYPT:
        raise InvalidRequestError(f"unknown TLS mode {mode!r} for SQL Server; known: {', '.join(ENCRYPT)}")
    if secret.tls_certificate or secret.tls_key:
        raise InvalidRequestError("SQL Server takes no client certificate with a user and password")
    given = {"user": to.user, "password": secret.password, "database": to.database}
    if too_long := [what for what, text in given.items() if len(_utf16(text)) > 2 * LONGEST]:
        raise InvalidRequestError(f"SQL Server takes a {too_long[0]} of at most {LONGEST} characters")
    parts = {
        "DRIVER": driver.name(),
        "SERVER": f"tcp:{to.address or to.host},{to.port}",
        "DATABASE": to.database,
        "UID": to.user,
        "PWD": secret.password,
        "APP": _utf16(application)[: 2 * LONGEST].decode("utf-16-le", "ignore"),
        "Encrypt": ENCRYPT[mode],
        **({"HostnameInCertificate": to.host} if to.address else {}),
        **FIXED,
    }
    return ";".join(f"{name}={_braced(value)}" for name, value in parts.items())


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _braced(value: str) -> str:
    if "\0" in value:
        raise InvalidRequestError("a NUL character is no part of an address or credential")
    return "{" + value.replace("}", "}}") + "}"
