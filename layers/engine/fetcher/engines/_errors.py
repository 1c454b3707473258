"""What an error of a source means, as data: each kind has its tables of codes, and they are all of this shape.

`docs/reliability.md` shows every row, and a test holds the two against each other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fetcher.errors import FetcherError, InvalidRequestError, UnavailableError

Code = TypeVar("Code")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The class of an error, which says what the engine does, and words of ours.

    `wait` is how many seconds the source asks to be left alone, where its vendor says so.
    """

    family: type[FetcherError]
    message: str
    wait: float | None = None

    def error(self, suffix: str = "") -> FetcherError:
        """Make the error; the suffix names the code."""
        if self.wait is not None and issubclass(self.family, UnavailableError):
            return self.family(self.message + suffix, retry_after=self.wait)
        return self.family(self.message + suffix)


NOT_UNICODE = Meaning(InvalidRequestError, "a value or name of the request is not valid Unicode")
GARBLED = Meaning(InvalidRequestError, "a text of the table is not valid in its character set")
"""What the drivers raise as errors of Python's own, on the way there and back."""


@dataclass(frozen=True, slots=True)
class Table:
    """The meanings of one sort of code, where the vendor lists them, and what a code means that is not listed."""

    codes: str
    source: str
    meanings: Mapping[str, Meaning]
    others: str


def table(codes: str, source: str, meanings: Mapping[Code, Meaning], others: str) -> Table:
    """Show a mapping by the codes' own text."""
    return Table(codes, source, {str(code): meaning for code, meaning in meanings.items()}, others)


def grouped(*groups: tuple[Meaning, Iterable[Code]]) -> Mapping[Code, Meaning]:
    """Turn groups of codes around: each code to its meaning."""
    return {code: meaning for meaning, codes in groups for code in codes}
