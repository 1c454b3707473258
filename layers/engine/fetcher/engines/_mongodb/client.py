"""Opening a driver's client from parts: the checked address, TLS for the name, and no URI that could carry a secret."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any

import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError, ServerSelectionTimeoutError

from fetcher.core.kinds import TLS_MODES
from fetcher.core.pem import check, memory_file
from fetcher.engines._tls import no_socket_left
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Secret

Client = MongoClient[dict[str, Any]]

PLAIN, CHECKED, UNCHECKED = frozenset({"disable", "false"}), frozenset({"true", "enable"}), frozenset({"insecure"})
MODES = TLS_MODES["MONGODB"]
PREFERENCES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 1.0
PATIENCE_MS = 200
"""How long to wait for the driver's own thread, which connects, before looking whether it has failed."""
LONGEST_NAME = 128
"""Bytes that a server takes of an application's name."""
ONE_HOST = frozenset("/,@?%")
"""Characters with which a host would be a list or a URI."""

ALONE: Mapping[str, Any] = {
    "maxPoolSize": 1,
    "retryReads": False,
    "retryWrites": False,
    "serverMonitoringMode": "poll",
    "heartbeatFrequencyMS": 3_600_000,
}
"""One socket for the session's life: the watchdog must know it, and a cursor lives and dies with it."""


@contextmanager
def opened(to: Connection, secret: Secret, *, seconds: float, application: str) -> Iterator[Client]:
    """Connect a client, and close it within a second at the end."""
    wait = max(1.0, min(CONNECT_SECONDS, seconds))
    with ExitStack() as files:
        client: Client = MongoClient(
            host=_host(to),
            port=to.port,
            connect=False,
            directConnection=direct(to),
            appname=seen_as(application),
            connectTimeoutMS=round(1000 * wait),
            serverSelectionTimeoutMS=PATIENCE_MS,
            socketTimeoutMS=max(1, round(1000 * seconds)),
            readPreference=_preference(to),
            **ALONE,
            **_login(to, secret),
            **_tls(to, secret, files),
        )
        _check_against(client, to.host)
    try:
        _connect(client, monotonic() + wait)
        yield client
    finally:
        with suppress(PyMongoError), pymongo.timeout(CLOSE_SECONDS):
            client.close()


def seen_as(application: str) -> str:
    """Return as much of an application's name as a server takes."""
    return application.encode()[:LONGEST_NAME].decode(errors="ignore")


def _connect(client: Client, until: float) -> None:
    """Wait for the first attempt to connect, and not for the driver's next ones when it has failed; then log in.

    The driver has no limit for the login on the session's own socket, which it opens for the first command.
    """
    while not _is_found(client, until):
        pass
    with pymongo.timeout(max(0.001, until - monotonic())):
        client.admin.command("ping")


def _is_found(client: Client, until: float) -> bool:
    try:
        return client.address is not None
    except ServerSelectionTimeoutError:
        servers = client.topology_description.server_descriptions().values()
        if monotonic() >= until or any(server.error for server in servers):
            raise
        return False


def direct(to: Connection) -> bool:
    """A checked address is the only one connected to; without one, a replica set may be looked for on request."""
    return to.address is not None or to.options.get("directConnection", "true") != "false"


def descriptor(client: Client) -> int:
    """Find the session's one socket, for which the driver has no public way."""
    address = client.address
    server = client._topology.get_server_by_address(address) if address else None  # noqa: SLF001 - see above
    if server is None or not server.pool.conns:
        raise PyMongoError("the connection is gone")
    return server.pool.conns[0].conn.fileno()


def _host(to: Connection) -> str:
    host = to.address or to.host
    if ONE_HOST & set(host):
        raise InvalidRequestError("a MongoDB connection names one host, not a list or a URI")
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _login(to: Connection, secret: Secret) -> Mapping[str, Any]:
    if not to.user:
        return {}
    source = to.options.get("authSource") or "admin"
    return {"username": to.user, "password": secret.password, "authSource": source}


def _preference(to: Connection) -> str:
    preference = to.options.get("readPreference") or "primary"
    if preference not in PREFERENCES:
        raise InvalidRequestError(f"unknown read preference {preference!r}; known: {', '.join(PREFERENCES)}")
    return preference


def _tls(to: Connection, secret: Secret, files: ExitStack) -> Mapping[str, Any]:
    mode = to.tls_mode or "disable"
    if mode not in MODES:
        raise InvalidRequestError(f"unknown TLS mode {mode!r} for MongoDB; known: {', '.join(MODES)}")
    if mode in PLAIN:
        return {"tls": False}
    check(secret)
    certificate = "\n".join(filter(None, (secret.tls_key, secret.tls_certificate)))
    texts = {"tlsCAFile": secret.tls_ca if mode in CHECKED else None, "tlsCertificateKeyFile": certificate}
    named = {name: memory_file(text, files) for name, text in texts.items() if text}
    return {"tls": True, "tlsInsecure": mode in UNCHECKED, **named}


def _check_against(client: Client, name: str) -> None:
    """Let the certificate be one for the name, where the driver would take the address that it connects to."""
    context: Any = client.options.pool_options._ssl_context  # noqa: SLF001 - the driver takes no context of ours
    if context is not None:
        wrap = context.wrap_socket

        def wrapped(sock: Any, **options: Any) -> Any:
            with no_socket_left():
                return wrap(sock, **{**options, "server_hostname": name})

        context.wrap_socket = wrapped
