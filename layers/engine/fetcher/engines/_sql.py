"""Conditions for all SQL kinds: one set of rules (`design.md` §7.3), spelled by a `Dialect`.

A value never becomes part of the text: it is bound to a mark, in the order of `Where.values`.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from fetcher.errors import InvalidRequestError
from fetcher.model import Column, Encoding, Operator, Position, Query, TypedCondition

COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
NOTHING, EVERYTHING = "1 = 0", "1 = 1"


def _plain_value(mark: str, _column: Column, _values: Sequence[Any]) -> str:
    return mark


def _plain_field(name: str, _column: Column, _operator: Operator) -> str:
    return name


def _plain_bind(_column: Column, value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _plain_key(mark: str, _column: Column) -> str:
    return mark


def _plain_pattern(pattern: str) -> str:
    return pattern


def _plain_null(name: str, _column: Column) -> str:
    return f"{name} IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one database spells what all of them can say. The defaults are standard SQL.

    `mark` renders placeholder n, counted from 1. `percent` is a `%` of a name in SQL text: doubled
    where the driver reads marks that begin with it. `value` gives a mark the type in which `column`
    is compared with `values`; `key` does so for a position's text. `field` is the column's side of a
    comparison, `bind` how a value travels, `null` the test for NULL, `pattern` what a pattern of LIKE becomes where
    more characters than `%` and `_` have a meaning. With `array` a list travels as
    one value of `ANY`; without, `IN` lists are split after `longest_list`. `day_after_last` is the
    day after 9999-12-31 where the database has one.
    """

    mark: Callable[[int], str]
    quotes: tuple[str, str] = ('"', '"')
    percent: str = "%"
    row_comparison: bool = True
    escape: str = "ESCAPE '\\'"
    value: Callable[[str, Column, Sequence[Any]], str] = _plain_value
    key: Callable[[str, Column], str] = _plain_key
    field: Callable[[str, Column, Operator], str] = _plain_field
    bind: Callable[[Column, Any], Any] = _plain_bind
    null: Callable[[str, Column], str] = _plain_null
    pattern: Callable[[str], str] = _plain_pattern
    array: Callable[[Sequence[Any]], Any] | None = None
    array_value: Callable[[str, Column, Sequence[Any]], str] = _plain_value
    longest_list: int = 1000
    day_after_last: str | None = None

    def name(self, *path: str) -> str:
        """Quote a path such as schema and table; a dot inside a name stays part of the name."""
        return ".".join(map(self._quoted, path))

    def _quoted(self, name: str) -> str:
        if "\0" in name or not name:
            raise InvalidRequestError("a name is empty or holds a NUL character")
        opening, closing = self.quotes
        return opening + name.replace(closing, closing * 2).replace("%", self.percent) + closing


NESTED = frozenset({Encoding.JSON, Encoding.ARRAY})


def shows_key(query: Query, shown: Set[Encoding]) -> bool:
    """Whether a row's JSON holds the texts of the key, so that they need not be sent, and taken, for every row.

    `shown` is what a kind writes as its position needs it. Not when a row holds JSON of others: it may be nested
    deeper than a parser goes.
    """
    nested = any(column.encoding in NESTED for column in query.columns)
    return not nested and all(column in query.columns and column.encoding in shown for column in query.key)


