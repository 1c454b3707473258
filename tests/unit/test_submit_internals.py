"""The operator's datasources, read from an environment."""

from dataclasses import replace
from typing import Any

import pytest

from fetcher.aws.internals import identity, read
from fetcher.aws.secrets import Reference, Sealed, Vault
from fetcher.aws.sources import Sources
from fetcher.errors import RefusedError
from fetcher.settings import load
from tests.certificates import Authority

AUTHORITY = Authority.made()
CERTIFICATE, KEY = AUTHORITY.issued("client")

GOOD = {
    "CONFIG_NAME": "ledger",
    "TYPE": "POSTGRESQL",
    "HOST": "db.example",
    "DATABASE": "ledger",
    "USER": "reader",
    "PASSWORD": "canary",
}


def env(number: str = "1", /, **changed: str | None) -> dict[str, str]:
    """The variables of one datasource, with some changed or (None) left out."""
    members: dict[str, str | None] = {**GOOD, **changed}
    return {f"DATASOURCE_{number}_{name}": value for name, value in members.items() if value is not None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("midaz_onboarding", "d23dda0c-5f1a-5d94-a584-ea056a9fa8c1"),
        ("midaz_transaction", "1efa2c9e-9d9c-5a4c-b778-d79bceec1f6a"),
        ("plugin_crm", "8de55b81-916c-5ec9-bee3-7c05e8f32f29"),
    ],
)
def test_ids_are_those_of_the_public_system(name: str, expected: str) -> None:
    """Reference 2.7: a UUIDv5 of `<tenant>/<name>`, the tenant being empty where there is only one."""
    assert identity("default", name) == expected
    assert identity("other", name) != expected


def test_a_whole_datasource_is_read() -> None:
    """Reference 2.7: any name, and every member."""
    found = read(
        env(
            PORT="6432",
            SCHEMA="accounting",
            OPTIONS="authSource=admin&x=a%20b",
            SSLMODE="verify-full",
            SSL_CA=AUTHORITY.pem,
            SSL_CERT=CERTIFICATE,
            SSL_KEY=KEY,
        )
    )
    assert found.problems == ()
    stored = found.named("default", "ledger")
    assert stored is not None
    assert found.get("default", stored.id) is stored
    assert (stored.internal, stored.product, stored.serves("anything")) == (True, None, True)
    to = stored.connection
    assert (to.kind, to.host, to.port, to.database, to.user) == ("postgresql", "db.example", 6432, "ledger", "reader")
    assert (to.schema, to.tls_mode, dict(to.options)) == (
        "accounting",
        "verify-full",
        {"authSource": "admin", "x": "a b"},
    )
    secret: Any = stored.secret
    given = ("canary", AUTHORITY.pem, CERTIFICATE, KEY)
    assert (secret.password, secret.tls_ca, secret.tls_certificate, secret.tls_key) == given
    assert "canary" not in repr(found)


def test_defaults() -> None:
    """The usual port, no TLS, no options."""
    stored = read(env()).named("default", "ledger")
    assert stored is not None
    assert (stored.connection.port, stored.connection.tls_mode, stored.metadata) == (5432, None, "")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"TYPE": "DBASE"}, "TYPE"),
        ({"TYPE": None}, "TYPE"),
        ({"TYPE": "postgresql"}, "TYPE"),
        ({"HOST": None}, "HOST"),
        ({"HOST": ""}, "HOST"),
        ({"DATABASE": None}, "DATABASE"),
        ({"USER": None}, "USER"),
        ({"PORT": "0"}, "PORT"),
        ({"PORT": "65536"}, "PORT"),
        ({"PORT": "x"}, "PORT"),
        ({"SSLMODE": "REQUIRE"}, "SSLMODE"),
        ({"SSL_CA": "broken"}, "SSL_CA"),
        ({"SSL_CERT": "broken", "SSL_KEY": KEY}, "SSL_CERT"),
        ({"SSL_CERT": CERTIFICATE}, "SSL_KEY"),
        ({"SSL_KEY": KEY}, "SSL_CERT"),
        ({"OPTIONS": "nothing"}, "OPTIONS"),
        ({"OPTIONS": "organizationId=one&organizationId=two"}, "OPTIONS"),
        ({"PASSWORD": None}, "PASSWORD"),
        ({"SECRET_ID": "fetcher/connections/default/x"}, "PASSWORD"),
        ({"PASSWORD": None, "SECRET_ID": "elsewhere/x"}, "SECRET_ID"),
        ({"PASSWORD": None, "SECRET_ID": "fetcher/connections/other/x"}, "SECRET_ID"),
        ({"HOTS": "db.example"}, "HOTS"),
        ({"TENANT": "a/b"}, "TENANT"),
    ],
)
def test_a_bad_variable_costs_its_datasource_and_is_named_without_its_value(
    changed: dict[str, str | None], named: str
) -> None:
    """Reported, and the name stays the operator's: nothing else may answer for it."""
    found = read({**env(**changed), **env("2", CONFIG_NAME="other")})
    [problem] = found.problems
    assert problem.startswith(f"DATASOURCE_1_{named} ")
    for value in (*GOOD.values(), *changed.values()):
        assert not value or value in {"PASSWORD", "POSTGRESQL"} or value not in problem
    assert found.named("default", "ledger") is None
    assert found.reserves(changed.get("TENANT") or "default", "ledger")
    assert found.named("default", "other") is not None


