"""The folder is the registry, and a kind is one module in it (design §7.1)."""

from importlib import import_module

import pytest

from fetcher.engines import engine, kinds
from fetcher.errors import InvalidRequestError
from infra.local.places import ROOT
from tests.contract.conftest import KINDS


def test_the_folder_is_the_registry() -> None:
    """A kind is a module; an unknown one is named together with the known ones."""
    assert "postgresql" in kinds()
    with pytest.raises(InvalidRequestError, match=r"'dbase'.*postgresql"):
        engine("dbase")


def test_a_sixth_kind_is_one_module_and_one_fixture() -> None:
    """Design §7.1: the shared suite runs on that one too, and nothing else has heard of it."""
    folders = [ROOT / "layers" / "engine" / "fetcher", ROOT / "functions", ROOT / "tests" / "contract"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert {str(file.relative_to(ROOT)) for file in files if "sqlite" in file.read_text().lower()} == {
        "tests/contract/engines/sqlite.py",
        "tests/contract/kinds/sqlite.py",
        "tests/contract/test_registry.py",
    }
    assert "sqlite" in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_leaves_out_is_there(kind: str) -> None:
    """A shared test, or a module of them, that got another name would quietly be no exception any more."""
    modules = {file.stem: file.read_text() for file in (ROOT / "tests" / "contract").glob("test_*.py")}
    for name, reason in getattr(import_module(f"tests.contract.kinds.{kind}"), "DIFFERENT", {}).items():
        bare = name.partition("[")[0]
        is_test = name.startswith("test_")  # else it is something that the server does and a stand-in does not
        assert reason
        assert not is_test or bare in modules or any(f"def {bare}(" in text for text in modules.values()), name
