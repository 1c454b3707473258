"""Starts the embedded AWS endpoint: one process, one port of 127.0.0.1, nothing outside its folder."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import boto3
import urllib3

from infra.local.places import ENDPOINT_PYTHON, StackError, need
from infra.local.processes import Process, free_port, spawn, tail

REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The endpoint's root user: no secret, and known to the endpoint alone."""

LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where AWS answers. On the embedded one, handlers run under our own runtime client."""

    url: str
    embedded: bool

    def session(self) -> boto3.Session:
        """Open a session: root on our own endpoint; on another, whatever the caller has configured."""
        if self.embedded:
            return _root()
        known = boto3.Session()
        return known if known.get_credentials() and known.region_name else _root()


def _root() -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )


def start(folder: Path, *, seconds: float = 30) -> tuple[Endpoint, Process]:
    """Start an endpoint that keeps everything in `folder`, and wait until it answers.

    It enforces the template's IAM roles unless the environment says `AUTH=false`.
    """
    python = need(ENDPOINT_PYTHON, "make venvs")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # -P: the launcher's folder is no place to import from.
    command = [str(python), "-P", str(LAUNCHER)]
    process = spawn("endpoint", command, env=_environment(folder, port), folder=folder)
    try:
        _wait(url, process, folder, seconds)
    except BaseException:
        process.stop()
        raise
    return Endpoint(url, embedded=True), process


def _wait(url: str, process: Process, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _ready(url):
        if not process.alive() or time.monotonic() > deadline:
            raise StackError(f"The AWS endpoint did not start on {url}. Its log ends:\n{tail(folder / 'endpoint.log')}")
        time.sleep(0.05)


def _environment(folder: Path, port: int) -> dict[str, str]:
    """Give it nothing of the developer's own environment: handlers inherit what it has."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
        "AUTH": os.environ.get("AUTH", "true"),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "localhost",
        "MINISTACK_REGION": REGION,
        # Else it listens for MQTT on every interface.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": REGION,
        **CREDENTIALS,
    }


def _ready(url: str) -> bool:
    try:
        answer = urllib3.request("GET", f"{url}/_ministack/ready", timeout=1, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 200
