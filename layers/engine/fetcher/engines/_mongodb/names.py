"""How MongoDB's names are read (`design.md` §7.4): a collection's name whole, a field's by its dots.

Every collection has one more column, `*`, which no request can name: the fields that its documents have or
may have beside the sampled ones. With it, a read takes documents whole.
"""

from collections.abc import Sequence

from fetcher.model import UNSAMPLED, Catalog, Column, Connection, Encoding, Table

REST = "*"
OPEN, CLOSED = "other fields", "no other fields"
"""Types of `*`: any field may exist, or the collection's validator forbids those that it does not name."""


NESTING = frozenset({Encoding.DOCUMENT, Encoding.ARRAY})


class Collections:
    """A `Naming`, a `FieldNaming` and `Schemaless`. The scope is the collections themselves: no other is sampled."""

    def scope(self, names: Sequence[str], _connection: Connection) -> tuple[str, ...]:
        """Return the requested names: a dot is a letter like others."""
        return tuple(sorted(set(names)))

    def everything(self, _connection: Connection) -> tuple[str, ...]:
        """Return the scope that leaves none out."""
        return ()

    def resolve(self, name: str, catalog: Catalog, _connection: Connection) -> tuple[str, ...] | None:
        """Return the collection or view of exactly this name."""
        return (name,) if (name,) in catalog.tables else None

    def column(self, name: str, table: Table) -> Column | None:
        """Return a sampled column, or one for a nested field or a field outside the sample, where either may be."""
        if name == REST:
            return None
        if found := table.column(name):
            return found
        made_up = Column(name, UNSAMPLED, Encoding.DOCUMENT)
        return made_up if path_of(made_up) and _may_exist(made_up, table) else None


def _may_exist(column: Column, table: Table) -> bool:
    rest = table.column(REST)
    parent = table.column((path_of(column) or [""])[0])
    if parent is None:
        return rest is not None and rest.type == OPEN
    return parent.encoding in NESTING and parent.name != column.name


def path_of(column: Column) -> list[str] | None:
    """Split a field at its dots, or return None for one that only a whole document can show.

    Those are sampled names with dots of their own, and names that a query would take for something else.
    """
    parts = column.name.split(".")
    if len(parts) > 1 and column.type != UNSAMPLED:
        return None
    named = all(part and not part.startswith("$") and "\0" not in part for part in parts)
    return parts if named else None
