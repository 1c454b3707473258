"""One data set on every kind, and every filter of `design.md` §7.3 finds the rows that Python finds in it.

Where a kind differs by its nature, its module in `kinds` says so by a word of `DIFFERENCES`, and `docs/filters.md` in a
row of its table; a difference that makes none fails too.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from fetcher.core.filters import typed
from fetcher.engines import engine
from fetcher.errors import Where
from fetcher.model import OPERATORS, Column, Condition, Encoding, Operator, Query
from infra.local.places import ROOT
from tests.contract.conftest import KINDS, Reader, rows_of
from tests.contract.kinds import Source

COLUMNS = {
    "id": Encoding.INTEGER,
    "whole": Encoding.INTEGER,
    "exact": Encoding.DECIMAL,
    "ratio": Encoding.FLOAT,
    "word": Encoding.TEXT,
    "flag": Encoding.BOOLEAN,
    "day": Encoding.DATE,
    "at": Encoding.TIMESTAMP,
    "moment": Encoding.TIMESTAMP_UTC,
    "ident": Encoding.UUID,
    "raw": Encoding.BINARY,
}
WHOLE = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))
EXACT = tuple(map(Decimal, ("0", "1.5", "-1.5", "12345678901234.5678", "0.0001", "9999999999999999.9999", "10")))
RATIO = (0.0, 1.5, -0.1, 1e300, 0.1)
WORDS = ("", "a", "A", "a ", "100%", "100_", "a_b", "a%b", "axb", "a\\b", "[ab]", "ä", "Ä", "it's", "a\nb", "1", "NULL")
DAYS = (date(2026, 1, 1), date(2026, 1, 31), date(2025, 12, 31))
TIMES = (
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 23, 59, 59, 999_000, UTC),
    datetime(2026, 1, 2, tzinfo=UTC),
    datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(2026, 1, 1, 12, 30, tzinfo=UTC),
)
IDENTS = tuple(f"5b1f7a52-8f0e-4f0b-9a5d-0d6f5a3f1c1{digit}" for digit in "1af")
RAWS = (b"\x00\xff", b"a", b"A")
VALUES: dict[str, Sequence[Any]] = {
    "whole": WHOLE,
    "exact": EXACT,
    "ratio": RATIO,
    "word": WORDS,
    "flag": (False, True),
    "day": DAYS,
    "at": TIMES,
    "moment": TIMES,
    "ident": IDENTS,
    "raw": RAWS,
}
ROWS = [
    {"id": at + 1} | {name: None if at % 7 == 6 else values[at % len(values)] for name, values in VALUES.items()}
    for at in range(34)
]
"""Values come round at their own pace, so that there are ties; every seventh row is NULL."""

SETS: Sequence[Operator] = ("eq", "in", "ne", "nin")
RANGES: Sequence[Operator] = ("gt", "gte", "lt", "lte")
D = Decimal
LISTS: dict[str, Sequence[Sequence[Any]]] = {
    "id": [[], [7], [7, 8, 9], [*range(2, 2502)], [None, 3], [None]],
    "whole": [
        [],
        [0],
        [1, -1, 1],
        [2**53 + 1],
        [2**53],
        [2**63 - 1],
        [2**63],
        [-(2**70)],
        [D("1.5")],
        [None],
        [None, 1],
    ],
    "exact": [[], [0], [D("1.50")], [D("0.00010000000000000001")], [10, D("12345678901234.5678")], [None], [None, 0]],
    "ratio": [[], [0], [D("0.1")], [D("-0.1"), D("1e300")], [None], [None, D("1.5")]],
    "word": [
        [],
        *([word] for word in WORDS),
        ["a", "A"],
        ["' OR 1=1 --"],
        [None],
        [None, "a"],
        [f"w{n}" for n in range(2500)],
    ],
    "flag": [[], [True], [False], [True, False], [None], [None, True]],
    "day": [[], ["2026-01-31"], ["2026-01-01", "2025-12-31"], [None], [None, "2026-01-01"]],
    "at": [[], ["2026-01-01"], ["2026-01-01T12:30"], ["2026-01-01T23:59:59.999", "2026-01-02"], [None]],
    "moment": [[], ["2026-01-01"], ["2026-01-01T14:30:00+02:00"], ["2026-01-01T12:30:00Z"], [None, "2026-01-02"]],
    "ident": [[], [IDENTS[0]], [IDENTS[1].upper(), IDENTS[2].replace("-", "")], [None], [None, IDENTS[0]]],
    "raw": [[], ["AP8="], ["YQ==", "QQ=="], [None], [None, "QQ=="]],
}
BOUNDS: dict[str, Sequence[Any]] = {
    "id": [17, D("1.5")],
    "whole": [0, 1, 2**53 + 1, 2**53, 2**63 - 1, 2**63, -(2**70), D("0.5"), D("9007199254740992.5")],
    "exact": [0, D("1.5"), D("0.00005"), D("12345678901234.56785")],
    "ratio": [0, D("0.1"), D("1.5"), 2],
    "word": ["a", "A", "a!", "ä"],
    "day": ["2026-01-01", "2025-12-31", "9999-12-31"],
    "at": ["2026-01-01", "2026-01-02", "2025-12-31", "9999-12-31", "2026-01-01T12:30:00", "2026-01-01T23:59:59.9985"],
    "moment": ["2026-01-01", "2026-01-02", "2025-12-31", "2026-01-01T12:30:00Z", "2026-01-01T14:30:00.5+02:00"],
}
PAIRS: dict[str, Sequence[tuple[Any, Any]]] = {
    "whole": [(-1, 1), (1, -1), (D("0.5"), 2**70)],
    "exact": [(0, D("1.5")), (D("1.50001"), D("1.49999"))],
    "ratio": [(D("-0.1"), D("0.1"))],
    "word": [("A", "a"), ("a", "A")],
    "day": [("2025-12-31", "2026-01-01"), ("2026-01-31", "2026-01-01")],
    "at": [("2026-01-01", "2026-01-01"), ("2026-01-01T12:30:00", "2026-01-01"), ("2025-12-31", "2026-01-02")],
    "moment": [("2026-01-01", "2026-01-01"), ("2026-01-01T12:30:00Z", "2026-01-02")],
}
PATTERNS = [
    "%",
    "",
    "a",
    "a%",
    "A%",
    "a_b",
    "a\\_b",
    "a\\%b",
    "a\\\\b",
    "100\\%",
    "100_",
    "[ab]",
    "[a%",
    "_",
    "%b",
    "ä",
    "A\\%",
]

Case = tuple[str, Operator, tuple[Any, ...]]


def cases() -> Iterator[Case]:
    for field, lists in LISTS.items():
        yield from ((field, operator, tuple(values)) for operator in SETS for values in lists)
    for field, bounds in BOUNDS.items():
        yield from ((field, operator, (bound,)) for operator in RANGES for bound in bounds)
    for field, pairs in PAIRS.items():
        yield from ((field, "between", pair) for pair in pairs)
    yield from (("word", "like", (pattern,)) for pattern in PATTERNS)


GROUPS = sorted({(field, operator) for field, operator, _ in cases()})


# --- what Python finds


def read(encoding: Encoding, value: Any) -> Any:
    """Bring a value of a request to the type of the data."""
    return value if value is None or encoding not in READ else READ[encoding](value)


def _day_or_moment(text: str) -> date | datetime:
    if len(text) == len("2026-01-01"):
        return date.fromisoformat(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


READ: dict[Encoding, Callable[[Any], Any]] = {
    Encoding.FLOAT: float,
    Encoding.DATE: date.fromisoformat,
    Encoding.TIMESTAMP: _day_or_moment,
    Encoding.TIMESTAMP_UTC: _day_or_moment,
    Encoding.UUID: lambda text: str(UUID(text)),
    Encoding.BINARY: b64decode,
}


def compared(operator: str, have: Any, bound: Any) -> bool:
    """A date against a time means its whole day."""
    if isinstance(have, datetime) and not isinstance(bound, datetime):
        first = datetime(bound.year, bound.month, bound.day, tzinfo=UTC)
        if operator in {"gt", "lte"}:
            last_day = bound == date.max
            behind = not last_day and have >= first + timedelta(days=1)
            return behind if operator == "gt" else not behind
        bound = first
    signs: dict[str, Callable[[Any, Any], bool]] = {
        "gt": lambda a, b: a > b,
        "gte": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "lte": lambda a, b: a <= b,
        "eq": lambda a, b: a == b,
    }
    return signs[operator](have, bound)


def like(pattern: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    spelled = {"%": ".*", "_": "."}
    return re.compile("".join(spelled.get(part, re.escape(part[-1])) for part in parts), re.DOTALL)


def holds(operator: Operator, have: Any, values: Sequence[Any]) -> bool:
    if operator in {"ne", "nin"}:
        return not values or (have is not None and not any(v is not None and equal(have, v) for v in values))
    if operator in {"eq", "in"}:
        return any(have is None if v is None else have is not None and equal(have, v) for v in values)
    if have is None:
        return False
    if operator == "between":
        return compared("gte", have, values[0]) and compared("lte", have, values[1])
    return bool(like(values[0]).fullmatch(have)) if operator == "like" else compared(operator, have, values[0])


def equal(have: Any, value: Any) -> bool:
    return compared("eq", have, value)


def expected(case: Case, differences: Collection[str] = ()) -> list[int]:
    field, operator, values = case
    bounds = values if operator == "like" else tuple(read(COLUMNS[field], value) for value in values)
    seen = [partial(DIFFERENCES[each], operator) for each in differences if field == "word"]
    have = {at: _through(seen, row[field]) for at, row in enumerate(ROWS, 1)}
    bounds = tuple(_through(seen, value) or value for value in bounds)
    return [number for number, value in have.items() if holds(operator, value, bounds)]


def _through(seen: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    for each in seen:
        value = each(value)
    return value


DIFFERENCES: dict[str, Callable[[str, Any], Any]] = {
    "spaces at the end": lambda operator, word: word if word is None or operator == "like" else word.ljust(99),
    "the empty text": lambda _, word: word or None,
}
"""What a kind makes of a text, in the data and in a filter, before it compares."""


# --- what the kind finds


@dataclass(frozen=True, slots=True)
class Filtered:
    """The data set on one kind, and an open session that reads it."""

    reader: Reader
    plan: Query
    columns: frozenset[str]
    declared: frozenset[Encoding]

    def ids(self, case: Case) -> list[int]:
        field, operator, values = case
        condition = typed(self._column(field), Condition(field, operator, values), Where())
        query = Query("filtered", self.plan.path, (self._column("id"),), (), (condition,))
        return sorted(next(iter(row.values())) for row in rows_of(self.reader.pages(query)))

    def _column(self, name: str) -> Column:
        return next(column for column in self.plan.columns if column.name.lower() == name)


@pytest.fixture(scope="module")
def filtered(source: Source) -> Iterator[Filtered]:
    declared: dict[Encoding, str] = import_module(f"tests.contract.kinds.{source.to.kind}").DECLARED
    columns = {name: declared[encoding] for name, encoding in COLUMNS.items() if encoding in declared}
    rows = [[_of(source, name, row[name]) for name in columns] for row in ROWS]
    source.create("filtered", {**columns}, ["id"], rows)
    with engine(source.to.kind).connect(source.to, source.secret, seconds=600, application="filters") as session:
        reader = Reader(session, source)
        yield Filtered(reader, reader.plan("filtered"), frozenset(columns), frozenset(declared))


def _of(source: Source, name: str, value: Any) -> Any:
    """A time without a zone is written without one."""
    return value.replace(tzinfo=None) if name == "at" and value is not None else value


def differences_of(kind: str, *, unseen: bool = False) -> tuple[str, ...]:
    """Return what a kind does differently; with `unseen`, also what its stand-in does not show."""
    module = import_module(f"tests.contract.kinds.{kind}")
    hidden = () if unseen else getattr(module, "UNSEEN", ())
    return tuple(each for each in getattr(module, "DIFFERENCES", ()) if each not in hidden)


@pytest.mark.parametrize(("field", "operator"), GROUPS)
def test_each_filter_finds_what_python_finds(filtered: Filtered, kind: str, field: str, operator: str) -> None:
    """R-000-84..94, B-10, B-23, B-24, B-25: ten operators on every type, NULLs, empty lists."""
    if COLUMNS[field] not in filtered.declared:
        assert (kind, f"no type for {COLUMNS[field]}") in documented()
        return
    group = [case for case in cases() if case[:2] == (field, operator)]
    wrong = {case: filtered.ids(case) for case in group}
    wrong = {case: ids for case, ids in wrong.items() if ids != expected(case, differences_of(kind))}
    assert wrong == {}


# --- what is said of it


def documented() -> set[tuple[str, str]]:
    """Return kind and difference of each row of the table."""
    lines = (ROOT / "docs" / "filters.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return {(row[0].strip("`"), row[1].replace("`", "")) for row in rows}


def test_every_difference_is_documented_and_is_one() -> None:
    """Design §7.3: the same rows on every kind, but for what is told."""
    told = {(kind, difference) for kind in KINDS for difference in differences_of(kind, unseen=True)}
    missing = {
        (kind, f"no type for {encoding}")
        for kind in KINDS
        for encoding in COLUMNS.values()
        if encoding not in import_module(f"tests.contract.kinds.{kind}").DECLARED
    }
    assert documented() == told | missing
    for difference in DIFFERENCES:
        assert any(expected(case) != expected(case, [difference]) for case in cases())


def test_every_operator_meets_every_type_that_it_takes() -> None:
    """R-000-84, R-000-85: and the cases of a field tell its rows apart."""
    assert {operator for _, operator in GROUPS} == set(OPERATORS)
    assert {field for field, _ in GROUPS} == set(COLUMNS)
    for field in COLUMNS:
        assert len({tuple(expected(case)) for case in cases() if case[0] == field}) > 3
