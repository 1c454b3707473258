"""The driver is in the layer: a layer built by the same recipe loads it, and takes nothing of it from elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import odbc

LOADED = """
import json, pyodbc
from pathlib import Path
try:
    pyodbc.connect("DRIVER={%s};SERVER=tcp:127.0.0.1,1;UID=x;PWD=x;Encrypt=no", timeout=1)
except pyodbc.Error as error:
    state = error.args[0]
maps = Path("/proc/self/maps").read_text().split("\\n")
print(json.dumps([state, sorted({line.split()[-1] for line in maps if ".so" in line})]))
"""
NAMES = ("libodbc.", "libodbcinst.", "libltdl.", "libkrb5", "libk5crypto.", "libgssapi_krb5.", "libcom_err.",
         "libkeyutils.", "libmsodbcsql-")  # fmt: skip


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layer")
    odbc.put(folder)
    return folder


def test_the_driver_loads_from_the_layer_and_from_nothing_else(layer: Path) -> None:
    """R-AWS-6. `/opt/lib` is on the loader's path in Lambda: a closed port is answered by Microsoft's driver."""
    driver = next((layer / "lib").glob("libmsodbcsql-18*"))
    env = {"LD_LIBRARY_PATH": str(layer / "lib"), "ODBCSYSINI": str(layer / "etc"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", LOADED % driver], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    state, loaded = json.loads(done.stdout)
    assert state in {"HYT00", "08001"}
    ours = [path for path in loaded if Path(path).name.startswith(NAMES)]
    assert {name for name in NAMES if any(Path(path).name.startswith(name) for path in ours)} == set(NAMES)
    assert all(path.startswith(str(layer)) for path in ours)


def test_the_settings_name_the_driver_where_lambda_has_it(layer: Path) -> None:
    driver = next((layer / "lib").glob("libmsodbcsql-18*"))
    assert (layer / "etc" / "odbcinst.ini").read_text() == f"[{odbc.NAME}]\nDriver = /opt/lib/{driver.name}\n"


def test_it_is_small_and_brings_its_licence(layer: Path) -> None:
    assert sum(path.stat().st_size for path in layer.rglob("*") if path.is_file()) < 6_000_000
    assert list((layer / "share").glob("*LICENSE*"))


def test_nothing_in_it_needs_a_newer_glibc_than_lambdas(layer: Path) -> None:
    """Amazon Linux 2023 has 2.34."""
    for library in (layer / "lib").iterdir():
        needed = {part for part in library.read_bytes().split(b"\0") if part.startswith(b"GLIBC_2.")}
        assert max((int(each.split(b".")[1]) for each in needed), default=0) <= 34, library.name
