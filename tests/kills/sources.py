"""Sources that can be made to fail for a while: a wire that breaks, and a server whose share of the hour is used up."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests import hourly
from tests.faultproxy import FaultProxy, faulty
from tests.integration.test_bounds import view
from tests.rig import Rig

HOURLY = "my_hourly"
SHAKY = "my_shaky"
NARROW = "my_narrow"
ENDLESS = {"public.numbers": ["*"]}
"""More rows than anybody waits for, the first ones at once."""

ROWS = "SELECT n, repeat('x', 8192) AS text, pg_sleep(0.01)::text AS slept FROM generate_series(1, 1000000) n"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the stories break: the wire to PostgreSQL under the name `my_shaky`, and MariaDB's `my_hourly`."""

    service: Rig
    wire: FaultProxy
    user: str

    def cut(self) -> None:
        """Reset the next connection to `my_shaky` after a few answers; those after it pass."""
        self.wire.broken.clear()
        self.wire.alone, self.wire.after, self.wire.fault = True, 2_000, "rst"

    @contextmanager
    def used_up(self) -> Iterator[None]:
        """Let MariaDB refuse the user of `my_hourly`; then another hour begins, also for the gate that was closed."""
        with hourly.used_up(self.service.stack, self.user):
            yield
        own = self.service.connection_id(HOURLY)
        gate = {"PK": {"S": f"T#default#SOURCE#{own}"}, "SK": {"S": "GATE"}}
        self.service.dynamodb.delete_item(TableName=self.service.env["FETCHER_MAIN_TABLE"], Key=gate)


@contextmanager
def sources(service: Rig) -> Iterator[Sources]:
    """Register the connections of the stories, with what they point at."""
    databases = service.stack["databases"]
    if "my_mariadb" not in databases:
        pytest.skip("mariadb is missing: apt-get install mariadb-server-core")
    sql = databases["my_postgres"]
    view(service, "numbers", ROWS)
    user = f"hourly_{secrets.token_hex(4)}"  # the server is shared with other processes of the run
    with hourly.user(service.stack, user) as limited, faulty(sql["host"], sql["port"]) as wire:
        answers = [
            service.register("my_postgres"),
            service.register("my_second"),
            service.register("my_third"),
            service.register(NARROW, limits={"maxWorkers": 1}),
            service.register(SHAKY, port=wire.port),
            service.register(HOURLY, **limited),
        ]
        assert {answer.status for answer in answers} == {201}, answers
        yield Sources(service, wire, user)