class Where:
    """Terms joined by AND, and the values of their marks in order."""

    def __init__(self, dialect: Dialect, conditions: Iterable[TypedCondition] = ()) -> None:
        self.values: list[Any] = []
        self._dialect = dialect
        self._terms = [self._condition(condition) for condition in conditions]

    @property
    def sql(self) -> str:
        """Render ` WHERE …`, or nothing when there is no term."""
        return f" WHERE {' AND '.join(self._terms)}" if self._terms else ""

    def after(self, key: Sequence[Column], position: Position) -> None:
        """Keep only rows whose key sorts behind `position`.

        A position of other types than the key's belongs to another table definition: it is refused.
        """
        if [column.type for column in key] != [kind for kind, _ in position.values]:
            raise InvalidRequestError("the saved position does not fit the table's key any more")
        texts = [text for _, text in position.values]
        compare = self._rows if self._dialect.row_comparison or len(key) == 1 else self._expanded
        self._terms.append(compare(key, texts))

    def _rows(self, key: Sequence[Column], texts: Sequence[str]) -> str:
        names = ", ".join(self._dialect.name(column.name) for column in key)
        marks = ", ".join(map(self._key, key, texts))
        return f"({names}) > ({marks})" if len(key) > 1 else f"{names} > {marks}"

    def _expanded(self, key: Sequence[Column], texts: Sequence[str]) -> str:
        """`(a, b) > (x, y)` spelled as `a > x OR (a = x AND b > y)`."""
        terms = []
        for depth, last in enumerate(key):
            same = [
                f"{self._dialect.name(k.name)} = {self._key(k, t)}" for k, t in zip(key[:depth], texts, strict=False)
            ]
            terms.append(" AND ".join([*same, f"{self._dialect.name(last.name)} > {self._key(last, texts[depth])}"]))
        return "(" + " OR ".join(f"({term})" for term in terms) + ")"

    def _condition(self, condition: TypedCondition) -> str:
        column, values = condition.column, condition.values
        match condition.operator:
            case "eq" | "in":
                return self._any_of(column, values)
            case "ne" | "nin":
                return self._none_of(column, values)
            case "like":
                _check_pattern(values[0])
                field = self._field(column, "like")
                pattern = self._bound(_as_text(column), self._dialect.pattern(values[0]))
                return f"{field} LIKE {pattern} {self._dialect.escape}"
            case "between":
                return f"({self._compared(column, 'gte', values[0])} AND {self._compared(column, 'lte', values[1])})"
            case operator:
                return self._compared(column, operator, values[0])

    def _any_of(self, column: Column, values: Sequence[Any]) -> str:
        present = [value for value in values if value is not None]
        terms = self._members(column, present, "=", "IN", "ANY")
        if len(present) < len(values):
            terms.append(self._dialect.null(self._dialect.name(column.name), column))
        return f"({' OR '.join(terms)})" if terms else NOTHING

    def _none_of(self, column: Column, values: Sequence[Any]) -> str:
        """With values, a NULL row is out by SQL's rule; a null among them says so once more."""
        present = [value for value in values if value is not None]
        terms = self._members(column, present, "<>", "NOT IN", "ALL")
        if len(present) < len(values):
            terms.append(f"{self._dialect.name(column.name)} IS NOT NULL")
        return f"({' AND '.join(terms)})" if terms else EVERYTHING

    def _members(self, column: Column, values: Sequence[Any], sign: str, word: str, quantifier: str) -> list[str]:
        if not values:
            return []
        field = self._field(column, "eq")
        if len(values) == 1:
            return [f"{field} {sign} {self._bound(column, values[0])}"]
        if self._dialect.array and column.encoding is not Encoding.ARRAY:
            travelling = self._dialect.array([self._dialect.bind(column, value) for value in values])
            mark = self._dialect.array_value(self._mark(travelling), column, values)
            return [f"{field} {sign} {quantifier} ({mark})"]
        size = self._dialect.longest_list
        lists = [values[start : start + size] for start in range(0, len(values), size)]
        return [f"{field} {word} ({', '.join(self._bound(column, value) for value in part)})" for part in lists]

    def _compared(self, column: Column, operator: Operator, value: Any) -> str:
        """A date against a timestamp means the whole day: it ends before the next one begins."""
        sign, field = COMPARISONS[operator], self._field(column, operator)
        if operator not in {"gt", "lte"} or not _is_day(column, value):
            return f"{field} {sign} {self._bound(column, value)}"
        following = self._day_after(value)
        if following is None:
            return NOTHING if operator == "gt" else f"{field} IS NOT NULL"
        return f"{field} {'>=' if operator == 'gt' else '<'} {self._bound(column, following)}"

    def _day_after(self, day: date) -> str | None:
        return self._dialect.day_after_last if day == date.max else (day + timedelta(days=1)).isoformat()

    def _field(self, column: Column, operator: Operator) -> str:
        return self._dialect.field(self._dialect.name(column.name), column, operator)

    def _bound(self, column: Column, value: Any) -> str:
        return self._dialect.value(self._mark(self._dialect.bind(column, value)), column, (value,))

    def _key(self, column: Column, text: str) -> str:
        return self._dialect.key(self._mark(text), column)

    def _mark(self, value: Any) -> str:
        self.values.append(value)
        return self._dialect.mark(len(self.values))


def _as_text(column: Column) -> Column:
    """A LIKE pattern is text, whatever the column is."""
    return Column(column.name, "text", Encoding.TEXT)


def _check_pattern(pattern: str) -> None:
    """An escape needs something to escape; databases disagree on what it means at the end."""
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise InvalidRequestError("a pattern of `like` ends in its escape character")


def _is_day(column: Column, value: Any) -> bool:
    stamped = column.encoding in {Encoding.TIMESTAMP, Encoding.TIMESTAMP_UTC}
    return stamped and isinstance(value, date) and not isinstance(value, datetime)
