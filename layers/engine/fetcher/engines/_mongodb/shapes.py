"""The fast way through documents that look alike: a pattern cuts their bytes, and each column is written at once.

A `Shape` learns the fields of some documents: which, of what types, in what order, and which may be missing.
It is only ever a shortcut. A document that it does not fit goes through `values`, which knows every type, and
lengths that do not agree with what the pattern has cut send a whole batch there. Both ways give the same bytes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from fetcher.engines._mongodb.columns import KINDS
from fetcher.engines._mongodb.values import OBJECT, elements, member

MOST_FIELDS = 300
Cut = Sequence[bytes | None]
"""What a pattern has found in one document."""
Cells = Sequence[bytes | None]
"""One field of many documents: JSON, or None where it is missing."""
Groups = Iterator[Sequence[bytes | None]]


@dataclass(slots=True)
class _Node:
    """A field in the documents that were learned: `count` of them have it."""

    kinds: set[int] = field(default_factory=set)
    children: dict[bytes, "_Node"] = field(default_factory=dict)
    count: int = 0

    def learn(self, data: bytes, start: int) -> None:
        """Take in a document; a field that is new here stands behind the one before it."""
        self.count += 1
        before: bytes | None = None
        for kind, name, begin, _ in elements(data, start):
            node = self.children.get(name) or self._inserted(name, before)
            node.kinds.add(kind)
            if kind == OBJECT:
                node.learn(data, begin)
            else:
                node.count += 1
            before = name

    def _inserted(self, name: bytes, before: bytes | None) -> "_Node":
        names = [*self.children]
        at = names.index(before) + 1 if before is not None else 0
        names.insert(at, name)
        node = _Node()
        self.children = {each: self.children.get(each, node) for each in names}
        return node

    def flat(self, documents: int) -> bool:
        """Whether it is an object everywhere, so that its members can be columns of their own."""
        return self.kinds == {OBJECT} and self.count == documents


class Shape:
    """What has been learned, and the pattern made of it."""

    def __init__(self) -> None:
        self._root = _Node({OBJECT})
        self._pattern: re.Pattern[bytes] | None = None

    def learn(self, data: bytes, starts: Sequence[int]) -> None:
        """Learn these documents too."""
        for start in starts:
            self._root.learn(data, start)
        known = _known(self._root) and _size(self._root) <= MOST_FIELDS
        self._pattern = re.compile(rb"(?s:.{4}%b\x00)" % _members(self._root)) if known else None

    def cut(self, data: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[Cut | None]:
        """Cut documents into the values of their fields; None for one that does not fit."""
        if self._pattern is None:
            return [None] * len(starts)
        found = map(self._pattern.fullmatch, repeat(data), starts, ends)
        return [None if match is None else match.groups() for match in found]

    def cells(self, cut: Sequence[Cut]) -> dict[bytes, Cells]:
        """Write each field at the top level, in the order of the documents. Raises `MisfitError`."""
        groups = zip(*cut, strict=True)
        return dict(_columns(self._root, groups, len(cut)))


def _known(node: _Node) -> bool:
    return node.kinds <= KINDS.keys() and all(map(_known, node.children.values()))


def _size(node: _Node) -> int:
    return 1 + sum(map(_size, node.children.values()))


def _members(node: _Node) -> bytes:
    return b"".join(_pattern(name, child, node.count) for name, child in node.children.items())


def _pattern(name: bytes, node: _Node, documents: int) -> bytes:
    name = re.escape(name) + rb"\x00"
    if node.flat(documents):
        return rb"\x03" + name + rb".{4}" + _members(node) + rb"\x00"
    choices = b"|".join(rb"\x%02x" % kind + name + KINDS[kind].pattern for kind in sorted(node.kinds))
    return b"(?:" + choices + (b")?+" if node.count < documents else b")")


def _columns(node: _Node, groups: Groups, count: int) -> Iterator[tuple[bytes, Cells]]:
    for name, child in node.children.items():
        if child.flat(node.count):
            yield name, rows(dict(_columns(child, groups, count)), count)
        else:
            yield name, _cells(child, groups, count, required=child.count == node.count)


def _cells(node: _Node, groups: Groups, count: int, *, required: bool) -> Cells:
    if len(node.kinds) == 1 and required:
        kind = KINDS[next(iter(node.kinds))]
        return kind.write(*[next(groups) for _ in range(kind.groups)])
    cells: list[bytes | None] = [None] * count
    for kind in (KINDS[kind] for kind in sorted(node.kinds)):
        cut = [next(groups) for _ in range(kind.groups)]
        present = [at for at, raw in enumerate(cut[0]) if raw is not None]
        if present:
            written = kind.write(*[[column[at] for at in present] for column in cut])
            for at, cell in zip(present, written, strict=True):
                cells[at] = cell
    return cells


def rows(fields: dict[bytes, Cells], count: int) -> list[bytes]:
    """Write objects of these members, each without those that it misses."""
    if not fields:
        return [b"{}"] * count
    forms: list[bytes] = []
    columns: list[Cells] = []
    for name, cells in fields.items():
        start = b"," + member(name)
        if None in cells:
            forms.append(b"%b")
            columns.append([b"" if cell is None else start + cell for cell in cells])
        else:
            forms.append(start.replace(b"%", b"%%") + b"%b")
            columns.append(cells)
    joined = b"".join(forms)
    if joined.startswith(b","):
        return list(map((b"{" + joined[1:] + b"}").__mod__, zip(*columns, strict=True)))
    return [b"{%b}" % (joined % row)[1:] for row in zip(*columns, strict=True)]
