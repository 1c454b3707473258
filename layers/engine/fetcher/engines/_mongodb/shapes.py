"""The fast way through documents that look alike: a pattern cuts their bytes, and each column is written at once.

A `Shape` learns the fields of some documents: which, of what types, in what order, and which may be missing.
It is only ever a shortcut. A document that it does not fit goes through `values`, which knows every type, and
lengths that do not agree with what the pattern has cut send a whole batch there. Both ways give the same bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from operator import add
from struct import error, unpack

from bson.errors import InvalidBSON

from fetcher.engines._mongodb.columns import KINDS
from fetcher.engines._mongodb.cursor import Batch, document
from fetcher.engines._mongodb.values import OBJECT, elements, member

MOST_FIELDS = 300
WINDOW = 64 * 1024
"""Bytes that are cut at once: a document that does not fit takes the rest of them."""
HEADS = tuple(len(str(at)) + 2 for at in range(100_000))
"""Bytes of an array's element before its document: a type, a number as text, and a NUL."""
Cells = Sequence[bytes]
"""A part of the JSON of many documents."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a pattern has found in documents: a group's values in all that fit, and which documents do not."""

    groups: Sequence[Sequence[bytes]]
    fitting: int
    missed: Sequence[int]
    starts: Sequence[int]
    """Where each document begins."""


@dataclass(slots=True)
class _Node:
    """A field in the documents that were learned: `count` of them have it."""

    kinds: set[int] = field(default_factory=set)
    children: dict[bytes, "_Node"] = field(default_factory=dict)
    count: int = 0
    at: int = 0

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
        self._pattern = _compiled(self._root) if known else None
        _number(self._root, 1)

    def cut(self, batch: Batch) -> Cut | None:
        """Cut the documents of a batch into the values of their fields; None where nothing of it can be trusted.

        Each is found where the one before ended, and all must end where their lengths say and the batch does.
        """
        if self._pattern is None:
            return None
        try:
            return _cut(self._pattern, batch)
        except (InvalidBSON, IndexError, ValueError, error):  # a text with a NUL, or damage
            return None

    def rows(self, cut: Cut, wanted: Sequence[bytes] | None) -> list[bytes]:
        """Write documents as they are, or these fields of theirs, null where one is missing. Raises `MisfitError`."""
        if not cut.fitting:
            return []
        columns = _Columns(cut.groups, cut.fitting)
        parts = columns.members(self._root) if wanted is None else columns.chosen(self._root, wanted)
        return joined(parts)


