"""TLS by the modes of each kind (`reference/fetcher.md` §2.5), doing what they say, on a wire with an eavesdropper.

The host's name resolves nowhere: each connection goes to the pinned address and is verified by the name.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import oracledb
import pytest

from fetcher.core.kinds import API_KINDS, TLS_MODES
from fetcher.engines import engine
from fetcher.errors import InvalidRequestError
from fetcher.model import Connection, Query, Secret
from infra.local.places import StackError
from infra.odbc import MissingError
from tests.certificates import ADDRESS
from tests.contract.guarded import AUTHORITY, EXPIRED, HOST, RIGHT, STRANGER, Guarded, outcome, serving
from tests.contract.kinds.oracle import REAL_CONNECT
from tests.stack import Stack

pytestmark = pytest.mark.stack

LETTERS = {"encrypted": "E", "clear": "C", "refused": "R", "unavailable": "U"}
SERVERS = ("right", "wrong authority", "wrong name", "expired", "without TLS")
MODES: Mapping[str, Mapping[str, str]] = {
    "postgresql": {
        "disable": "C C C C C",
        "allow": "C C C C C",
        "prefer": "E E E E C",
        "require": "E R E R R",  # with an authority it verifies: libpq's documented rule
        "verify-ca": "E R E R R",
        "verify-full": "E R R R R",
    },
    "mysql": {
        "false": "C C C C C",
        "true": "E R R R R",
        "skip-verify": "E E E E R",
        "preferred": "E E E E C",
    },
    "mongodb": {
        "disable": "U U U U C",  # here and with Oracle the port itself speaks TLS
        "false": "U U U U C",
        "true": "E R R R U",  # its server without TLS hangs up, as a wire that breaks does
        "enable": "E R R R U",
        "insecure": "E E E E U",
    },
    "sqlserver": {
        "disable": "C C C C -",
        "false": "C C C C -",
        "true": "E R R R R",
    },
    "oracle": {
        "disable": "U U U U C",
        "false": "U U U U C",
        "true": "E R R R R",
        "enable": "E R R R R",
        "verify": "E R R R R",
        "skip-verify": "E E E E R",
    },
}
"""What becomes of a connection with an authority, by mode and server. `strict` of SQL Server is TDS 8, which its
stand-in does not speak; `-` is a server that no driver would go on with."""

VERIFYING = {"postgresql": "verify-full", "mysql": "true", "mongodb": "true", "sqlserver": "true", "oracle": "verify"}
TRUSTING = {"postgresql": "require", "mysql": "skip-verify", "mongodb": "insecure", "oracle": "skip-verify"}
PLAIN = {"postgresql": "disable", "mysql": "false"}


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle's driver itself, whatever the rest of the suite put in its place."""
    monkeypatch.setattr(oracledb, "connect", REAL_CONNECT)


@pytest.fixture(scope="module")
def guards(stack: Stack) -> Iterator[Callable[[str], Guarded]]:
    """Serve a kind when it is first asked for."""
    served: dict[str, Guarded] = {}
    with ExitStack() as opened:

        def guarded(kind: str) -> Guarded:
            if kind not in served:
                try:
                    served[kind] = opened.enter_context(serving(kind, stack))
                except (StackError, MissingError) as missing:
                    pytest.skip(f"{kind}: {missing}")
            return served[kind]

        yield guarded


@pytest.fixture
def guarded(kind: str, guards: Callable[[str], Guarded]) -> Guarded:
    """A kind's server."""
    return guards(kind)


def row(guarded: Guarded, mode: str, letters: str) -> str:
    """Try one mode with every server, but for those that are marked `-`."""
    to, secret = replace(guarded.to, tls_mode=mode), guarded.secret
    tried = [
        outcome(to, secret),
        outcome(to, replace(secret, tls_ca=STRANGER.pem)),
        outcome(replace(to, host="other.example"), secret),
    ]
    guarded.show(EXPIRED)
    try:
        tried.append(outcome(to, secret))
    finally:
        guarded.show(RIGHT)
    if not letters.endswith("-"):
        tried.append(outcome(replace(guarded.clear, tls_mode=mode), guarded.clear_secret))
    return " ".join(LETTERS.get(each, each) for each in tried) + (" -" if letters.endswith("-") else "")


@pytest.mark.parametrize(("kind", "mode"), [(kind, mode) for kind, modes in MODES.items() for mode in modes])
def test_a_mode_does_what_it_says_with_every_server(guards: Callable[[str], Guarded], kind: str, mode: str) -> None:
    """R-000-99, R-000-100, B-33, B-34: mode by server, as the table says; nothing falls back in silence."""
    assert row(guards(kind), mode, MODES[kind][mode]) == MODES[kind][mode], SERVERS


def test_every_mode_of_every_kind_is_in_the_table() -> None:
    """R-000-100: the modes that the API takes are those of the table, and `strict`."""
    known = {API_KINDS[name]: {*modes} - {"strict"} for name, modes in TLS_MODES.items()}
    assert {kind: {*modes} for kind, modes in MODES.items()} == known


