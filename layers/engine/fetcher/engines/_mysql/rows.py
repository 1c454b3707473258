"""One read: the statement that makes the server render rows as JSON, and the pages made of them.

No value is part of the SELECT. It is prepared with a `?` for each; the values are assigned to user variables
before, spelled in hexadecimal digits alone, and named by EXECUTE. So nothing is ever escaped.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from fetcher.engines._mysql.cutting import Piece
from fetcher.engines._mysql.dialect import DIALECT, key_text
from fetcher.engines._mysql.finishing import MARK, finish, finishing
from fetcher.engines._mysql.opening import MODE, Opened
from fetcher.engines._mysql.values import rendered
from fetcher.engines._mysql.wire import Wire, wire
from fetcher.engines._sql import Where
from fetcher.engines._watchdog import Watchdog
from fetcher.model import Column, Encoding, Page, Position, Query

PREPARE = "PREPARE fetcher FROM @fetcher"

Shown = Callable[[Piece], Sequence[bytes]]


RESUMING = f"{MODE},ALLOW_INVALID_DATES"
"""2026-02-31 can be in a table, and is NULL to a CAST unless the mode allows it: then no row would be behind it.

For the statements of a resumed read alone: in a view, whose rows are never gone on with, the mode would turn what its
own CAST finds to be no date into one.
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT as what is run before and behind `PREPARE`: its values are assigned, and it is executed with them."""

    assign: str
    execute: str

    @classmethod
    def of(cls, select: str, values: Sequence[str | bytes], mode: str = MODE) -> "Statement":
        """Assign to each `?` of the text its value."""
        variables = [f"@fetcher{number}" for number in range(len(values))]
        assigned = zip(["@fetcher", *variables], map(_hex, [select, *values]), strict=True)
        return cls(
            f"SET {', '.join(f'{name} = {value}' for name, value in assigned)}, sql_mode = '{mode}'",
            "EXECUTE fetcher" + (f" USING {', '.join(variables)}" if variables else ""),
        )

    @classmethod
    def reading(cls, query: Query, after: Position | None) -> "Statement":
        """Render the rows of a query, all of them or those behind a position."""
        where = Where(DIALECT, query.conditions)
        if after is not None:
            where.after(query.key, after)
        return cls.of(_select(query, where), where.values, MODE if after is None else RESUMING)

    def prepare(self, connection: Opened) -> None:
        """Leave nothing to do but to execute it."""
        with connection.cursor() as cursor:
            cursor.execute(self.assign)
            cursor.execute(PREPARE)


def _hex(value: str | bytes) -> str:
    return f"X'{value.hex()}'" if isinstance(value, bytes) else f"_utf8mb4 X'{value.encode().hex()}'"


def _select(query: Query, where: Where) -> str:
    names = [DIALECT.name(column.name) for column in query.key]
    texts = [] if shown(query) else map(key_text, query.key, names)
    order = f" ORDER BY {', '.join(names)}" if names else ""
    listed = ", ".join([_object(query.columns), *texts])
    return f"SELECT {listed} FROM {DIALECT.name(*query.path)}{where.sql}{order}"  # noqa: S608 - quoted names only


def _object(columns: Sequence[Column]) -> str:
    """Build the expression of a row's JSON object: member names are constants, values are rendered.

    Marks are no text. Where there are some the object is bytes, by a collation that is stronger than any column's.
    """
    literal = _bytes if any(map(finish, columns)) else _text
    parts, before = [], b"{"
    for column in columns:
        member, edge = json.dumps(column.name, ensure_ascii=False), MARK if finish(column) else b""
        parts += [literal(b"%b%b:%b" % (before, member.encode(), edge)), rendered(column, DIALECT.name(column.name))]
        before = edge + b","
    closing = before[:-1] + b"}" if parts else b"{}"
    return f"CONCAT({', '.join([*parts, literal(closing)])})"


def shown(query: Query) -> Shown | None:
    """Return what reads the key out of a row's object, when it is among the integers that the object begins with.

    Then it need not be sent twice. Only digits and the names' own text are in front of it.
    """
    leading = list(takewhile(lambda column: column.encoding is Encoding.INTEGER, query.columns))
    if not query.key or not set(leading).issuperset(query.key):
        return None
    places = [leading.index(column) for column in query.key]
    members = (re.escape(json.dumps(column.name, ensure_ascii=False)) for column in leading)
    match = re.compile((r"\{" + ",".join(f"{member}:([^,}}]+)" for member in members)).encode()).match

    def texts(body: Piece) -> Sequence[bytes]:
        found = match(body)
        groups = found.groups() if found else ()
        return [groups[place] for place in places]

    return texts


def _text(text: bytes) -> str:
    return "'" + text.decode().replace("'", "''") + "'"


def _bytes(text: bytes) -> str:
    return f"X'{text.hex()}' COLLATE `binary`"


class Rows:
    """The rows of one read, page by page. Complete only when `ended`; everything else raises."""

    def __init__(self, query: Query, watchdog: Watchdog) -> None:
        self._query = query
        self._watchdog = watchdog
        self._finished = finishing(query.columns)
        self._shown = shown(query)
        self._wire: Wire | None = None

    def start(self, connection: Opened, statement: Statement) -> None:
        """Send the statements and wait for the server to begin with its answer."""
        statement.prepare(connection)
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
        position = self._position(self._shown(bodies[-1]) if self._shown else key)
        return Page(self._finished(b",".join(bodies), len(bodies)), len(bodies), position)

    def _position(self, key: Sequence[bytes]) -> Position | None:
        """Name the last row, unless its key holds half of a surrogate pair: no text does, and a later page will do."""
        pairs = zip(self._query.key, key, strict=True)
        try:
            return Position(tuple((column.type, text.decode()) for column, text in pairs)) if key else None
        except UnicodeDecodeError:
            return None
