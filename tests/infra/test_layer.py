"""The layer that `make build` makes: small enough, complete, and free of what has no business in it."""

from pathlib import Path

import pytest

from infra.layer import LAMBDA, LIMIT, build, copy_package, size


@pytest.fixture(scope="module")
def packages() -> Path:
    """Build the layer as `make build` does; only a changed lock installs again."""
    return build(LAMBDA) / "python"


def test_it_stays_under_120_mb_unzipped(packages: Path) -> None:
    """R-AWS-6: Lambda takes 250 MB, functions and layers together."""
    assert size(packages.parent) < LIMIT == 120_000_000


@pytest.mark.parametrize(
    "name", ["fetcher", "aws_lambda_powertools", "pydantic", "orjson", "psycopg", "psycopg_binary", "pymysql",
             "oracledb", "pymongo", "cryptography"],
)  # fmt: skip
def test_it_brings_what_the_functions_import(packages: Path, name: str) -> None:
    assert (packages / name / "__init__.py").exists()


def test_it_brings_the_driver_of_sql_server(packages: Path) -> None:
    """R-AWS-6: the module is one file; what it loads lies beside the packages, and counts too."""
    assert list(packages.glob("pyodbc.cpython-313-*.so"))
    assert list((packages.parent / "lib").glob("libmsodbcsql-18*"))


@pytest.mark.parametrize("name", ["fetcher_cli", "boto3", "botocore", "typer", "rich", "pytest", "bin"])
def test_it_leaves_out_what_lambda_has_or_never_needs(packages: Path, name: str) -> None:
    assert not (packages / name).exists()


def test_its_binaries_are_for_lambdas_python(packages: Path) -> None:
    tags = {part for path in packages.rglob("*.so") for part in path.name.split(".") if part.startswith("cpython-")}
    assert tags == {"cpython-313-x86_64-linux-gnu"}


def test_it_holds_no_bytecode_and_no_tests(packages: Path) -> None:
    assert not [path for path in packages.rglob("*") if path.name in {"__pycache__", "tests", "test"}]


def test_a_removed_module_leaves_the_layer_too(tmp_path: Path) -> None:
    (tmp_path / "fetcher").mkdir()
    (tmp_path / "fetcher" / "gone.py").touch()
    copy_package(tmp_path / "fetcher")
    assert not (tmp_path / "fetcher" / "gone.py").exists()
    assert (tmp_path / "fetcher" / "model.py").exists()
