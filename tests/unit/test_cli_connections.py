"""`fetcher connections`: create, list, test, delete."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import CONNECTION, CONNECTIONS, Reply, Server, problem, with_api

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]

CREATE = (
    "connections", "create", "--name", "my_postgres", "--type", "postgresql", "--host", "db.example.com",
    "--database", "payments", "--user", "reader", "--product", "payments",
)  # fmt: skip


@pytest.mark.parametrize("way", ["prompt", "stdin", "environment"])
def test_create_registers_a_connection_and_never_shows_the_password(server: Server, way: str) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    more = ["--password-stdin"] if way == "stdin" else []
    env = {"FETCHER_PASSWORD": "s3cret"} if way == "environment" else {}
    result = with_api(server, *CREATE, *more, input=None if env else "s3cret\n", env=env)
    assert (result.exit_code, result.stdout.split()) == (0, [CONNECTION])
    assert "s3cret" not in result.output
    assert server.sent[0].headers["X-Product-Name"] == "payments"
    assert json.loads(server.sent[0].body) == {
        "configName": "my_postgres",
        "type": "POSTGRESQL",
        "host": "db.example.com",
        "port": 5432,
        "databaseName": "payments",
        "userName": "reader",
        "password": "s3cret",
    }


def test_create_takes_tls_schema_port_and_metadata(server: Server, tmp_path: Path) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    (tmp_path / "ca.pem").write_text("PEM")
    more = ["--tls-mode", "verify-full", "--tls-ca", "ca.pem", "--schema", "app", "--port", "6543"]
    more += ["--metadata", "serviceName=X"]
    assert with_api(server, *CREATE, *more, input="x\n").exit_code == 0
    sent = json.loads(server.sent[0].body)
    assert sent["ssl"] == {"mode": "verify-full", "ca": "PEM"}
    assert (sent["schema"], sent["port"], sent["metadata"]) == ("app", 6543, {"serviceName": "X"})


@pytest.mark.parametrize("kind", ["sqlserver", "SQL_SERVER", "Sql_Server"])
def test_create_spells_the_kind_as_the_api_does(server: Server, kind: str) -> None:
    server.on("POST", CONNECTIONS, Reply(201, {"id": CONNECTION}))
    with_api(server, *CREATE, "--type", kind, input="x\n")
    sent = json.loads(server.sent[0].body)
    assert (sent["type"], sent["port"]) == ("SQL_SERVER", 1433)


@pytest.mark.parametrize("wrong", [["--metadata", "x"], ["--tls-key", "ca.pem"], ["--password", "x"]])
def test_create_refuses_what_it_cannot_use(server: Server, tmp_path: Path, wrong: list[str]) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    assert with_api(server, *CREATE, *wrong, input="x\n").exit_code == 2
    assert server.sent == []


def test_create_wants_a_product(server: Server) -> None:
    result = with_api(server, *CREATE[:-2], input="x\n")
    assert (result.exit_code, "FETCHER_PRODUCT" in result.stderr) == (2, True)


def test_a_taken_name_is_shown_as_the_api_says_it(server: Server) -> None:
    server.on("POST", CONNECTIONS, problem(409, "FET-1002", "the name 'my_postgres' is in use; choose another"))
    result = with_api(server, *CREATE, input="x\n")
    assert (result.exit_code, "FET-1002" in result.stderr) == (2, True)


def stored_connection(name: str = "my_postgres", **more: Any) -> dict[str, Any]:
    shown = {"id": CONNECTION, "configName": name, "type": "POSTGRESQL", "host": "h", "port": 1, "databaseName": "d"}
    return {**shown, **more}


def test_list_walks_all_pages(server: Server) -> None:
    first = {"items": [stored_connection(productName="payments")], "next": "a=b"}
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body=first))
    server.on("GET", f"{CONNECTIONS}?limit=100&cursor=a%3Db", Reply(body={"items": [stored_connection("other")]}))
    result = with_api(server, "connections", "list", "--product", "payments")
    assert result.stdout.splitlines() == [
        f"{CONNECTION}\tmy_postgres\tPOSTGRESQL\th:1\td\tpayments",
        f"{CONNECTION}\tother\tPOSTGRESQL\th:1\td\t",
    ]
    assert {sent.headers["X-Product-Name"] for sent in server.sent} == {"payments"}
    as_json = with_api(server, "connections", "list", "--json").stdout
    assert [item["configName"] for item in json.loads(as_json)] == ["my_postgres", "other"]


@pytest.mark.parametrize("chosen", [CONNECTION, "my_postgres"])
def test_a_connection_is_tested_by_id_or_by_name(server: Server, chosen: str) -> None:
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body={"items": [stored_connection()]}))
    good = Reply(body={"status": "success", "message": "the connection works", "latencyMs": 3})
    bad = {"status": "failure", "code": "FET-2020", "reason": "refused", "message": "no", "latencyMs": 3}
    server.on("POST", f"{CONNECTIONS}/{CONNECTION}/test", good, Reply(body=bad))
    assert with_api(server, "connections", "test", chosen).exit_code == 0
    result = with_api(server, "connections", "test", chosen)
    assert (result.exit_code, "FET-2020 (refused): no" in result.stderr) == (1, True)


def test_an_unknown_name_is_a_usage_error(server: Server) -> None:
    server.on("GET", f"{CONNECTIONS}?limit=100", Reply(body={"items": []}))
    assert with_api(server, "connections", "test", "nobody").exit_code == 2


def test_delete_asks_first(server: Server) -> None:
    server.on("DELETE", f"{CONNECTIONS}/{CONNECTION}", Reply(204))
    assert with_api(server, "connections", "delete", CONNECTION, input="n\n").exit_code == 1
    assert server.sent == []
    assert with_api(server, "connections", "delete", CONNECTION, input="y\n").exit_code == 0
    assert with_api(server, "connections", "delete", CONNECTION, "--yes").exit_code == 0
    assert [sent.method for sent in server.sent] == ["DELETE", "DELETE"]
