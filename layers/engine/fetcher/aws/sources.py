"""Opening a registered connection: guard the host, unseal the secret, dial the checked address."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fetcher import engines
from fetcher.aws.connections import Stored
from fetcher.aws.secrets import Vault
from fetcher.core import hosts
from fetcher.ports import Session
from fetcher.settings import Settings


class Sources:
    """Opens sessions for stored connections. The guard runs here, in submit and in extract alike."""

    def __init__(self, vault: Vault, settings: Settings) -> None:
        self._vault = vault
        self._settings = settings

    @contextmanager
    def open(self, stored: Stored, *, seconds: float, application: str) -> Iterator[Session]:
        """Open a session for at most `seconds`. Raises the errors of the guard and of the engine."""
        address = hosts.checked_address(
            stored.connection.host,
            self._settings.allowed_networks,
            loopback_allowed=self._settings.local,
        )
        secret = self._vault.open(stored.tenant, stored.id, stored.secret)
        to = replace(stored.connection, address=address)
        with engines.engine(to.kind).connect(to, secret, seconds=seconds, application=application) as session:
            yield session