def _cut(pattern: re.Pattern[bytes], batch: Batch) -> Cut | None:
    """Cut window by window; the rest that does not fit, or is cut off, begins where its last group does."""
    view, at, width = memoryview(batch.data), batch.first, pattern.groups + 1
    flat, missed = list[bytes](), list[int]()
    while at < batch.end:
        _, end = document(batch.data, at)
        stop = min(max(at + WINDOW, end), batch.end)
        found = pattern.split(view[at:stop])
        found.pop()
        at = stop
        if rest := len(found[-1] or b""):
            del found[-width:]
            at = stop - rest
            _, end = document(batch.data, at)
        flat += found
        if rest and (end <= stop or stop == batch.end):
            missed.append(len(flat) // width + len(missed))
            at = end
    groups = [flat[group::width] for group in range(1, width)]
    starts = _starts(batch, groups[0], missed) if at == batch.end else None
    return Cut(groups, len(groups[0]), missed, starts) if starts else None


def _starts(batch: Batch, lengths: Sequence[bytes], missed: Sequence[int]) -> list[int] | None:
    """Find where documents begin, and None unless those that fit are as long as they say."""
    if missed:
        starts, odd = batch.starts(), {*missed}
        said = [batch.data[start : start + 4] for at, start in enumerate(starts) if at not in odd]
        return starts if said == lengths else None
    sizes = unpack(f"<{len(lengths)}I", b"".join(lengths))
    ends = [*accumulate(map(add, sizes, HEADS), initial=batch.first)]
    return [*map(add, ends, HEADS[: len(sizes)])] if ends[-1] == batch.end else None


def _known(node: _Node) -> bool:
    return node.kinds <= KINDS.keys() and all(_is_text(name) and _known(child) for name, child in node.children.items())


def _is_text(name: bytes) -> bool:
    """Names are constants here, so no row is checked for them; the exact way refuses one that is not UTF-8."""
    return name.decode(errors="ignore").encode() == name


def _size(node: _Node) -> int:
    return 1 + sum(map(_size, node.children.values()))


def _number(node: _Node, at: int) -> int:
    """Note in each field which group of the pattern is its first, beginning with `at`; return the next one."""
    for child in node.children.values():
        child.at = at
        flat = child.flat(node.count)
        at = _number(child, at) if flat else at + sum(KINDS[kind].groups for kind in child.kinds & KINDS.keys())
    return at


def _compiled(root: _Node) -> re.Pattern[bytes]:
    """The first group is a document's length, the last one what does not fit."""
    return re.compile(rb"(?s:\x03[0-9]++\x00(.{4}+)%b\x00|(.+))" % _members(root))


def _members(node: _Node) -> bytes:
    return b"".join(_pattern(name, child, node.count) for name, child in node.children.items())


def _pattern(name: bytes, node: _Node, documents: int) -> bytes:
    name = re.escape(name)
    if node.flat(documents):
        return rb"\x03" + name + rb"\x00.{4}+" + _members(node) + rb"\x00"
    choices = b"|".join(rb"\x%02x" % kind + name + KINDS[kind].pattern for kind in sorted(node.kinds))
    return b"(?:" + choices + (b")?+" if node.count < documents else b")")


def joined(parts: Sequence[Cells]) -> list[bytes]:
    """Put together the parts of each row."""
    return list(map(b"".join, zip(*parts, strict=True)))


class _Columns:
    """The groups of `count` documents; what is written of them comes as parts, to be joined row by row."""

    def __init__(self, groups: Sequence[Sequence[bytes]], count: int) -> None:
        self._groups = groups
        self._count = count

    def members(self, node: _Node, before: bytes = b"", after: bytes = b"") -> list[Cells]:
        """Write objects, with constants before and after each."""
        first = next(iter(node.children.values()), None)
        if first is None:
            return [self._same(before + b"{}" + after)]
        if first.count == node.count:
            return self._parts(node, before + b"{", b"}" + after)
        rows = joined(self._parts(node, b",", b""))  # any member may be the first
        return [[before + b"{" + row[1:] + b"}" + after for row in rows]]

    def _parts(self, node: _Node, before: bytes, after: bytes) -> list[Cells]:
        """Write members; what comes after them is a part of the last one where every document has that."""
        parts: list[Cells] = []
        *_, last = node.children.values()
        for name, child in node.children.items():
            ending = after if child is last and child.count == node.count else b""
            parts += self._part(child, before + member(name), ending, node.count)
            before = b","
        return parts if last.count == node.count else [*parts, self._same(after)]

    def _part(self, node: _Node, before: bytes, after: bytes, documents: int) -> list[Cells]:
        """Write a field as parts; nothing where it is missing."""
        if node.flat(documents):
            return self.members(node, before, after)
        if len(node.kinds) == 1 and node.count == documents:
            (kind,) = node.kinds
            return [self._written(kind, node.at, before, after)]
        return [self._mixed(node, before, after, b"")]

    def chosen(self, node: _Node, wanted: Sequence[bytes]) -> list[Cells]:
        """Write objects of these members, and check the others."""
        parts: list[Cells] = []
        before = b"{"
        for name in wanted:
            before += member(name)
            child = node.children.get(name)
            if child is None:
                parts.append(self._same(before + b"null"))
            elif child.count == node.count:
                parts += self._part(child, before, b"", node.count)
            else:
                parts.append(self._mixed(child, before, b"", before + b"null"))
            before = b","
        for name in node.children.keys() - {*wanted}:
            self._part(node.children[name], b"", b"", node.count)
        return [*parts, self._same(b"}")]

    def _mixed(self, node: _Node, before: bytes, after: bytes, missing: bytes) -> list[bytes]:
        """Write a field of several types, or of some documents only."""
        cells = [missing] * self._count
        at = node.at
        for kind in sorted(node.kinds):
            here = [*map(bool, self._groups[at])]
            places = [*compress(range(self._count), here)]
            if places:
                written = self._written(kind, at, before, after, here)
                for place, cell in zip(places, written, strict=True):
                    cells[place] = cell
            at += KINDS[kind].groups
        return cells

    def _written(
        self, byte: int, at: int, before: bytes, after: bytes, here: Sequence[bool] | None = None
    ) -> list[bytes]:
        kind = KINDS[byte]
        cut = self._groups[at : at + kind.groups]
        return kind.cells(cut if here is None else [[*compress(column, here)] for column in cut], before, after)

    def _same(self, text: bytes) -> Cells:
        return [text] * self._count
