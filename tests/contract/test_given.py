"""The shared suite runs on a real server whenever its address is given, and leaves nothing behind there."""

from importlib import import_module
from typing import Any

import pytest

from fetcher.engines import engine
from fetcher.model import Connection, Secret
from infra.local import mariadb, postgresql
from tests.contract.conftest import Reader
from tests.contract.kinds import EVENTS, given
from tests.contract.kinds.mysql import SETTINGS


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("me:p%40ss@db.example:7/shop", ("db.example", 7, "shop", "me", "p@ss")),
        ("mysql://me:x@db.example/shop", ("db.example", 3306, "shop", "me", "x")),
        ("", None),
    ],
)
def test_an_address_is_read_in_its_parts(address: str, wanted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-000-95."""
    monkeypatch.setenv("FETCHER_TEST_MYSQL_DSN", address)
    real = given("mysql", 3306)
    assert (real and (real[0].host, real[0].port, real[0].database, real[0].user, real[1].password)) == wanted or (
        wanted is real is None
    )


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_the_tables_come_into_a_database_of_their_own_which_is_dropped(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-000-95: another server of ours stands for the real one; what its address names is left as it was."""
    if kind == "mysql" and not mariadb.installed():
        pytest.skip(f"mysql: run `{mariadb.INSTALL}` first")
    serving = postgresql.running() if kind == "postgresql" else mariadb.running(SETTINGS)
    with serving as server:
        name, own = server.user, server.database
        monkeypatch.setenv(
            f"FETCHER_TEST_{kind.upper()}_DSN", f"{name}:{server.password}@127.0.0.1:{server.port}/{own}"
        )
        with import_module(f"tests.contract.kinds.{kind}").serving() as source:
            assert (source.to.port, source.to.database != own) == (server.port, True)
            assert len(_events(source.to, source.secret, source)) == EVENTS
            source.create("made", {"c0": "bigint"}, ["c0"], [(1,)])
        with engine(kind).connect(
            Connection("outer", kind, "127.0.0.1", server.port, own, name), Secret(server.password), seconds=20,
            application="given",
        ) as session:  # fmt: skip
            assert session.discover(()).tables == {}


def _events(to: Connection, secret: Secret, source: Any) -> list[int]:
    with engine(to.kind).connect(to, secret, seconds=20, application="given") as session:
        return Reader(session, source).ids("events")
