"""What only MySQL 8 does, by the protocol alone: its login, and JSON as a type of its own.

The server is a script on the pip package `mysql-mimic`: it answers what a session asks, and runs no SQL.
"""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from mysql_mimic import IdentityProvider, MysqlServer, Session, User  # type: ignore[import-untyped]
from mysql_mimic.auth import AuthInfo, AuthPlugin, Forbidden, Success  # type: ignore[import-untyped]
from mysql_mimic.results import ResultColumn, ResultSet  # type: ignore[import-untyped]
from mysql_mimic.types import ColumnType  # type: ignore[import-untyped]

from fetcher.engines import engine
from fetcher.errors import RefusedError
from fetcher.model import Connection, Encoding, Query, Secret
from infra.local.processes import free_port

PASSWORD = "pä55 %s🎉'\\"
KEY = rsa.generate_private_key(65537, 2048)
PUBLIC = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
OAEP = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303 - the protocol's own choice
FULL_LOGIN, ASKS_FOR_KEY = b"\x04", b"\x02"
ROWS = [(f'{{"id":{n},"j":{{"n": {n}.50}}}}', str(n)) for n in range(5000)]


class CachingSha2(AuthPlugin):  # type: ignore[misc]
    """The whole exchange, as with a server whose cache does not know the user yet."""

    name = client_plugin_name = "caching_sha2_password"

    async def auth(self, auth_info: AuthInfo | None = None) -> AsyncGenerator[Any, AuthInfo]:
        nonce = bytes(range(1, 21))
        info = auth_info
        if info is None:
            info = yield nonce + b"\0"
        elif info.handshake_auth_data:
            nonce = info.handshake_auth_data.rstrip(b"\0")
        assert len(info.data) == hashes.SHA256.digest_size, "the quick login comes first"
        info = yield FULL_LOGIN
        assert info.data == ASKS_FOR_KEY, "the password itself must not travel in clear text"
        info = yield PUBLIC
        clear = KEY.decrypt(info.data, OAEP)
        given = bytes(byte ^ nonce[at % len(nonce)] for at, byte in enumerate(clear)).rstrip(b"\0")
        yield Success(info.username) if given == PASSWORD.encode() else Forbidden()


class Identity(IdentityProvider):  # type: ignore[misc]
    def get_plugins(self) -> list[AuthPlugin]:
        return [CachingSha2()]

    async def get_user(self, username: str) -> User:
        return User(name=username, auth_string="", auth_plugin=CachingSha2.name)


ANSWERS: dict[str, tuple[list[ColumnType], list[tuple[Any, ...]]]] = {
    "SHOW VARIABLES": ([ColumnType.VARCHAR] * 2, [("max_execution_time", "0")]),
    "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'info": ([ColumnType.LONGLONG], []),
    "FROM information_schema.COLUMNS": (
        [ColumnType.VARCHAR] * 6,
        [("docs", "id", "bigint", "bigint", None, "NO"), ("docs", "j", "json", "json", None, "YES")],
    ),
    "FROM information_schema.TABLES": ([ColumnType.VARCHAR], []),
    "FROM information_schema.STATISTICS": ([ColumnType.VARCHAR] * 4, [("docs", "PRIMARY", "id", "1")]),
    "EXECUTE fetcher": ([ColumnType.JSON, ColumnType.LONGLONG], ROWS),
}


class Script(Session):  # type: ignore[misc]
    """Gives the first answer whose words are in the question, and remembers what was asked."""

    asked: list[str]

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        self.asked.append(sql)
        for words, (types, rows) in ANSWERS.items():
            if words in sql:
                columns = [ResultColumn(f"c{at}", kind, text_encoder=_text) for at, kind in enumerate(types)]
                return ResultSet(rows=rows, columns=columns)
        return None


def _text(_column: ResultColumn, value: Any) -> bytes:
    return str(value).encode()


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def to(asked: list[str]) -> Iterator[Connection]:
    """Serve the script from a thread of its own."""
    port, ready = free_port(), threading.Event()
    ends: list[Callable[[], object]] = []

    def session() -> Script:
        script = Script()
        script.asked = asked
        return script

    async def serve() -> None:
        server = MysqlServer(session_factory=session, identity_provider=Identity())
        await server.start_server(host="127.0.0.1", port=port)
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(stop.set))
        ready.set()
        await stop.wait()
        server.close()
        await server.wait_closed()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    yield Connection("eight", "mysql", "127.0.0.1", port, "shop", "ünï cöde")
    ends[0]()
    thread.join(10)


def test_caching_sha2_logs_in_without_tls_and_json_is_read_as_it_is(to: Connection, asked: list[str]) -> None:
    """The password is encrypted with the server's key, and JSON of type 245 comes like any other row."""
    with engine("mysql").connect(to, Secret(PASSWORD), seconds=20, application="eight") as session:
        table = session.discover(()).tables["docs",]
        assert [column.encoding for column in table.columns] == [Encoding.INTEGER, Encoding.JSON]
        assert table.key == ("id",)
        pages = list(session.read(Query("docs", table.path, table.columns, table.columns[:1], page_bytes=9000), None))
    assert b",".join(page.body for page in pages) == ",".join(row for row, _ in ROWS).encode()
    assert pages[-1].position is not None
    assert pages[-1].position.values == (("bigint", "4999"),)
    (settings,) = (sql for sql in asked if sql.startswith("SET SESSION sql_mode"))
    assert re.search(r"max_execution_time = (19|20)\d{3}\b", settings), "milliseconds, where MariaDB has seconds"
    assert "max_statement_time" not in settings
    (assigned,) = (sql for sql in asked if sql.startswith("SET @fetcher"))
    statement = bytes.fromhex(assigned.split("'")[1]).decode()
    assert "JSON_VALID" not in statement, "the type itself says that it is JSON"


def test_a_wrong_password_is_refused_by_caching_sha2(to: Connection) -> None:
    with (
        pytest.raises(RefusedError),
        engine("mysql").connect(to, Secret("wrong"), seconds=20, application="eight"),
    ):
        pass
