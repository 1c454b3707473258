"""The commands of connections: create, list, test, delete."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode
from uuid import UUID

import typer

from fetcher.core.kinds import API_KINDS, API_NAMES, PORTS
from fetcher_cli import console
from fetcher_cli.api import Api, connect
from fetcher_cli.errors import FailedError, UsageError
from fetcher_cli.options import Api as ApiOption
from fetcher_cli.options import Iam, Json, Product

PATH = "/v1/management/connections"
PASSWORD = "FETCHER_PASSWORD"  # noqa: S105 - the variable's name
COLUMNS = ("id", "name", "type", "address", "database", "product")

app = typer.Typer(help="Register, list, test and delete connections.", no_args_is_help=True, rich_markup_mode=None)
Chosen = Annotated[str, typer.Argument(metavar="CONNECTION", help="Its id or its name.")]
Pem = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="PEM file.")]


@app.command()
def create(
    *,
    name: Annotated[str, typer.Option("--name", help="What requests call it.")],
    kind: Annotated[str, typer.Option("--type", help=f"One of {', '.join(API_KINDS.values())}.")],
    host: Annotated[str, typer.Option("--host")],
    database: Annotated[str, typer.Option("--database")],
    user: Annotated[str, typer.Option("--user")],
    port: Annotated[int | None, typer.Option("--port", help="Default: the usual one of the type.")] = None,
    schema: Annotated[str | None, typer.Option("--schema")] = None,
    tls_mode: Annotated[str | None, typer.Option("--tls-mode")] = None,
    tls_ca: Pem = None,
    tls_cert: Pem = None,
    tls_key: Pem = None,
    metadata: Annotated[list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE")] = None,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")] = False,
    product: Product = None,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """Register a connection and print its id.

    The password is asked for, or read from stdin or from FETCHER_PASSWORD; it is never an argument.
    """
    if product is None:
        raise UsageError("Whose connection is it? Pass --product NAME or set FETCHER_PRODUCT.")
    body = {
        "configName": name,
        "type": _api_kind(kind),
        "host": host,
        "port": port or PORTS.get(_api_kind(kind), 0),
        "databaseName": database,
        "userName": user,
        "schema": schema,
        "ssl": _tls(tls_mode, tls_ca, tls_cert, tls_key),
        "metadata": dict(map(_pair, metadata or [])) or None,
    }
    given = {member: value for member, value in body.items() if value is not None}
    given["password"] = _password(from_stdin=password_stdin)
    with connect(api, iam=iam) as client:
        answer = client.post(PATH, json.dumps(given).encode(), {"X-Product-Name": product})
    console.raw(str(answer.json()["id"]))


@app.command("list")
def list_(product: Product = None, json_: Json = False, api: ApiOption = None, iam: Iam = False) -> None:
    """List connections, newest first."""
    with connect(api, iam=iam) as client:
        found = list(listed(client, product))
    if json_:
        console.raw(json.dumps(found, ensure_ascii=False))
        return
    console.table(COLUMNS, [_row(connection) for connection in found])


@app.command("test")
def probe(connection: Chosen, api: ApiOption = None, iam: Iam = False) -> None:
    """Open a real connection from the service; exit 1 if that fails."""
    with connect(api, iam=iam) as client:
        seen = client.post(f"{PATH}/{_identity(client, connection)}/test").json()
    if seen["status"] != "success":
        raise FailedError(f"{seen['code']} ({seen['reason']}): {seen['message']}")
    console.out().print(f"{seen['message']} ({seen['latencyMs']} ms)")


@app.command()
def delete(
    connection: Chosen,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    api: ApiOption = None,
    iam: Iam = False,
) -> None:
    """Delete a connection that no running job uses."""
    with connect(api, iam=iam) as client:
        identity = _identity(client, connection)
        if not yes:
            typer.confirm(f"Delete {connection}?", abort=True, err=True)
        client.send("DELETE", f"{PATH}/{identity}")
    console.out().print(f"deleted {identity}")


def listed(client: Api, product: str | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield every connection that the caller may see, page by page."""
    headers = {"X-Product-Name": product} if product else {}
    query = {"limit": "100"}
    while True:
        page = client.get(f"{PATH}?{urlencode(query)}", headers).json()
        yield from page["items"]
        if "next" not in page:
            return
        query["cursor"] = page["next"]


def _identity(client: Api, chosen: str) -> str:
    """Return the id of a connection given by id or by name."""
    try:
        return str(UUID(chosen))
    except ValueError:
        pass
    for connection in listed(client):
        if connection["configName"] == chosen:
            return quote(str(connection["id"]), safe="")
    raise UsageError(f"There is no connection {chosen!r}; see `fetcher connections list`.")


def _row(connection: Mapping[str, Any]) -> list[str]:
    return [
        str(connection["id"]),
        str(connection["configName"]),
        str(connection["type"]),
        f"{connection['host']}:{connection['port']}",
        str(connection["databaseName"]),
        str(connection.get("productName", "")),
    ]


def _api_kind(kind: str) -> str:
    """Write a kind as the API does, however it was written; the API refuses one that it does not know."""
    return API_NAMES.get(kind.lower().replace("_", ""), kind.upper())


def _tls(mode: str | None, ca: Path | None, cert: Path | None, key: Path | None) -> dict[str, str] | None:
    files = {"ca": ca, "cert": cert, "key": key}
    given = {member: path.read_text() for member, path in files.items() if path is not None}
    if mode is None:
        if given:
            raise UsageError("TLS files need --tls-mode.")
        return None
    return {"mode": mode, **given}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--metadata takes NAME=VALUE, not {text!r}.")
    return name, value


def _password(*, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return os.environ.get(PASSWORD) or str(typer.prompt("Password", hide_input=True, err=True))
