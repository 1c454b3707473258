"""One server a kind that shows any certificate it is told to, and one that has no TLS at all.

What stands for what: PostgreSQL and MariaDB do TLS themselves. MongoDB's stand-in sits behind a front that ends TLS
(its own TLS is in `test_mongodb_faults.py`). SQL Server's stand-in speaks TLS inside TDS to Microsoft's real driver;
one without TLS is a greeting here. Oracle has the real driver and a listener that refuses the service once the
handshake is over, which is as far as one gets without a server.
"""

import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fetcher.engines import engine
from fetcher.errors import FetcherError
from fetcher.model import Connection, Secret
from infra.local import mariadb, postgresql, tds
from tests.certificates import Authority, Identity, identified, server_context, written
from tests.contract import tlsfront
from tests.contract.fake_oracle_listener import listening, refusing
from tests.contract.kinds.sqlserver import need_driver
from tests.contract.serving import served
from tests.faultproxy import faulty
from tests.stack import Stack

HOST = "db.example"
"""A name that resolves nowhere: only the pinned address can be connected to, and only the name be verified."""

AUTHORITY, STRANGER = Authority.made(), Authority.made()
RIGHT, EXPIRED = AUTHORITY.issued(HOST), AUTHORITY.issued(HOST, expired=True)

NO_SUCH_SERVICE, NO_HANDLER = 12514, 12520
INSIDE = "DPY-600"
"""Oracle's driver got an answer of the listener: DPY-6001 and, for one with a certificate, DPY-6000."""

SAID_IN_CLEAR: Mapping[str, bytes] = {
    "postgresql": b"client_connection_check_interval",
    "mysql": b"SET SESSION",
    "mongodb": b"ping",
    "sqlserver": "ANSI_NULLS".encode("utf-16-le"),
    "oracle": b"SERVICE_NAME",
}
"""What an eavesdropper reads of a session that is not encrypted, after its greeting."""


@dataclass(frozen=True, slots=True, repr=False)
class Guarded:
    """A server with TLS, and one without; `demanding` is let in with TLS only, `certified` with a certificate only.

    `table` has some thousand rows, where it is named.
    """

    to: Connection
    secret: Secret
    show: Callable[[Identity], None]
    clear: Connection
    clear_secret: Secret
    demanding: tuple[Connection, Secret] | None = None
    certified: tuple[Connection, Secret] | None = None
    table: str = ""


def outcome(to: Connection, secret: Secret) -> str:
    """Open a session through an eavesdropper; return `encrypted`, `clear`, or the family of the error."""
    with faulty(to.address or to.host, to.port) as tap:
        try:
            with engine(to.kind).connect(replace(to, port=tap.port), secret, seconds=20, application="tls"):
                pass
        except FetcherError as error:
            if to.kind != "oracle" or INSIDE not in str(error):
                return error.family
        return "clear" if SAID_IN_CLEAR[to.kind] in tap.heard else "encrypted"


@contextmanager
def serving(kind: str, stack: Stack) -> Iterator[Guarded]:
    """Serve a kind. Raises `StackError` where its programs are missing."""
    with SERVING[kind](stack) as guarded:
        yield guarded


def _at(kind: str, server: Any, **more: Any) -> Connection:
    return Connection("tls", kind, HOST, server.port, server.database, server.user, address="127.0.0.1", **more)


def _plain(stack: Stack, name: str) -> tuple[Connection, Secret]:
    at = stack["databases"][name]
    to = Connection("tls", at["kind"], HOST, at["port"], at["database"], at["user"], address="127.0.0.1")
    return to, Secret(at["password"], tls_ca=AUTHORITY.pem)


@contextmanager
def _postgresql(stack: Stack) -> Iterator[Guarded]:
    with postgresql.running(programs=postgresql.system_programs()) as server:
        with server.connection() as connection:
            for user in ("demanding", "certified"):
                connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'x'".encode())
            connection.execute(
                "CREATE TABLE numbers AS SELECT i id, repeat('x', 500) b FROM generate_series(1, 2000) i"
            )
        secured = "all demanding 127.0.0.1/32 scram-sha-256"
        postgresql.admit(
            server,
            f"hostssl {secured}",
            "hostnossl all demanding,certified 127.0.0.1/32 reject",
            "hostssl all certified 127.0.0.1/32 scram-sha-256 clientcert=verify-ca",
        )

        def show(identity: Identity) -> None:
            postgresql.certify(server, *identity, AUTHORITY.pem)

        show(RIGHT)
        to, own = _at("postgresql", server), Secret("x", tls_ca=AUTHORITY.pem)
        yield Guarded(
            to,
            replace(own, password=server.password),
            show,
            *_plain(stack, "my_postgres"),
            (replace(to, user="demanding"), own),
            (replace(to, user="certified"), own),
            "numbers",
        )


