"""One server a kind and run, and the words in which the suite reads from it."""

import json
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from fetcher import engines
from fetcher.engines import engine, kinds
from fetcher.model import WILDCARD, Column, Connection, Page, Position, Query, Secret, TypedCondition
from fetcher.ports import Session
from tests.contract.kinds import Source

APPLICATION = "contract"
HERE = Path(__file__).parent


OURS = HERE / "engines"
"""A folder of engines that only the tests have, each a module as in `fetcher.engines`."""
KINDS = (*kinds(), *(module.name for module in pkgutil.iter_modules([str(OURS)])))


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name each kind in turn; the registry knows the tests' own only meanwhile, not in other modules of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "__path__", [*engines.__path__, str(OURS)])
        yield str(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the shared tests, and whole modules of them, that a kind's nature rules out."""
    replaced = [item for item in items if _replaced(item)]
    config.hook.pytest_deselected(items=replaced)
    items[:] = [item for item in items if item not in replaced]


def _replaced(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or HERE not in item.path.parents or not hasattr(item, "callspec"):
        return False
    kind = item.callspec.params.get("kind")
    if kind not in KINDS:
        return False
    different = getattr(import_module(f"tests.contract.kinds.{kind}"), "DIFFERENT", {})
    return not different.keys().isdisjoint({item.name, item.originalname, item.path.stem})


@pytest.fixture(scope="session")
def sources() -> Iterator[Callable[[str], Source]]:
    """Serve a kind when it is first asked for, and keep it for the run."""
    served: dict[str, Source] = {}
    with ExitStack() as stack:

        def source_of(kind: str) -> Source:
            if kind not in served:
                served[kind] = stack.enter_context(import_module(f"tests.contract.kinds.{kind}").serving())
            return served[kind]

        yield source_of


@pytest.fixture(scope="module")
def source(kind: str, sources: Callable[[str], Source]) -> Source:
    return sources(kind)


@pytest.fixture
def session(source: Source) -> Iterator[Session]:
    with engine(source.to.kind).connect(source.to, source.secret, seconds=60, application=APPLICATION) as opened:
        yield opened


@pytest.fixture
def application() -> str:
    """A name of its own, for tests that look at the server's side of their session."""
    return f"contract {next(_numbers)}"


_numbers = count(1)

Filter = tuple[str, Any, tuple[Any, ...]]


class Placed(Protocol):
    """A server that can be connected to."""

    @property
    def to(self) -> Connection:
        """Where it is."""
        ...

    @property
    def secret(self) -> Secret:
        """What it takes."""
        ...


class Reader:
    """Plans and reads as the core does, from discovered tables."""

    def __init__(self, session: Session, source: Placed) -> None:
        self.session, self.source = session, source
        self.naming = engine(source.to.kind).NAMING

    def plan(self, name: str, fields: Sequence[str] = WILDCARD, *filters: Filter, page_bytes: int = 2000) -> Query:
        catalog = self.session.discover(self.naming.scope([name], self.source.to))
        path = self.naming.resolve(name, catalog, self.source.to)
        assert path is not None, name
        table = catalog.tables[path]

        def column(field: str) -> Column:
            found = table.column(field)
            assert found is not None, field
            return found

        return Query(
            name=name,
            path=path,
            columns=table.columns if tuple(fields) == WILDCARD else tuple(map(column, fields)),
            key=tuple(map(column, table.key)),
            conditions=tuple(TypedCondition(column(field), verb, values) for field, verb, values in filters),
            page_bytes=page_bytes,
        )

    def pages(self, query: Query, after: Position | None = None) -> list[Page]:
        return list(self.session.read(query, after))

    def rows(self, name: str, fields: Sequence[str] = WILDCARD, *filters: Filter) -> list[dict[str, Any]]:
        return rows_of(self.pages(self.plan(name, fields, *filters)))

    def ids(self, name: str, *filters: Filter) -> list[int]:
        return [row["id"] for row in self.rows(name, ["id"], *filters)]


@pytest.fixture
def reader(session: Session, source: Source) -> Reader:
    return Reader(session, source)


def rows_of(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """Decode pages, checking what every page promises."""
    decoded = [json.loads(b"[" + page.body + b"]") for page in pages]
    assert [len(rows) for rows in decoded] == [page.rows for page in pages]
    assert all(decoded)
    return [row for rows in decoded for row in rows]
