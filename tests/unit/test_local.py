"""The parts of the local stack that need no stack: processes, places, archives, expansion, logs."""

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, ClassVar

import pytest

from infra.local import archive, logs
from infra.local.__main__ import main
from infra.local.expand import PROVIDED, expand
from infra.local.places import ROOT, TEMPLATE, Place, StackError, need
from infra.local.processes import Process, spawn, tail


def test_a_process_is_stopped_once_and_its_successor_is_left_alone(tmp_path: Path) -> None:
    process = spawn("sleeper", ["sleep", "60"], env={"PATH": os.defpath}, folder=tmp_path)
    successor = Process(process.name, process.pid, process.started - 1)
    assert process.alive()
    assert not successor.alive()
    successor.stop()
    assert process.alive()
    process.stop()
    assert not process.alive()
    process.stop()


def test_what_a_process_prints_is_in_its_log(tmp_path: Path) -> None:
    process = spawn("talker", ["sh", "-c", "echo out; echo err >&2"], env={"PATH": os.defpath}, folder=tmp_path)
    while process.alive():
        time.sleep(0.01)
    assert tail(tmp_path / "talker.log").splitlines() == ["out", "err"]
    assert tail(tmp_path / "absent.log") == ""


def test_a_process_that_is_over_is_not_alive(tmp_path: Path) -> None:
    gone = spawn("sleeper", ["sleep", "60"], env={"PATH": os.defpath}, folder=tmp_path)
    gone.stop()
    assert not Process.of("sleeper", gone.pid).alive()


def test_the_stack_file_is_as_given_then_of_the_environment_then_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FETCHER_STACK_FILE", raising=False)
    assert Place.of().file == ROOT / ".local" / "stack.json"
    monkeypatch.setenv("FETCHER_STACK_FILE", "/somewhere/else.json")
    assert Place.of() == Place(Path("/somewhere/else.json"))
    assert Place.of("/given.json").folder == Path("/given")


def test_what_is_missing_comes_with_the_command_that_makes_it() -> None:
    with pytest.raises(StackError, match=r"^nowhere is missing: run `make venvs` first$"):
        need(ROOT / "nowhere", "make venvs")


def test_the_same_code_makes_the_same_archive_with_a_bootstrap() -> None:
    packed = archive.functions_with_runtime()
    assert packed == archive.functions_with_runtime()
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert {"bootstrap", "submit/app.py", "extract/app.py", "notify/app.py", "fetcher/model.py"} <= set(names)
    assert not [name for name in names if name.startswith("fetcher_cli")]


def test_packed_modules_are_not_compiled_again(tmp_path: Path) -> None:
    """Each has its bytecode, of this interpreter, and Python takes it without looking at the source."""
    with zipfile.ZipFile(io.BytesIO(archive.functions_with_runtime())) as packed:
        packed.extractall(tmp_path)
    modules = list(tmp_path.rglob("*.py"))
    compiled = [Path(cache_from_source(str(module))) for module in modules]
    assert modules
    assert all(file.exists() for file in compiled)
    (tmp_path / "fetcher" / "errors.py").write_text("raise SystemExit('compiled again')")
    code = "import fetcher.errors; print(fetcher.errors.UnavailableError.__mro__[1].__name__)"
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "FetcherError\n"


def test_functions_are_packed_alone_for_an_endpoint_with_the_managed_runtime() -> None:
    names = zipfile.ZipFile(io.BytesIO(archive.functions())).namelist()
    assert "submit/app.py" in names
    assert not [name for name in names if name.startswith(("bootstrap", "fetcher/"))]


def _expanded(layer: str | None) -> dict[str, Any]:
    template = expand(TEMPLATE, {"Stage": "local"}, code="s3://b/code.zip", layer=layer, region="us-east-1")
    resources: dict[str, Any] = template["Resources"]
    return resources


def _functions(resources: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["Properties"] for part in resources.values() if part["Type"] == "AWS::Lambda::Function"]


def test_functions_bring_their_runtime_to_the_embedded_endpoint() -> None:
    resources = _expanded(None)
    functions = _functions(resources)
    assert {function["Runtime"] for function in functions} == {PROVIDED}
    assert {function["Handler"] for function in functions} >= {"submit.app.handler", "extract.app.handler"}
    assert not [function for function in functions if "Layers" in function]
    assert "AWS::Lambda::LayerVersion" not in {part["Type"] for part in resources.values()}


def test_functions_keep_the_managed_runtime_and_the_layer_elsewhere() -> None:
    resources = _expanded("s3://b/layer.zip")
    assert {function["Runtime"] for function in _functions(resources)} == {"python3.13"}
    [layer] = [part for part in resources.values() if part["Type"] == "AWS::Lambda::LayerVersion"]
    assert layer["Properties"]["Content"] == {"S3Bucket": "b", "S3Key": "layer.zip"}


class _Logs:
    """Two log groups, the way the endpoint lists them."""

    groups: ClassVar = {
        "/aws/lambda/fetcher/submit": [
            "START RequestId: 1",
            json.dumps({"level": "ERROR", "message": "a defect", "exception": "Traceback:\n  here"}),
            '{"_aws": {}}',
            "plain",
            "END RequestId: 1",
        ],
        "/aws/lambda/fetcher/notify": ["another function's"],
    }

    def describe_log_groups(self) -> Any:
        return {"logGroups": [{"logGroupName": name} for name in self.groups]}

    def filter_log_events(self, *, logGroupName: str) -> Any:  # noqa: N803 - the name is boto3's
        return {"events": [{"message": message} for message in self.groups[logGroupName]]}


def test_a_handlers_log_is_shown_as_people_read_it() -> None:
    client: Any = _Logs()
    assert logs.tail(client, "submit") == "ERROR a defect\nTraceback:\n  here\nplain"


def test_a_parameter_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["up", "--set", "Stage"])
    assert "is not NAME=VALUE" in capsys.readouterr().err
