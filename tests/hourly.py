"""A user of MariaDB whose statements of an hour can be used up, which the server then says by its own 1226."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from tests.stack import Stack

PASSWORD = "an hour"


@contextmanager
def user(stack: Stack, name: str) -> Iterator[dict[str, Any]]:
    """Make the user, without a limit so far; what a connection's registration says of it."""
    at = stack["databases"]["my_mariadb"]
    _administer(stack, f"CREATE USER {name} IDENTIFIED BY '{PASSWORD}'", f"GRANT SELECT ON *.* TO {name}")
    try:
        yield {
            "type": "MYSQL",
            "host": at["host"],
            "port": at["port"],
            "databaseName": at["database"],
            "userName": name,
            "password": PASSWORD,
        }
    finally:
        _administer(stack, f"DROP USER {name}")


@contextmanager
def used_up(stack: Stack, name: str, limit: str = "MAX_QUERIES_PER_HOUR") -> Iterator[None]:
    """Let the user's share of an hour, one statement or connection, be used up for so long by whoever comes first."""
    _administer(stack, f"ALTER USER {name} WITH {limit} 1")
    try:
        yield
    finally:
        _administer(stack, f"ALTER USER {name} WITH {limit} 0")


def _administer(stack: Stack, *statements: str) -> None:
    at = stack["databases"]["my_mariadb"]
    opened = pymysql.connect(
        host=at["host"], port=at["port"], user=at["user"], password=at["password"], database=at["database"]
    )
    with closing(opened) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
