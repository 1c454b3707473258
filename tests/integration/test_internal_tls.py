"""Internal datasources on servers that want TLS, and on those that have none, by what the operator set."""

import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from fetcher.aws.internals import identity
from infra.local import postgresql, secantus
from tests.contract.test_mysql_tls import Authority
from tests.integration.test_connections_changing import PATH, refused
from tests.rig import Rig, rig
from tests.stack import Stack

pytestmark = pytest.mark.stack

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""How a client of PostgreSQL asks for TLS; anything else is a start in the clear."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A PostgreSQL and a MongoDB that take nobody without TLS."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = Authority.made().issued("localhost")
    options = [f"--tls-{name}-file={folder / name}" for name in ("cert", "key")]
    (folder / "cert").write_text(certificate)
    (folder / "key").write_text(key)
    with postgresql.running() as sql, encrypting(sql, folder) as port, secantus.running(options, tls=True) as documents:
        filled(documents)
        with sql.connection() as admin:
            admin.execute("CREATE TABLE one (id int PRIMARY KEY)")
        yield {"POSTGRESQL": replace(sql, port=port), "MONGODB": documents}


def filled(server: secantus.Server) -> None:
    """A database exists from its first document on."""
    with MongoClient[dict[str, Any]](
        server.host,
        server.port,
        username=server.user,
        password=server.password,
        tls=True,
        tlsInsecure=True,
        directConnection=True,
    ) as client:
        client[server.database]["one"].insert_one({})


@contextmanager
def encrypting(server: postgresql.Server, folder: Path) -> Iterator[int]:
    """Stand before a PostgreSQL, whose build knows no TLS, as one that takes nobody without: its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")

    def serve(plain: socket.socket) -> None:
        with plain, suppress(OSError):
            if plain.recv(8) != SSL_REQUEST:
                return
            plain.sendall(b"S")
            with context.wrap_socket(plain, server_side=True) as client:
                forward(client, server)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def forward(client: ssl.SSLSocket, server: postgresql.Server) -> None:
    """Carry bytes both ways until one side ends."""
    with socket.create_connection((server.host, server.port)) as upstream:
        while True:
            ready = [client] if client.pending() else select.select([client, upstream], [], [])[0]
            for one in ready:
                if not (data := one.recv(65_536)):
                    return
                (upstream if one is client else client).sendall(data)


@pytest.fixture(scope="module")
def operated(stack: Stack, servers: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A service whose operator set each server up with and without a mode."""
    modes = {"POSTGRESQL": (None, "require"), "MONGODB": (None, "insecure")}
    plain = {"POSTGRESQL": "my_postgres", "MONGODB": "my_mongo"}
    variables: dict[str, str] = {}
    for kind, server in servers.items():
        at = {name: getattr(server, name) for name in ("host", "port", "database", "user", "password")}
        for mode in modes[kind]:
            variables |= datasource(f"{kind.lower()}_{mode}", kind, at, SSLMODE=mode or "")
        variables |= datasource(f"{kind.lower()}_plain", kind, stack["databases"][plain[kind]])
    with rig(stack, tmp_path_factory.mktemp("operated"), **variables) as made:
        yield made


def datasource(name: str, kind: str, at: Mapping[str, Any], **more: str) -> dict[str, str]:
    members = {
        "CONFIG_NAME": name,
        "TYPE": kind,
        "HOST": at["host"],
        "PORT": str(at["port"]),
        "DATABASE": at["database"],
        "USER": at["user"],
        "PASSWORD": at["password"],
        **more,
    }
    return {f"DATASOURCE_{name.replace('_', '')}_{member}": value for member, value in members.items()}


@pytest.mark.parametrize("name", ["postgresql_require", "postgresql_plain", "mongodb_insecure", "mongodb_plain"])
def test_a_datasource_is_reached_by_its_mode(operated: Rig, name: str) -> None:
    """Reference 13.6: Postgres with require, Mongo with insecure, and both without a mode on plain servers."""
    own_path = f"{PATH}/{identity('default', name)}"
    tested = operated.http("POST", f"{own_path}/test").json()
    assert tested["status"] == "success", tested
    assert tested["latencyMs"] >= 0
    assert operated.http("GET", f"{own_path}/schema").json()["tables"]


@pytest.mark.parametrize("name", ["postgresql_None", "mongodb_None"])
def test_without_a_mode_a_server_that_requires_tls_is_not_reached(operated: Rig, name: str) -> None:
    """Reference 13.6: both routes say so; design 12: a failed test is 200 with a typed reason."""
    own_path = f"{PATH}/{identity('default', name)}"
    tested = operated.http("POST", f"{own_path}/test")
    assert (tested.status, tested.json()["status"]) == (200, "failure")
    assert tested.json()["reason"] in {"refused", "unavailable"}
    refused(operated.http("GET", f"{own_path}/schema"), 400, "FET-1040")
