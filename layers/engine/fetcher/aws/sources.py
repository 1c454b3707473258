"""Opening a connection: guard the host, get at the secret, dial the checked address."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from fetcher import engines
from fetcher.aws.clients import client
from fetcher.aws.secrets import References, Vault
from fetcher.aws.stored import Stored
from fetcher.core import hosts
from fetcher.errors import RefusedError
from fetcher.model import Connection, Secret
from fetcher.ports import Session
from fetcher.settings import Settings


class Sources:
    """Opens sessions for stored connections. The guard runs here, in submit and in extract alike."""

    def __init__(self, vault: Vault, settings: Settings, references: References | None = None) -> None:
        self._vault = vault
        self._settings = settings
        self._references = references or References(lambda: client("secretsmanager"))

    @contextmanager
    def open(self, stored: Stored, *, seconds: float, application: str) -> Iterator[Session]:
        """Open a session for at most `seconds`. Raises the errors of the guard and of the engine."""
        to = replace(stored.connection, address=self._address(stored))
        with ExitStack() as stack:
            yield self._session(stack, stored, to, seconds, application)

    def secret(self, stored: Stored, *, fresh: bool = False) -> Secret:
        """Return what opens a connection; `fresh` asks Secrets Manager again."""
        secret = stored.secret
        if not isinstance(secret, Secret):
            secret = self._vault.open(stored.tenant, stored.id, secret)
        fetched = {
            name: self._references.value(stored.tenant, reference, fresh=fresh)
            for name, reference in stored.references.items()
        }
        return replace(secret, **fetched)

    def _address(self, stored: Stored) -> str:
        """Check the host. What the operator set may be in a private network, and nowhere else that is refused."""
        allowed = self._settings.allowed_networks
        networks = (*allowed, *hosts.BY_PERMISSION) if stored.internal else allowed
        return hosts.checked_address(stored.connection.host, networks, loopback_allowed=self._settings.local)

    def _session(self, stack: ExitStack, stored: Stored, to: Connection, seconds: float, application: str) -> Session:
        """Connect; a login that is refused is tried once more if its secret was rotated meanwhile."""
        connect = engines.engine(to.kind).connect
        secret = self.secret(stored)
        try:
            return stack.enter_context(connect(to, secret, seconds=seconds, application=application))
        except RefusedError:
            rotated = self.secret(stored, fresh=True) if stored.references else secret
            if rotated == secret:
                raise
        return stack.enter_context(connect(to, rotated, seconds=seconds, application=application))
