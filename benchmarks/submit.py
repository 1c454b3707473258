"""How long `POST /v1/fetcher` takes, from the gateway's event to the answer, with a probe and without.

The handler is the deployed code in a warm process with Lambda's runtime client; DynamoDB and SQS are the local
endpoint's, whose answers are most of it, so what can be compared is the two lines. A job of a registered connection
is probed (a connection to PostgreSQL with TLS off, on the same machine); one of an internal connection is not.
"""

import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from infra.local import stack
from infra.local.api import Api
from infra.local.places import ROOT, Place
from tests.rig import Rig, rig
from tests.stack import Stack

POSTS = 100
WARM = 5
PROBED, INTERNAL = "my_postgres", "plugin_accounts"


def tables(scale: float, rounds: int) -> Iterator[str]:
    """Post jobs to a service of its own, in turn to both connections, and yield the lines of a table."""
    posts = max(10, int(POSTS * scale * rounds))
    place = Place.of(ROOT / ".local" / f"benchmark-{secrets.token_hex(4)}.json")
    with stack.running(place) as description, tempfile.TemporaryDirectory() as folder:
        started = Stack(description, Api(description["apiUrl"]), stack.session(place))
        with rig(started, Path(folder), **_internal(description["databases"]["my_postgres"])) as service:
            if service.register().status != 201:
                raise RuntimeError("the connection was not registered")
            seen: dict[str, list[float]] = {PROBED: [], INTERNAL: []}
            for at in range(WARM + posts):
                for name, times in seen.items():
                    took = _posted(service, name)
                    times.extend([took] if at >= WARM else [])
        started.api.close()
    yield f"{posts} jobs each, one at a time, in a warm process; DynamoDB and SQS are the local endpoint's."
    yield from ("", "| | p50 ms | p99 ms |", "|--|--|--|")
    for label, name in (("with a probe of the connection", PROBED), ("without", INTERNAL)):
        yield f"| {label} | {statistics.median(seen[name]):.0f} | {statistics.quantiles(seen[name], n=100)[98]:.0f} |"
    yield ""


def _internal(at: dict[str, object]) -> dict[str, str]:
    """Describe the same server as a connection of the deployment's own, which is not probed."""
    known = {
        "CONFIG_NAME": INTERNAL,
        "TYPE": "POSTGRESQL",
        "HOST": at["host"],
        "PORT": at["port"],
        "DATABASE": at["database"],
        "USER": at["user"],
        "PASSWORD": at["password"],
    }
    return {f"DATASOURCE_1_{name}": str(value) for name, value in known.items()}


def _posted(service: Rig, name: str) -> float:
    """Return the milliseconds until the job was accepted; each is another one, so none is found a duplicate."""
    body = {
        "dataRequest": {"mappedFields": {name: {"public.accounts": ["id"]}}},
        "metadata": {"source": "payments", "correlationId": secrets.token_hex(8)},
    }
    began = time.perf_counter()
    answer = service.post(body)
    took = time.perf_counter() - began
    if answer.status != 202:
        raise RuntimeError(f"a job was answered with {answer.status}: {answer.text}")
    return took * 1000
