"""How Oracle reads a name: as it is written, or else in capitals, as the server does with unquoted ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fetcher.engines._names import _splits
from fetcher.model import Catalog, Column, Connection, Table


def owner(connection: Connection) -> str:
    """Return the owner of unqualified names: the connection's schema, or else the user who connects.

    A user written in quotes keeps its case; of a proxy such as `app[scott]` the second one counts.
    """
    if connection.schema:
        return connection.schema
    user = connection.user
    if user.endswith("]"):
        user = user[:-1].rpartition("[")[2]
    return user[1:-1] if len(user) > 2 and user[0] == user[-1] == '"' else user.upper()


def spellings(name: str) -> tuple[str, ...]:
    """Return what a requested name may be in the catalog, the exact form first."""
    return tuple(dict.fromkeys((name, name.upper())))


@dataclass(frozen=True, slots=True)
class Owners:
    """A `Naming` and a `FieldNaming`. `SCOTT.EMP`, `scott.emp` and, for SCOTT, `emp` are one table.

    A name that was quoted when it was created, such as `"MixedCase"`, is asked for exactly so. A qualified
    reading comes first, as with other kinds that have schemas.
    """

    def scope(self, names: Sequence[str], connection: Connection) -> tuple[str, ...]:
        """Return every owner that a name may begin with; the connecting one for names without a dot."""
        return tuple(sorted({each for name in names for each in _owners(name, connection)}))

    def resolve(self, name: str, catalog: Catalog, connection: Connection) -> tuple[str, ...] | None:
        """Prefer the shortest owner that has the rest, then the whole name with the connecting owner."""
        return next((path for path in _paths(name, connection) if path in catalog.tables), None)

    def column(self, name: str, table: Table) -> Column | None:
        """Return the column of this name, exactly or in capitals."""
        found = (table.column(spelling) for spelling in spellings(name))
        return next((column for column in found if column is not None), None)


def _owners(name: str, connection: Connection) -> list[str]:
    qualified = [each for schema, _ in _splits(name) for each in spellings(schema)]
    return qualified or list(spellings(owner(connection)))


def _paths(name: str, connection: Connection) -> Iterator[tuple[str, str]]:
    for schema, table in [*_splits(name), (owner(connection), name)]:
        for table_spelling in spellings(table):
            for schema_spelling in spellings(schema):
                yield schema_spelling, table_spelling
