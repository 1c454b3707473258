"""Datasources of the operator: `DATASOURCE_<N>_*`, from the environment or a secret (`operated`).

They belong to no product, cannot be changed through the API, and their hosts may be private; the rest is
as for any connection. Each has an id that is stable: a UUID of the tenant and the name.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID, uuid5

from fetcher import engines
from fetcher.aws.secrets import Reference, reference_problem
from fetcher.aws.stored import Stored
from fetcher.core import pem
from fetcher.core.canonical import dumps
from fetcher.core.kinds import API_KINDS, CONFIG_NAME, PLUGIN_CRM, PORTS, tls_problem
from fetcher.core.tenants import DEFAULT_TENANT, TENANT
from fetcher.model import Connection, Secret

NAMESPACE = UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")

_VARIABLE = re.compile(r"DATASOURCE_([A-Za-z0-9]+)_([A-Z_]+)")
_NEEDED = ("CONFIG_NAME", "TYPE", "HOST", "DATABASE", "USER")
_OTHERS = ("TENANT", "PORT", "SCHEMA", "PASSWORD", "SECRET_ID", "SECRET_FIELD", "OPTIONS", "SSLMODE")
_MEMBERS = {*_NEEDED, *_OTHERS, "SSL_CA", "SSL_CERT", "SSL_KEY"}

KEYS: Mapping[str, str] = {
    "HASH_KEY": "CRYPTO_HASH_SECRET_KEY_PLUGIN_CRM",
    "ENCRYPTION_KEY": "CRYPTO_ENCRYPT_SECRET_KEY_PLUGIN_CRM",
}
"""Of `plugin_crm` alone: its own variables, and those of the public system for all that have none."""
_AES_KEY = re.compile(r"([0-9A-Fa-f]{32}|[0-9A-Fa-f]{48}|[0-9A-Fa-f]{64})")


class _Unusable(Exception):  # noqa: N818 - becomes a line of `problems`
    """Names the variable that cannot be used; never its value."""


@dataclass(frozen=True, slots=True)
class Internals:
    """The operator's datasources; `problems` names the variables that cannot be used.

    Not `complete`: there may be more of them, of names that nobody knows now.
    """

    found: Mapping[tuple[str, str], Stored] = field(default_factory=dict)
    broken: frozenset[tuple[str, str]] = frozenset()
    problems: tuple[str, ...] = ()
    complete: bool = True

    def get(self, tenant: str, connection_id: str) -> Stored | None:
        """Find one by its id."""
        return next((one for one in self.of(tenant) if one.id == connection_id), None)

    def named(self, tenant: str, name: str) -> Stored | None:
        """Find one by its name."""
        return self.found.get((tenant, name))

    def of(self, tenant: str) -> list[Stored]:
        """Return the tenant's, by name."""
        return [self.found[where] for where in sorted(self.found) if where[0] == tenant]

    def reserves(self, tenant: str, name: str) -> bool:
        """Whether the name is the operator's, even if its variables cannot be used."""
        return (tenant, name) in self.found or (tenant, name) in self.broken


def read(env: Mapping[str, Any]) -> Internals:
    """Read every datasource; a bad variable, also one that is no text, costs its own datasource and no other."""
    found: dict[tuple[str, str], Stored] = {}
    broken: set[tuple[str, str]] = set()
    problems: list[str] = []
    for number, members in sorted(_grouped(env).items()):
        where = (str(members.get("TENANT") or DEFAULT_TENANT), str(members.get("CONFIG_NAME", "")))
        try:
            _check_texts(number, members)
            stored = _datasource(number, members, env)
            _check_only(number, where, {*found, *broken})
            found[where] = stored
        except _Unusable as unusable:
            problems.append(str(unusable))
            if where not in found:
                broken.add(where)
    return Internals(MappingProxyType(found), frozenset(broken), tuple(problems))


def is_variable(name: str) -> bool:
    """Whether a name is one that is read here."""
    return _VARIABLE.fullmatch(name) is not None or name in KEYS.values()


def identity(tenant: str, name: str) -> str:
    """Return the id: a UUIDv5; the default tenant is the empty one there."""
    return str(uuid5(NAMESPACE, f"{'' if tenant == DEFAULT_TENANT else tenant}/{name}"))


