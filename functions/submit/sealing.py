"""From a checked body to a stored connection, and back to the document that a patch changes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fetcher import engines
from fetcher.aws.secrets import Reference, Sealed, reference_problem
from fetcher.aws.stored import Stored
from fetcher.core import hosts, pem
from fetcher.core.canonical import dumps, strict_loads
from fetcher.core.kinds import API_KINDS, API_NAMES
from fetcher.errors import InvalidRequestError, Problem, UnavailableError
from fetcher.model import Connection, Secret
from submit.connection_bodies import ConnectionBody, SecretReference
from submit.services import Services

_MEMBERS = {"/password": "password", "/ssl/key": "tls_key"}
"""Where a reference stands in a body, and what it is of the secret."""


def check(services: Services, tenant: str, body: ConnectionBody) -> None:
    """The rules that need more than one member, or more than the body."""
    if problem := body.tls_problem():
        raise _refused("FET-0413", "/ssl/mode", problem)
    if API_KINDS[body.type] not in engines.kinds():
        raise _refused("FET-0001", "/type", f"type: this deployment has no engine for {body.type}")
    for path, given in body.references().items():
        if problem := reference_problem(tenant, _reference(given)):
            raise _refused("FET-0001", f"{path}/secretId", f"secretId {problem}")
    if problems := tuple(_pem_problems(body)):
        raise InvalidRequestError("; ".join(problem.detail for problem in problems), problems=problems)
    try:
        settings = services.settings
        hosts.checked_address(body.host, settings.allowed_networks, loopback_allowed=settings.local)
    except UnavailableError:
        return  # a name that does not resolve yet may do so later; every use checks again


def _pem_problems(body: ConnectionBody) -> Iterator[Problem]:
    if body.ssl is None:
        return
    secret, elsewhere = _secret(body), isinstance(body.ssl.key, SecretReference)
    texts = (secret.tls_ca, secret.tls_certificate, secret.tls_key)
    for member, problem in pem.problems(body.type, *texts, key_elsewhere=elsewhere):
        yield Problem(f"/ssl/{member}", f"ssl.{member} {problem}")


def sealed(services: Services, at: Stored, body: ConnectionBody) -> Stored:
    """Put the body into a connection: the id, the product and the times are those of `at`."""
    return replace(
        at,
        connection=_connection(body),
        secret=services.vault.seal(at.tenant, at.id, _secret(body)),
        metadata=dumps(body.metadata) if body.metadata else "",
        references={_MEMBERS[path]: _reference(given) for path, given in body.references().items()},
        max_workers=body.max_workers,
    )


def new(tenant: str, identity: str, product: str, body: ConnectionBody, now: str) -> Stored:
    """Return a connection of this identity that `sealed` completes."""
    return Stored(
        tenant=tenant,
        id=identity,
        product=product,
        connection=_connection(body),
        secret=Sealed("", ""),
        metadata="",
        created_at=now,
        updated_at=now,
    )


def document(services: Services, stored: Stored) -> dict[str, Any]:
    """Return the body that would register this connection, its secret included: what a patch is merged into."""
    to = stored.connection
    secret = services.vault.open(stored.tenant, stored.id, stored.secret) if isinstance(stored.secret, Sealed) else None
    if secret is None:
        raise TypeError("an internal datasource has no document")
    kept = {name: {"secretId": one.secret_id, "field": one.field} for name, one in stored.references.items()}
    tls = {
        "mode": to.tls_mode,
        "ca": secret.tls_ca,
        "cert": secret.tls_certificate,
        "key": kept.get("tls_key", secret.tls_key),
    }
    whole = {
        "configName": to.name,
        "type": API_NAMES[to.kind],
        "host": to.host,
        "port": to.port,
        "databaseName": to.database,
        "userName": to.user,
        "password": kept.get("password", secret.password),
        "schema": to.schema,
        "ssl": _present(tls) if to.tls_mode is not None else None,
        "limits": {"maxWorkers": stored.max_workers} if stored.max_workers is not None else None,
        "metadata": strict_loads(stored.metadata) if stored.metadata else None,
    }
    return _present(whole)


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _connection(body: ConnectionBody) -> Connection:
    options = {name: value for name, value in (body.metadata or {}).items() if isinstance(value, str)}
    return Connection(
        name=body.configName,
        kind=API_KINDS[body.type],
        host=body.host,
        port=body.port,
        database=body.databaseName,
        user=body.userName,
        schema=body.schema_,
        tls_mode=body.ssl.mode if body.ssl else None,
        options=options,
    )


def _secret(body: ConnectionBody) -> Secret:
    """What is sealed: a member that Secrets Manager holds is not in it."""
    tls = body.ssl
    key = tls.key if tls else None
    return Secret(
        password=body.password if isinstance(body.password, str) else "",
        tls_ca=tls.ca if tls else None,
        tls_certificate=tls.cert if tls else None,
        tls_key=key if isinstance(key, str) else None,
    )


def _reference(given: SecretReference) -> Reference:
    return Reference(given.secretId, given.field)


def _refused(code: str, pointer: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, code=code, problems=(Problem(pointer, detail),))
