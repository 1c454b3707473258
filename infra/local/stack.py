"""`up` and `down`: one local stack in one folder, described by one file that any program can read."""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import boto3

from fetcher.core.seal import KeyRing
from fetcher.core.tenants import DEFAULT_TENANT
from infra.local import endpoint as embedded
from infra.local import mariadb, postgresql, sample, secantus
from infra.local.deploy import Deployment, deploy, remove
from infra.local.endpoint import Endpoint
from infra.local.places import Place, StackError
from infra.local.processes import Process

Description = dict[str, Any]
"""The content of the stack file."""


@dataclass(slots=True)
class Started:
    """What `up` started so far, saved at each step so that `down` ends exactly this, whenever `up` died."""

    place: Place
    url: str = ""
    deployment: str = ""
    databases: str = ""
    processes: list[Process] = field(default_factory=list)

    @classmethod
    def load(cls, place: Place) -> "Started":
        """Read the record; an absent one says that nothing was started."""
        if not place.record.exists():
            return cls(place)
        record = json.loads(place.record.read_text())
        record["processes"] = [Process(**process) for process in record["processes"]]
        return cls(place, **record)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint it runs on; on somebody else's, the deployment has a name of its own."""
        return Endpoint(self.url, embedded=not self.deployment)

    def save(self) -> None:
        """Write the record, whole or not at all."""
        processes = [asdict(process) for process in self.processes]
        record = {"url": self.url, "deployment": self.deployment, "databases": self.databases, "processes": processes}
        write(self.place.record, record)


def up(place: Place, parameters: Mapping[str, str] | None = None) -> Description:
    """Start everything, deploy, and write the stack file. On any failure, end what was started and raise."""
    if any(process.alive() for process in Started.load(place).processes):
        end = f'make down ARGS="--file {place.file}"'
        raise StackError(f"A stack is running already: end it with `{end}` first")
    down(place)
    place.folder.mkdir(parents=True)
    started = Started(place)
    try:
        endpoint = _find_endpoint(started)
        deployment = deploy(endpoint, started.deployment or "fetcher", parameters or {})
        databases = _start_databases(started)
        description = describe(endpoint, deployment, databases)
        write(place.file, description)
    except BaseException:
        down(place, keep_logs=True)
        raise
    return description


def down(place: Place, *, keep_logs: bool = False) -> None:
    """End what `up` started here and remove its files; nothing else is touched."""
    started = Started.load(place)
    for process in reversed(started.processes):
        if process.name == "postgresql" and process.alive():
            postgresql.stop(Path(started.databases))
        process.stop()
    if started.deployment:
        remove(started.endpoint, started.deployment)
    if started.databases:
        shutil.rmtree(started.databases, ignore_errors=True)
    place.file.unlink(missing_ok=True)
    place.record.unlink(missing_ok=True)
    if not keep_logs:
        shutil.rmtree(place.folder, ignore_errors=True)


@contextmanager
def running(place: Place, parameters: Mapping[str, str] | None = None) -> Iterator[Description]:
    """Keep a stack up for the length of a block."""
    description = up(place, parameters)
    try:
        yield description
    finally:
        down(place)


def session(place: Place) -> boto3.Session:
    """Open a session that may do everything on the endpoint of a running stack."""
    return Started.load(place).endpoint.session()


def describe(endpoint: Endpoint, deployment: Deployment, databases: Mapping[str, Any]) -> Description:
    """Say everything that an outsider needs to drive the stack and to verify its results."""
    outputs = deployment.outputs
    return {
        "apiUrl": deployment.api_url,
        "endpointUrl": endpoint.url,
        "region": endpoint.session().region_name,
        "bucket": outputs["BucketName"],
        "tables": {"main": outputs["MainTableName"], "connections": outputs["ConnectionsTableName"]},
        "bus": outputs["BusName"],
        "eventsQueueUrl": outputs["EveryEventQueueUrl"],
        "queues": {
            "work": outputs["WorkQueueUrl"],
            "workDead": outputs["WorkDeadQueueUrl"],
            "notifications": outputs["NotificationsQueueUrl"],
            "notificationsDead": outputs["NotificationsDeadQueueUrl"],
        },
        "verifyKeyHex": _verify_key(endpoint, outputs["MasterSecretArn"]).hex(),
        "databases": dict(databases),
    }


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON so that a reader sees the old file or the new one; only its owner may read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(content, indent=2) + "\n")
    fresh.replace(file)


def _find_endpoint(started: Started) -> Endpoint:
    """Use the endpoint that `AWS_ENDPOINT_URL` names, else start our own."""
    if given := os.environ.get("AWS_ENDPOINT_URL"):
        started.url = given.rstrip("/")
        started.deployment = f"fetcher-{secrets.token_hex(3)}"
    else:
        endpoint, process = embedded.start(started.place.folder)
        started.url = endpoint.url
        started.processes.append(process)
    started.save()
    return started.endpoint


def _start_databases(started: Started) -> dict[str, Any]:
    """Start a server of each kind that this machine can have, filled, and say where they are."""
    served = _start_postgresql(started)
    databases = {"my_postgres": _address("postgresql", served, sample.DATABASE)}
    documents = _start_mongodb(started)
    databases["my_mongo"] = _address("mongodb", documents, documents.database)
    if mariadb.installed():
        rows = _start_mariadb(started)
        databases["my_mariadb"] = _address("mysql", rows, rows.database)
    return databases


def _start_mongodb(started: Started) -> secantus.Server:
    server = secantus.start(started.place.folder / "mongodb")
    started.processes.append(secantus.process(server.folder))
    started.save()
    sample.fill_collections(server)
    return server


def _start_mariadb(started: Started) -> mariadb.Server:
    server = mariadb.start(Path(started.databases) / "mariadb")
    running_as = mariadb.pid(server.folder)
    if running_as is None:
        raise StackError("MariaDB ended as soon as it had started")
    started.processes.append(Process.of("mariadb", running_as))
    started.save()
    sample.fill_cards(server)
    return server


def _start_postgresql(started: Started) -> postgresql.Server:
    # Not in the stack's folder: as root the server runs as `nobody`, who may not enter every checkout.
    folder = Path(tempfile.mkdtemp(prefix="fetcher-postgresql-"))
    started.databases = str(folder)
    started.save()
    try:
        server = postgresql.start(folder)
    except BaseException:
        postgresql.stop(folder)
        raise
    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    started.processes.append(Process.of("postgresql", pid))
    started.save()
    sample.fill(server)
    return server


def _address(kind: str, server: postgresql.Server | secantus.Server | mariadb.Server, database: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "database": database,
    }


def _verify_key(endpoint: Endpoint, secret: str) -> bytes:
    client = endpoint.session().client("secretsmanager", endpoint_url=endpoint.url)
    ring = KeyRing.parse(client.get_secret_value(SecretId=secret)["SecretString"])
    return ring.signing_key(ring.current, DEFAULT_TENANT)
