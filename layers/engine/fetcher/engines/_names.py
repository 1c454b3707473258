"""How kinds read a table's name: with schemas, where only the default one differs, or as one whole word."""

from collections.abc import Sequence
from dataclasses import dataclass

from fetcher.model import Catalog, Connection


@dataclass(frozen=True, slots=True)
class Schemas:
    """A `Naming`: names meet what was discovered, exactly, so a dot may also be part of a name.

    Only unqualified names bring the default schema into scope (R-000-29). A qualified reading comes
    first (R-000-26), so that a name never changes its meaning with its neighbours; a table whose own
    name is `a.b` can always be asked for as `public.a.b`.
    """

    default: str

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        """Return every schema that a name may begin with; the default one for names without a dot."""
        default = (self._default(connection),)
        return tuple(sorted({schema for name in names for schema in [s for s, _ in _splits(name)] or default}))

    def resolve(self, name: str, catalog: Catalog, connection: Connection) -> tuple[str, ...] | None:
        """Prefer the shortest schema that has the rest, then the whole name in the default schema."""
        paths = [*_splits(name), (self._default(connection), name)]
        return next((path for path in paths if path in catalog.tables), None)

    def _default(self, connection: Connection) -> str:
        return connection.schema or self.default


@dataclass(frozen=True, slots=True)
class WholeNames:
    """A `Naming` for kinds whose namespace is the connected database: a dot is a letter like any other."""

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        """Return no schema: there is none to choose."""
        return ()

    def resolve(self, name: str, catalog: Catalog, connection: Connection) -> tuple[str, ...] | None:
        """Compare the name exactly with what was discovered."""
        return (name,) if (name,) in catalog.tables else None


def _splits(name: str) -> list[tuple[str, str]]:
    parts = name.split(".")
    both = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts)))
    return [(schema, table) for schema, table in both if schema and table]
