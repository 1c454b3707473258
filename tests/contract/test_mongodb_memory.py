"""Memory is O(batch), whatever a collection holds; measured in a process of its own."""

from collections.abc import Callable, Sequence
from typing import overload

import bson

from tests.contract.kinds import MILLION, Source
from tests.contract.kinds.mongodb import MANY
from tests.contract.mongo_wire import Wire, collection, serving, source
from tests.contract.test_memory import peak

DIGITS = "0000000"
HEAD, TAIL = bson.encode({"_id": DIGITS, "note": "some text of a document"}).split(DIGITS.encode())


class Numbered(Sequence[bytes]):
    """As many documents as one likes, each made when it is asked for."""

    def __init__(self, count: int) -> None:
        self._numbers = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [self[number] for number in self._numbers[at]]
        return b"%b%07d%b" % (HEAD, at, TAIL)


def test_memory_is_flat_over_a_million_documents_of_the_wire() -> None:
    """R-002-83..85: no stand-in can store them in time, so they are made while they are sent."""
    wire = Wire({"million": Numbered(MILLION)}, [collection("million", 1)])
    with serving(wire) as to:
        rows, growth = peak(source(to), "million")
    assert rows == MILLION
    assert wire.asked.count("getMore") > 100
    assert growth < 8 * 1024


def test_memory_is_flat_over_as_many_documents_as_the_stand_in_can_bear(sources: Callable[[str], Source]) -> None:
    """R-002-83..85: a batch, and the shape of its documents."""
    rows, growth = peak(sources("mongodb"), "million")
    assert rows == MANY
    assert growth < 8 * 1024
