"""Sources that can be made to fail for a while: a wire that breaks, and a server whose share of the hour is used up."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
import pytest

from tests.faultproxy import FaultProxy, faulty
from tests.rig import Rig, until

HOURLY = "my_hourly"
SHAKY = "my_shaky"
NARROW = "my_narrow"
PASSWORD = "an hour"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the stories break: the wire to PostgreSQL under the name `my_shaky`, and MariaDB's `my_hourly`."""

    service: Rig
    wire: FaultProxy
    administrator: Any
    user: str

    def cut(self) -> None:
        """Reset the next connection to `my_shaky` after a few answers; those after it pass."""
        self.wire.broken.clear()
        self.wire.alone, self.wire.after, self.wire.fault = True, 2_000, "rst"

    def use_up(self) -> None:
        """Let MariaDB refuse the user of `my_hourly`, and see that it does."""
        self._limit(1)

        def refused() -> bool:
            at = self.service.stack["databases"]["my_mariadb"]
            try:
                pymysql.connect(host=at["host"], port=at["port"], user=self.user, password=PASSWORD).close()
            except pymysql.err.OperationalError as error:
                return "1226" in str(error)
            return False

        until(refused, "the end of the hour's share")

    def refill(self) -> None:
        """Begin another hour, for MariaDB and for the gate that the service closed."""
        self._limit(0)
        own = self.service.connection_id(HOURLY)
        gate = {"PK": {"S": f"T#default#SOURCE#{own}"}, "SK": {"S": "GATE"}}
        self.service.dynamodb.delete_item(TableName=self.service.env["FETCHER_MAIN_TABLE"], Key=gate)

    def _limit(self, connections: int) -> None:
        self.administrator.execute(f"ALTER USER {self.user} WITH MAX_CONNECTIONS_PER_HOUR {connections}")
        self.administrator.execute("FLUSH USER_RESOURCES")


@contextmanager
def sources(service: Rig) -> Iterator[Sources]:
    """Register the connections of the stories, with what they point at."""
    databases = service.stack["databases"]
    if "my_mariadb" not in databases:
        pytest.skip("mariadb is missing: apt-get install mariadb-server-core")
    at, sql = databases["my_mariadb"], databases["my_postgres"]
    opened = pymysql.connect(host=at["host"], port=at["port"], user=at["user"], password=at["password"])
    with closing(opened) as connection, connection.cursor() as cursor, faulty(sql["host"], sql["port"]) as wire:
        user = f"hourly_{secrets.token_hex(4)}"  # the server is shared with other processes of the run
        cursor.execute(f"CREATE USER {user} IDENTIFIED BY '{PASSWORD}'")
        cursor.execute(f"GRANT SELECT ON *.* TO {user}")
        where = {"host": at["host"], "port": at["port"], "databaseName": at["database"]}
        answers = [
            service.register("my_postgres"),
            service.register("my_second"),
            service.register("my_third"),
            service.register(NARROW, limits={"maxWorkers": 1}),
            service.register(SHAKY, port=wire.port),
            service.register(HOURLY, type="MYSQL", **where, userName=user, password=PASSWORD),
        ]
        assert {answer.status for answer in answers} == {201}, answers
        try:
            yield Sources(service, wire, cursor, user)
        finally:
            cursor.execute(f"DROP USER {user}")
