"""TLS by the modes of each kind (`reference/fetcher.md` §2.5), doing what they say, on a wire with an eavesdropper.

The host's name resolves nowhere: each connection goes to the pinned address and is verified by the name. Then the same
on a wire that breaks, in the handshake and in an encrypted answer.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import oracledb
import pytest

from fetcher.core.kinds import API_KINDS, TLS_MODES
from fetcher.engines import engine, postgresql
from fetcher.engines._mongodb import client
from fetcher.engines._mysql import opening
from fetcher.errors import InvalidRequestError, UnavailableError
from fetcher.model import Connection, Query, Secret
from fetcher.ports import Session
from infra.local.places import StackError
from infra.odbc import MissingError
from tests.certificates import ADDRESS
from tests.contract.conftest import Reader
from tests.contract.guarded import AUTHORITY, EXPIRED, HOST, RIGHT, STRANGER, Guarded, outcome, serving
from tests.contract.kinds.oracle import REAL_CONNECT
from tests.contract.serving import served
from tests.contract.test_wire import nothing_left
from tests.faultproxy import RESET, Fault, faulty
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
        "true": "E R R R U",  # and its server without TLS answers in its own words, as if the wire had brought them
        "enable": "E R R R U",
        "verify": "E R R R U",
        "skip-verify": "E E E E U",
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


# --- a wire that breaks

FAULTS = tuple(fault for fault in get_args(Fault) if fault != "none")
BROKEN = ("postgresql", "mysql", "mongodb")
"""SQL Server's is in `test_wire.py`: its handshake is a part of each login."""
HANDSHAKE = b"\x16\x03"
"""Begins the server's first record of TLS, which is its greeting in clear; what comes behind it is encrypted."""
RECORD = 5
PLACES: Mapping[str, Callable[[int], int]] = {
    "first byte": lambda _: 0,
    "header": lambda _: 3,
    "greeting": lambda size: size // 2,
    "next record": lambda size: size,
    "certificate": lambda size: size + 300,
}
"""Where in the handshake, by the size of that record."""
ANSWER = 40_000
"""Bytes of an encrypted answer that come before the wire breaks: some pages, and a row in part."""
STALL = 0.5
PAUSE = 4.0
"""Seconds of a stall where much is read before the fault: a busy machine pauses for longer than the other."""

PATIENCE = 60.0
"""Seconds; far more than any of these takes."""


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FETCHER_STALL_SECONDS", str(STALL))
    for module in (postgresql, opening, client):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 1.0)
    for kind in BROKEN:
        monkeypatch.setattr(f"fetcher.engines.{kind}.PROBE_SECONDS", STALL)
        monkeypatch.setattr(f"fetcher.engines.{kind}.CANCEL_SECONDS", STALL)


@pytest.fixture(scope="module")
def greetings(guards: Callable[[str], Guarded]) -> Callable[[str], tuple[int, int]]:
    """Where the first record of TLS begins on a kind's wire, and its size."""

    @cache
    def found(kind: str) -> tuple[int, int]:
        guarded = guards(kind)
        with faulty("127.0.0.1", guarded.to.port) as proxy:
            proxy.said = bytearray()
            with verified(guarded, proxy.port):
                pass
        begin = proxy.said.index(HANDSHAKE)
        return begin, RECORD + int.from_bytes(proxy.said[begin + 3 : begin + RECORD])

    return found


@pytest.fixture(scope="module")
def wholes(guards: Callable[[str], Guarded]) -> Callable[[str], bytes]:
    """All rows of a kind's table."""

    @cache
    def read(kind: str) -> bytes:
        guarded = guards(kind)
        with verified(guarded, guarded.to.port) as session:
            return b",".join(page.body for page in session.read(Reader(session, guarded).plan(guarded.table), None))

    return read


@contextmanager
def verified(guarded: Guarded, port: int) -> Iterator[Session]:
    """Open a session that checks the server's certificate."""
    to = replace(guarded.to, port=port, tls_mode=VERIFYING[guarded.to.kind])
    with engine(to.kind).connect(to, guarded.secret, seconds=2 * PATIENCE, application="tls") as session:
        yield session


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    ("fault", "place"),
    [(fault, place) for fault in FAULTS for place in PLACES if fault != "stall" or place == "certificate"],
)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_wire_that_breaks_in_the_handshake_may_be_tried_again(
    guards: Callable[[str], Guarded],
    greetings: Callable[[str], tuple[int, int]],
    kind: str,
    fault: Fault,
    place: str,
) -> None:
    """R-002-59, R-000-100: garbage too, which is no certificate that somebody would not have."""
    begin, size = greetings(kind)
    began = time.monotonic()
    with nothing_left(), faulty("127.0.0.1", guards(kind).to.port, fault, begin + PLACES[place](size)) as proxy:
        with pytest.raises(UnavailableError), verified(guards(kind), proxy.port):
            pass
        assert proxy.broken.is_set()
    assert time.monotonic() - began < PATIENCE


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_wire_that_breaks_in_an_encrypted_answer_is_an_error_in_time(
    guards: Callable[[str], Guarded],
    wholes: Callable[[str], bytes],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    fault: Fault,
) -> None:
    """R-002-59, R-002-63, B-45: what was handed out is a true beginning, and garbage never among it."""
    monkeypatch.setenv("FETCHER_STALL_SECONDS", str(PAUSE))
    guarded, handed = guards(kind), threading.Event()
    delivered: list[bytes] = []
    began = time.monotonic()
    with nothing_left(), faulty("127.0.0.1", guarded.to.port) as proxy:
        with verified(guarded, proxy.port) as session:
            rows = session.read(Reader(session, guarded).plan(guarded.table), None)
            proxy.ready, proxy.after, proxy.fault = handed, ANSWER, fault
            with pytest.raises(UnavailableError):  # noqa: PT012 - the pages before the error are handed out one by one
                for page in rows:
                    delivered.append(page.body)
                    handed.set()
        assert proxy.broken.is_set()
    assert time.monotonic() - began < PATIENCE
    assert delivered
    assert wholes(kind).startswith(b",".join(delivered) + b",")


@pytest.mark.parametrize("kind", ["mysql", "mongodb", "oracle"])
def test_a_wire_that_is_reset_before_the_greeting_leaves_no_socket(
    guards: Callable[[str], Guarded], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """R-002-59: Python's `ssl` has taken the socket by then; these are the kinds whose TLS it is."""
    guarded, greeted, wrap = guards(kind), threading.Event(), ssl.SSLContext.wrap_socket

    def late(context: ssl.SSLContext, sock: socket.socket, *given: Any, **options: Any) -> ssl.SSLSocket:
        """Begin only once the reset has arrived, which otherwise a busy machine does."""
        greeted.set()
        arrived = select.poll()
        arrived.register(sock, select.POLLERR)
        assert arrived.poll(1000 * PATIENCE)
        return wrap(context, sock, *given, **options)

    def reset(wire: socket.socket) -> None:
        wire.sendall(said)
        greeted.wait(PATIENCE)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    said = b""
    if kind == "mysql":
        with socket.create_connection(("127.0.0.1", guarded.to.port)) as first:
            said = first.recv(4096)
    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", late)
    with served(reset) as port, nothing_left():
        to = replace(guarded.to, port=port, tls_mode=VERIFYING[kind])
        with (
            pytest.raises(UnavailableError) as caught,
            engine(kind).connect(to, guarded.secret, seconds=PATIENCE, application="tls"),
        ):
            pass
        assert caught.value.__cause__, "it holds whatever the driver left, as long as somebody holds it"
