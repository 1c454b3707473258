"""One read: the statement that makes the server render rows as JSON, and the pages made of them.

No value is part of the SELECT. It is prepared with a `?` for each; the values are assigned to user variables
before, spelled in hexadecimal digits alone, and named by EXECUTE. So nothing is ever escaped.
"""

import json
from collections.abc import Sequence

from fetcher.engines._mysql.dialect import DIALECT, key_text
from fetcher.engines._mysql.opening import Opened
from fetcher.engines._mysql.values import finishing, rendered
from fetcher.engines._mysql.wire import Wire, wire
from fetcher.engines._sql import Where
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Column, Page, Position, Query

PREPARE = "PREPARE fetcher FROM @fetcher"


class Statement:
    """One read as the three statements that assign, prepare and execute it."""

    def __init__(self, query: Query, after: Position | None) -> None:
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        variables = [f"@fetcher{number}" for number in range(len(where.values))]
        values = [_select(query, where), *where.values]
        assigned = [f"{name} = {_hex(value)}" for name, value in zip(["@fetcher", *variables], values, strict=True)]
        self.assign = "SET " + ", ".join(assigned)
        self.execute = "EXECUTE fetcher" + (f" USING {', '.join(variables)}" if variables else "")


def _hex(value: str | bytes) -> str:
    return f"X'{value.hex()}'" if isinstance(value, bytes) else f"_utf8mb4 X'{value.encode().hex()}'"


def _select(query: Query, where: Where) -> str:
    names = [DIALECT.name(column.name) for column in query.key]
    texts = map(key_text, query.key, names)
    order = f" ORDER BY {', '.join(names)}" if names else ""
    listed = ", ".join([_object(query.columns), *texts])
    return f"SELECT {listed} FROM {DIALECT.name(*query.path)}{where.sql}{order}"  # noqa: S608 - quoted names only


def _object(columns: Sequence[Column]) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered."""
    parts = []
    for opening, column in zip(["{", *"," * len(columns)], columns, strict=False):
        member = json.dumps(column.name, ensure_ascii=False)
        parts += [_literal(f"{opening}{member}:"), rendered(column, DIALECT.name(column.name))]
    return f"CONCAT({', '.join([*parts, _literal('}' if parts else '{}')])})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Rows:
    """The rows of one read, page by page. Complete only when `ended`; everything else raises."""

    def __init__(self, query: Query, watchdog: Watchdog) -> None:
        self._query = query
        self._watchdog = watchdog
        self._finished = finishing(query.columns)
        self._wire: Wire | None = None

    def start(self, connection: Opened, statement: Statement) -> None:
        """Send the statements and wait for the server to begin with its answer."""
        with connection.cursor() as cursor:
            cursor.execute(statement.assign)
            cursor.execute(PREPARE)
        self._wire = wire(connection, statement.execute, self._watchdog.beat)

    @property
    def ended(self) -> bool:
        """Whether the server said that these were all rows."""
        return self._wire is not None and self._wire.ended

    def page(self) -> Page | None:
        """Collect the next rows, up to the page's size and at least one; None after the last."""
        if self._wire is None:
            return None
        bodies, key = self._wire.take(self._query.page_bytes)
        if not bodies:
            return None
        return Page(self._finished(b",".join(bodies)), len(bodies), self._position(key))

    def _position(self, key: Sequence[bytes]) -> Position | None:
        pairs = zip(self._query.key, key, strict=True)
        return Position(tuple((column.type, text.decode()) for column, text in pairs)) if key else None
