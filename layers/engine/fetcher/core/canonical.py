"""Requests as exact JSON: strict on the way in, unchanged on the way out, one hash for one meaning."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from fetcher.core.problems import NOT_JSON, Path, Report
from fetcher.errors import InvalidRequestError, Problem

MAX_DEPTH = 32
MAX_NUMBER_LENGTH = 1_000
MAX_EXPONENT = 1_000
"""Three times the range of a double. Without a bound, `1e999999999` as an integer would fill the memory."""

TOO_MUCH = "FET-0401"

_DEPTH = f"nesting is deeper than {MAX_DEPTH} levels; flatten it"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {None: "null", True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number whose text `int` would not give back: `1.0`, `1e0`, `-0`."""

    text: str

    @property
    def exact(self) -> int | Decimal:
        """The value without loss: an `int` for whole-number text, a `Decimal` otherwise."""
        return int(self.text) if self.text.lstrip("-").isdigit() else Decimal(self.text)


@dataclass(frozen=True, slots=True)
class _Unusable:
    detail: str


@dataclass(frozen=True, slots=True)
class _Repeated:
    names: tuple[str, ...]


def strict_loads(text: str | bytes) -> Any:
    """Parse JSON that has one meaning only.

    Gives `dict`, `list`, `str`, `bool`, `None`, `int`, and `Number` for every number that `int`
    would respell. Raises `InvalidRequestError`: FET-0001 for bytes that are not UTF-8 JSON, repeated
    member names, NaN, Infinity, lone surrogates and absurd numbers; FET-0401 for nesting over 32.
    """
    value = _parsed(text)
    report = Report()
    _inspect(value, (), report)
    report.raise_if_any()
    return value


def dumps(value: Any, *, sort: bool = False) -> str:
    """Write compact JSON, UTF-8 unescaped except `"`, `\\` and controls, numbers by their own text.

    Gives back exactly what `strict_loads` read, but for spacing and escapes. `sort` orders members
    by code point. Raises TypeError for anything that is not JSON.
    """
    match value:
        case Mapping():
            members = sorted(value.items()) if sort else value.items()
            return "{" + ",".join(f"{encode_basestring(name)}:{dumps(item, sort=sort)}" for name, item in members) + "}"
        case list() | tuple():
            return "[" + ",".join(dumps(item, sort=sort) for item in value) + "]"
        case _:
            return _scalar(value)


def request_hash(data_request: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Digest a request as `design.md` §6 "Hash" says; absent, null and `{}` filters are one."""
    asked = dict(data_request)
    if not asked.get("filters"):
        asked.pop("filters", None)
    text = dumps({"dataRequest": asked, "metadata": metadata}, sort=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _scalar(value: Any) -> str:
    match value:
        case None | bool():
            return _WORDS[value]
        case str():
            return encode_basestring(value)
        case Number():
            return value.text
        case int():
            return str(value)
        case float() | Decimal() if math.isfinite(value):
            return str(value)  # embedded callers hand over Python numbers; what they print as is their own text
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def _parsed(text: str | bytes) -> Any:
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError as error:
        raise InvalidRequestError(_DEPTH, code=TOO_MUCH, problems=(Problem("", _DEPTH),)) from error
    except UnicodeDecodeError as error:
        raise _not_json("the body is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _not_json(f"the body is not JSON: see line {error.lineno}, column {error.colno}") from error


def _not_json(detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, code=NOT_JSON, problems=(Problem("", detail),))


def _inspect(value: Any, path: Path, report: Report) -> None:
    match value:
        case str():
            _inspect_text(value, path, report)
        case _Unusable():
            report.add(NOT_JSON, path, value.detail)
        case dict() | list() if len(path) >= MAX_DEPTH:
            report.add(TOO_MUCH, path, _DEPTH)
        case _Repeated():
            for name in value.names:
                report.add(NOT_JSON, (*path, name), "this member is given twice; keep one")
        case dict():
            for name, member in value.items():
                _inspect_text(name, (*path, name), report)
                _inspect(member, (*path, name), report)
        case list():
            for index, item in enumerate(value):
                _inspect(item, (*path, index), report)


def _inspect_text(text: str, path: Path, report: Report) -> None:
    if not text.isascii() and _SURROGATE.search(text):
        report.add(NOT_JSON, path, "a lone surrogate is not text; send the whole character")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Repeated:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    counts = Counter(name for name, _ in pairs)
    return _Repeated(tuple(name for name, count in counts.items() if count > 1))


def _integer(text: str) -> int | Number | _Unusable:
    if len(text) > MAX_NUMBER_LENGTH:
        return _too_long(text)
    return Number(text) if text == "-0" else int(text)


def _fraction(text: str) -> Number | _Unusable:
    if len(text) > MAX_NUMBER_LENGTH:
        return _too_long(text)
    _, _, exponent = text.lower().partition("e")
    if len(exponent) > len("+1000") or abs(int(exponent or "0")) > MAX_EXPONENT:
        return _Unusable(f"a number's exponent is outside ±{MAX_EXPONENT}")
    return Number(text)


def _too_long(text: str) -> _Unusable:
    return _Unusable(f"a number of {len(text)} characters is too long; {MAX_NUMBER_LENGTH} are allowed")


def _constant(name: str) -> _Unusable:
    return _Unusable(f"{name} is not a JSON number; use null or a string")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
