"""`fetcher doctor` and `kinds`."""

import pytest

from tests.commandline import JOBS, Reply, Server, run, with_api

pytestmark = [pytest.mark.enable_socket, pytest.mark.usefixtures("at_home")]


def ready(server: Server, **states: str) -> None:
    checks = {name: {"status": state, "latencyMs": 1} for name, state in {"bucket": "up", **states}.items()}
    server.on("GET", "/version", Reply(body={"version": "0.1.0"}))
    server.on("GET", f"{JOBS}?limit=1", Reply(body={"items": []}))
    healthy = all(state == "up" for state in states.values())
    server.on("GET", "/readyz", Reply(200 if healthy else 503, {"checks": checks}))


def test_doctor_is_content(server: Server) -> None:
    ready(server)
    result = with_api(server, "doctor")
    assert result.exit_code == 0, result.output
    assert "missing" not in result.stdout
    assert "ok       service → bucket: up (1 ms)" in result.stdout


def test_doctor_names_what_is_missing_and_what_to_do(server: Server) -> None:
    ready(server, workQueue="down")
    server.on("GET", f"{JOBS}?limit=1", Reply(401, {"message": "Unauthorized"}))
    result = with_api(server, "doctor")
    assert result.exit_code == 1
    for part in ("missing  service → workQueue", "missing  access", "set FETCHER_TOKEN", "role"):
        assert part in result.stdout


def test_doctor_without_an_api_says_so(server: Server) -> None:
    assert "missing  address" in run("doctor").stdout
    server.close()
    result = with_api(server, "doctor")
    assert (result.exit_code, "missing  API" in result.stdout) == (1, True)


def test_doctor_finds_a_driver_that_cannot_be_loaded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(kind: str) -> None:
        raise ModuleNotFoundError("No module named 'driver'", name="driver")

    ready(server)
    monkeypatch.setattr("fetcher.engines.engine", without)
    result = with_api(server, "doctor")
    assert (result.exit_code, "cannot be loaded: No module named 'driver'" in result.stdout) == (1, True)


def test_kinds_lists_the_engines() -> None:
    assert "postgresql" in run("kinds").stdout.splitlines()
