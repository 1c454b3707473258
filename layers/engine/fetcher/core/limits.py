"""The bounds of one extraction: embedded callers may lower them, nobody may raise them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fetcher.errors import InvalidRequestError
from fetcher.model import Limits

DEFAULTS = Limits()


def lowered(limits: Limits, overrides: Mapping[str, float]) -> Limits:
    """Apply overrides by the names of `Limits` (R-000-44).

    Zero or less keeps the limit. Raises `InvalidRequestError` that names the first override which is
    above its limit, of the wrong type, or unknown.
    """
    known = {limit.name: getattr(limits, limit.name) for limit in fields(limits)}
    changed: dict[str, Any] = {name: _checked(name, value, known) for name, value in overrides.items()}
    return replace(limits, **changed)


def _checked(name: str, value: float, known: Mapping[str, float]) -> float:
    if name not in known:
        raise InvalidRequestError(f"there is no limit {name}; the limits are {', '.join(known)}")
    limit = known[name]
    if isinstance(value, bool) or not isinstance(value, int | type(limit)):
        raise InvalidRequestError(f"the limit {name} takes a number such as {limit}")
    if value > limit:
        raise InvalidRequestError(f"the limit {name} is {limit} and can only be lowered")
    return value if value > 0 else limit