@contextmanager
def _mysql(stack: Stack) -> Iterator[Guarded]:
    with tempfile.TemporaryDirectory() as name:
        folder, names = Path(name), ("ssl-ca", "ssl-cert", "ssl-key")
        files = written(folder, **dict(zip(names, (AUTHORITY.pem, *RIGHT), strict=True)))
        with mariadb.running(files) as server:
            with server.connection() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE USER demanding@'%' IDENTIFIED BY 'x' REQUIRE SSL")
                cursor.execute("CREATE USER certified@'%' IDENTIFIED BY 'x' REQUIRE X509")
                cursor.execute("CREATE TABLE numbers AS SELECT seq AS id, repeat('x', 500) b FROM seq_1_to_20000")

            def show(identity: Identity) -> None:
                written(folder, **dict(zip(names[1:], identity, strict=True)))
                with server.connection() as connection, connection.cursor() as cursor:
                    cursor.execute("FLUSH SSL")

            to, own = _at("mysql", server), Secret("x", tls_ca=AUTHORITY.pem)
            anybody = replace(to, database="information_schema")
            yield Guarded(
                to,
                replace(own, password=server.password),
                show,
                *_plain(stack, "my_mariadb"),
                (replace(anybody, user="demanding"), own),
                (replace(anybody, user="certified"), own),
                "numbers",
            )


@contextmanager
def _mongodb(stack: Stack) -> Iterator[Guarded]:
    clear, secret = _plain(stack, "my_mongo")
    context, strict = server_context(RIGHT), server_context(RIGHT, AUTHORITY, required=True)
    target = ("127.0.0.1", clear.port)
    with (
        tlsfront.ending(target, context) as port,
        tlsfront.ending(target, strict) as certified,
        tlsfront.refusing(target) as without,
    ):
        yield Guarded(
            replace(clear, port=port),
            secret,
            _showing(context),
            replace(clear, port=without),
            secret,
            certified=(replace(clear, port=certified), secret),
            table="transactions",
        )


@contextmanager
def _sqlserver(_: Stack) -> Iterator[Guarded]:
    need_driver()
    with tds.running(certificate=RIGHT) as server, _without_tls() as port:
        to, secret = _at("sqlserver", server), Secret(server.password, tls_ca=AUTHORITY.pem)
        yield Guarded(to, secret, lambda shown: tds.certify(server.folder, *shown), replace(to, port=port), secret)


@contextmanager
def _oracle(_: Stack) -> Iterator[Guarded]:
    def answer(wire: socket.socket) -> None:
        certificate = wire.getpeercert() if isinstance(wire, ssl.SSLSocket) else None
        refusing(NO_HANDLER if certificate else NO_SUCH_SERVICE)(wire)

    context, strict = server_context(RIGHT), server_context(RIGHT, AUTHORITY, required=True)
    with listening(answer, context) as port, listening(answer, strict) as certified, listening(answer) as clear:
        to = Connection("tls", "oracle", HOST, port, "d", "u", options={"serviceName": "x"}, address="127.0.0.1")
        secret = Secret("x", tls_ca=AUTHORITY.pem)
        yield Guarded(
            to,
            secret,
            _showing(context),
            replace(to, port=clear),
            secret,
            certified=(replace(to, port=certified), secret),
        )


def _showing(context: ssl.SSLContext) -> Callable[[Identity], None]:
    return lambda identity: identified(context, identity)


NOT_SUPPORTED = bytes.fromhex("04 01 001a 0000 01 00  00 000b 0006  01 0011 0001  ff  100000000000  02")
"""The answer to PRELOGIN of a server without encryption (MS-TDS 2.2.6.5: version, ENCRYPT_NOT_SUP)."""


def _without_tls() -> AbstractContextManager[int]:
    def serve(wire: socket.socket) -> None:
        wire.recv(4096)
        wire.sendall(NOT_SUPPORTED)
        while wire.recv(4096):
            pass

    return served(serve)


SERVING: Mapping[str, Callable[[Stack], AbstractContextManager[Guarded]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mongodb": _mongodb,
    "sqlserver": _sqlserver,
    "oracle": _oracle,
}