def _grouped(env: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    grouped: dict[str, dict[str, Any]] = {}
    for variable, value in env.items():
        matched = _VARIABLE.fullmatch(variable)
        if matched and value != "":
            grouped.setdefault(matched[1], {})[matched[2]] = value
    return grouped


def _check_texts(number: str, members: Mapping[str, Any]) -> None:
    """Raise for the first member of the secret that is no text: left out, it would be another place."""
    for member in sorted(members):
        if not isinstance(members[member], str):
            raise _Unusable(f"DATASOURCE_{number}_{member} must be a text")


def _datasource(number: str, members: Mapping[str, str], env: Mapping[str, Any]) -> Stored:
    _check(number, members)
    is_crm = _is_crm(members)
    keys = _keys(number, members, env) if is_crm else {}
    tenant, name = members.get("TENANT", DEFAULT_TENANT), members["CONFIG_NAME"]
    options = _options(number, members)
    to = Connection(
        name=name,
        kind=PLUGIN_CRM if is_crm else API_KINDS[members["TYPE"]],
        host=members["HOST"],
        port=_port(number, members),
        database=members["DATABASE"],
        user=members["USER"],
        schema=members.get("SCHEMA"),
        tls_mode=members.get("SSLMODE"),
        options=options,
    )
    return Stored(
        tenant=tenant,
        id=identity(tenant, name),
        product=None,
        connection=to,
        secret=Secret(
            password=members.get("PASSWORD", ""),
            tls_ca=members.get("SSL_CA"),
            tls_certificate=members.get("SSL_CERT"),
            tls_key=members.get("SSL_KEY"),
            hash_key=keys.get("HASH_KEY"),
            encryption_key=keys.get("ENCRYPTION_KEY"),
        ),
        metadata=dumps(options) if options else "",
        created_at="",
        updated_at="",
        version=_version(to),
        references=_references(number, tenant, members),
    )


def _is_crm(members: Mapping[str, str]) -> bool:
    """Whether this is `plugin_crm`: the name and the type together make it (reference 11)."""
    return (members.get("CONFIG_NAME"), members.get("TYPE")) == (PLUGIN_CRM, "MONGODB")


def _keys(number: str, members: Mapping[str, str], env: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys there are. One that is missing is missed by the jobs that need it."""
    found = {}
    for member, everybodys in KEYS.items():
        variable = f"DATASOURCE_{number}_{member}" if member in members else everybodys
        if value := members.get(member) or env.get(everybodys):
            if not isinstance(value, str):
                raise _Unusable(f"{variable} must be a text")
            if member == "ENCRYPTION_KEY" and not _AES_KEY.fullmatch(value):
                raise _Unusable(f"{variable} must be 32, 48 or 64 hexadecimal digits")
            found[member] = value
    return found


def _check(number: str, members: Mapping[str, str]) -> None:
    """Raise for the first variable that cannot be used."""
    for member, problem in _problems(members):
        raise _Unusable(f"DATASOURCE_{number}_{member} {problem}")


def _check_only(number: str, where: tuple[str, str], taken: Set[tuple[str, str]]) -> None:
    if where in taken:
        raise _Unusable(f"DATASOURCE_{number}_CONFIG_NAME is the name of another one")


def _problems(members: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for member in sorted(members.keys() - _MEMBERS - (KEYS.keys() if _is_crm(members) else set())):
        yield member, "is not a known variable"
    for member in _NEEDED:
        if member not in members:
            yield member, "is missing"
    if not re.fullmatch(CONFIG_NAME, members.get("CONFIG_NAME", "")):
        yield "CONFIG_NAME", "must be 3 to 100 letters, digits, '-' or '_'"
    if not TENANT.fullmatch(members.get("TENANT", DEFAULT_TENANT)):
        yield "TENANT", "is no tenant's name"
    kind = members.get("TYPE", "")
    if API_KINDS.get(kind) not in engines.kinds():
        yield "TYPE", f"must be one of {', '.join(name for name in API_KINDS if API_KINDS[name] in engines.kinds())}"
    elif problem := tls_problem(kind, members.get("SSLMODE")):
        yield "SSLMODE", problem
    texts = (members.get(name) for name in ("SSL_CA", "SSL_CERT", "SSL_KEY"))
    for member, problem in pem.problems(kind, *texts):
        yield f"SSL_{member.upper()}", problem
    if ("PASSWORD" in members) == ("SECRET_ID" in members):
        yield "PASSWORD", "or SECRET_ID, and only one of them, must be given"


def _port(number: str, members: Mapping[str, str]) -> int:
    text = members.get("PORT", str(PORTS[members["TYPE"]]))
    port = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else 0
    if not 1 <= port <= 65_535:
        raise _Unusable(f"DATASOURCE_{number}_PORT must be a number from 1 to 65535")
    return port


def _options(number: str, members: Mapping[str, str]) -> dict[str, str]:
    text = members.get("OPTIONS")
    try:
        given = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
    except ValueError:
        raise _Unusable(f"DATASOURCE_{number}_OPTIONS is not a query string such as a=1&b=2") from None
    if len(dict(given)) < len(given):
        raise _Unusable(f"DATASOURCE_{number}_OPTIONS has an option twice")
    return dict(given)


def _references(number: str, tenant: str, members: Mapping[str, str]) -> dict[str, Reference]:
    if "SECRET_ID" not in members:
        return {}
    reference = Reference(members["SECRET_ID"], members.get("SECRET_FIELD", "password"))
    if reference_problem(tenant, reference):
        raise _Unusable(f"DATASOURCE_{number}_SECRET_ID must be the name of a secret of the tenant's")
    return {"password": reference}


def _version(to: Connection) -> int:
    """Another place is another version, so that no cached schema or checkpoint of the old one is used."""
    place = [to.kind, to.host, to.port, to.database, to.user, to.schema, to.tls_mode, to.options]
    return int(hashlib.sha256(dumps(place, sort=True).encode()).hexdigest()[:12], 16)