@pytest.mark.parametrize("name", [None, "ab", "a b c", "x" * 101])
def test_a_bad_name_is_reported(name: str | None) -> None:
    """Reference 2.2: the rule of every connection's name."""
    found = read(env(CONFIG_NAME=name))
    assert [problem.split()[0] for problem in found.problems] == ["DATASOURCE_1_CONFIG_NAME"]


def test_the_first_of_a_name_is_kept() -> None:
    """Reference 2.7."""
    found = read({**env("2", HOST="second"), **env("1", HOST="first")})
    stored = found.named("default", "ledger")
    assert stored is not None
    assert stored.connection.host == "first"
    assert [problem.split()[0] for problem in found.problems] == ["DATASOURCE_2_CONFIG_NAME"]


def test_a_datasource_belongs_to_one_tenant() -> None:
    """No tenant sees what the operator set for another."""
    found = read({**env("1"), **env("2", TENANT="shop")})
    assert [len(found.of(tenant)) for tenant in ("default", "shop", "other")] == [1, 1, 0]
    shop = found.named("shop", "ledger")
    assert shop is not None
    assert found.get("default", shop.id) is None


@pytest.mark.parametrize(
    ("host", "internal", "registered"),
    [("10.1.2.3", True, False), ("192.168.0.1", True, False), ("fd00::1", True, False), ("2606:4700::1", True, True)]
    + [(host, False, False) for host in ("169.254.169.254", "127.0.0.1", "0.0.0.0", "fd00:ec2::254")],  # noqa: S104 - to refuse
)
def test_the_operators_host_may_be_private_and_nothing_else_that_is_refused(
    host: str, internal: bool, registered: bool
) -> None:
    """Exempt from the private ranges' rule as the operator set it; metadata services stay closed."""
    sources = Sources(Vault(None, ""), load({}))
    operators = read(env(HOST=host)).of("default")[0]
    for stored, passes in ((operators, internal), (replace(operators, secret=Sealed("", "")), registered)):
        if passes:
            assert sources._address(stored) == host
            continue
        with pytest.raises(RefusedError) as refused:
            sources._address(stored)
        assert refused.value.code == "FET-0414"


def test_a_secret_may_be_referred_to() -> None:
    """Reference 2.7, but not in plain text."""
    stored = read(env(PASSWORD=None, SECRET_ID="fetcher/connections/default/db", SECRET_FIELD="pw")).of("default")[0]
    assert stored.references == {"password": Reference("fetcher/connections/default/db", "pw")}


def test_another_place_is_another_version_and_another_password_is_not() -> None:
    """No cached schema or checkpoint of another place is used."""

    def version(**changed: str) -> int:
        return read(env(**changed)).of("default")[0].version

    assert version() == version(PASSWORD="rotated")
    assert len({version(), version(HOST="b"), version(PORT="1"), version(DATABASE="b"), version(USER="b")}) == 5


CRM = {"CONFIG_NAME": "plugin_crm", "TYPE": "MONGODB"}
HASH, ENCRYPT = "CRYPTO_HASH_SECRET_KEY_PLUGIN_CRM", "CRYPTO_ENCRYPT_SECRET_KEY_PLUGIN_CRM"


def test_the_name_and_the_type_together_make_plugin_crm() -> None:
    """Reference 11: exactly this name, and MongoDB; all else is what its type says."""
    kinds = {
        read(env(**given)).of("default")[0].connection.kind
        for given in (
            {**CRM, "TYPE": "POSTGRESQL"},
            {**CRM, "CONFIG_NAME": "Plugin_CRM"},
            {**CRM, "CONFIG_NAME": "crm"},
        )
    }
    assert kinds == {"postgresql", "mongodb"}
    crm = read(env(**CRM)).named("default", "plugin_crm")
    assert crm is not None
    assert (crm.id, crm.connection.kind) == ("8de55b81-916c-5ec9-bee3-7c05e8f32f29", "plugin_crm")


def keys(found: Any) -> tuple[Any, Any]:
    secret: Any = found.of("default")[0].secret
    return secret.hash_key, secret.encryption_key


def test_keys_are_the_datasources_own_or_the_public_systems() -> None:
    """Reference 11.3, 11.4: two variables for all; B-54: or keys of the datasource's own."""
    everybodys = {HASH: "hash", ENCRYPT: "aa" * 16}
    assert keys(read({**env(**CRM), **everybodys})) == ("hash", "aa" * 16)
    assert keys(read({**env(**CRM, HASH_KEY="own", ENCRYPTION_KEY="bb" * 32), **everybodys})) == ("own", "bb" * 32)
    assert keys(read(env(**CRM))) == (None, None)
    assert keys(read({**env(), **everybodys})) == (None, None)


@pytest.mark.parametrize("value", ["canary", "aa" * 15, "aa" * 16 + "\n", "zz" * 16, "aa" * 33])
def test_a_bad_key_is_named_without_its_value(value: str) -> None:
    """Reference 11.4: 16, 24 or 32 bytes, in hex."""
    for given, named in (
        ({**env(**CRM), ENCRYPT: value}, ENCRYPT),
        (env(**CRM, ENCRYPTION_KEY=value), "ENCRYPTION_KEY"),
    ):
        found = read(given)
        [problem] = found.problems
        assert named in problem.split()[0]
        assert value not in problem
        assert found.reserves("default", "plugin_crm")


def test_only_plugin_crm_has_keys() -> None:
    """A typo is reported, not ignored."""
    assert read(env(HASH_KEY="x")).problems == ("DATASOURCE_1_HASH_KEY is not a known variable",)
