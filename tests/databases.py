"""The stack's SQL databases, as their owner uses them beside the service: the same words for each."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pymysql

from tests.contract.kinds import Source
from tests.rig import Rig
from tests.stack import Stack

KINDS = ("postgresql", "mysql")
NAMES = {"postgresql": "my_postgres", "mysql": "my_mariadb"}
TYPES = {"postgresql": "POSTGRESQL", "mysql": "MYSQL"}
SERIES = {
    "postgresql": "SELECT i AS n FROM generate_series(1, {0}) i",
    "mysql": "SELECT seq AS n FROM seq_1_to_{0}",
}


def register_sqlserver(service: Rig, name: str, source: Source, port: int | None = None) -> None:
    """Register a served SQL Server under a name, at its own port or behind another one of this machine."""
    to = source.to
    answer = service.register(
        name,
        type="SQL_SERVER",
        host=to.host,
        port=port or to.port,
        databaseName=to.database,
        userName=to.user,
        password=source.secret.password,
    )
    assert answer.status == 201, answer


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the stack."""

    kind: str
    at: Any

    @classmethod
    def of(cls, stack: Stack, kind: str) -> "Database":
        """Find the stack's database of a kind."""
        return cls(kind, stack["databases"][NAMES[kind]])

    def connection(self) -> Any:
        """Open a connection whose changes are its own until it commits."""
        at = self.at
        if self.kind == "mysql":
            return pymysql.connect(
                host=at["host"],
                port=at["port"],
                user=at["user"],
                password=at["password"],
                database=at["database"],
                ssl_disabled=True,
            )
        return psycopg.connect(
            host=at["host"], port=at["port"], user=at["user"], password=at["password"], dbname=at["database"]
        )

    def run(self, *statements: str) -> Sequence[Sequence[Any]]:
        """Run statements, commit them, and return the last one's rows."""
        rows: Sequence[Sequence[Any]] = ()
        with closing(self.connection()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall() if cursor.description else ()
            connection.commit()
        return rows

    def fill(self, table: str, rows: int, width: int = 120) -> None:
        """Make a table anew: `id` from 1, `version` 0, and a `note` of so many bytes."""
        self.run(
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, version integer NOT NULL, note varchar(500) NOT NULL)",
            f"INSERT INTO {table} SELECT n, 0, repeat('x', {width}) FROM ({SERIES[self.kind].format(rows)}) s",
        )

    def register(self, service: Rig, name: str, port: int) -> None:
        """Register this database under a name, behind a port of this machine."""
        answer = service.register(
            name,
            type=TYPES[self.kind],
            host=self.at["host"],
            port=port,
            databaseName=self.at["database"],
            userName=self.at["user"],
            password=self.at["password"],
        )
        assert answer.status == 201, answer