def test_without_an_authority_of_its_own_the_systems_are_asked(guarded: Guarded, kind: str) -> None:
    """B-34: and those do not know this server's."""
    to = replace(guarded.to, tls_mode=VERIFYING[kind])
    assert outcome(to, replace(guarded.secret, tls_ca=None)) == "refused"


@pytest.mark.parametrize("kind", TRUSTING)
def test_a_mode_that_does_not_verify_needs_no_authority(guards: Callable[[str], Guarded], kind: str) -> None:
    """`design.md` §12: `ca` is required only by the modes that verify against it."""
    guarded = guards(kind)
    to = replace(guarded.to, tls_mode=TRUSTING[kind])
    assert outcome(to, replace(guarded.secret, tls_ca=None)) == "encrypted"


def test_an_address_in_the_certificate_is_a_name_too(guarded: Guarded, kind: str) -> None:
    """R-000-99: verified by what the caller wrote, wherever one connects to. Microsoft's driver takes names only."""
    to = replace(guarded.to, tls_mode=VERIFYING[kind])
    assert outcome(replace(to, host=ADDRESS), guarded.secret) == ("refused" if kind == "sqlserver" else "encrypted")
    assert outcome(replace(to, host="127.0.0.1"), guarded.secret) == "refused"


@pytest.mark.parametrize("kind", PLAIN)
def test_a_server_that_demands_tls_lets_nobody_in_without(guards: Callable[[str], Guarded], kind: str) -> None:
    """R-000-100: and the reason is a refusal."""
    guarded = guards(kind)
    assert guarded.demanding
    to, secret = guarded.demanding
    assert outcome(replace(to, tls_mode=PLAIN[kind]), secret) == "refused"
    assert outcome(replace(to, tls_mode=VERIFYING[kind]), secret) == "encrypted"


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mongodb", "oracle"])
def test_a_client_shows_its_certificate(guards: Callable[[str], Guarded], kind: str) -> None:
    """B-34: `cert` and `key` are used, and come as text."""
    guarded = guards(kind)
    assert guarded.certified
    to, secret = guarded.certified
    to = replace(to, tls_mode=VERIFYING[kind])
    certificate, key = AUTHORITY.issued("client")
    assert outcome(to, replace(secret, tls_certificate=certificate, tls_key=key)) == "encrypted"
    assert outcome(to, secret) in {"refused", "unavailable"}
    certificate, key = STRANGER.issued("client")
    assert outcome(to, replace(secret, tls_certificate=certificate, tls_key=key)) in {"refused", "unavailable"}


def test_a_client_certificate_that_sql_server_cannot_take_is_invalid() -> None:
    """B-34: it has no login by password that also takes one, so it is refused rather than left unused."""
    certificate, key = AUTHORITY.issued("client")
    to, secret = connection("sqlserver"), Secret("x", tls_certificate=certificate, tls_key=key)
    with (
        pytest.raises(InvalidRequestError, match="certificate"),
        engine("sqlserver").connect(to, secret, seconds=5, application="tls"),
    ):
        pass


def connection(kind: str) -> Connection:
    return Connection("tls", kind, HOST, 1, "d", "u", tls_mode=VERIFYING[kind], options={"serviceName": "x"})


LOCKED = AUTHORITY.issued("client", password=b"secret")


@pytest.mark.parametrize(
    "secret",
    [
        Secret("x", tls_ca="no certificate"),
        Secret("x", tls_ca="zertifikät"),
        Secret("x", tls_certificate="no certificate", tls_key="no key"),
        Secret("x", tls_certificate=RIGHT[0], tls_key=STRANGER.issued("other")[1]),
        Secret("x", tls_certificate=LOCKED[0], tls_key=LOCKED[1]),
    ],
    ids=["authority", "no ASCII", "certificate", "key of another", "locked key"],
)
def test_what_is_no_certificate_is_invalid(kind: str, secret: Secret) -> None:
    """B-34: in our words, before anything is connected to; a locked key asks nobody for its password."""
    with (
        pytest.raises(InvalidRequestError, match="TLS") as caught,
        engine(kind).connect(connection(kind), secret, seconds=5, application="tls"),
    ):
        pass
    assert caught.value.__cause__ is not None


def test_rows_come_whole_through_tls(guards: Callable[[str], Guarded]) -> None:
    """And a read that is left half-way ends the session here as well."""
    guarded = guards("mysql")
    to = replace(guarded.to, tls_mode="true")
    with engine("mysql").connect(to, guarded.secret, seconds=20, application="tls") as session:
        table = session.discover(()).tables["numbers",]
        query = Query("numbers", table.path, table.columns)
        assert sum(page.rows for page in session.read(query, None)) == 20_000
        assert next(iter(session.read(query, None))).rows
        session.cancel()
