"""Conditions and writes on a stored item, as values.

The same value is checked in memory (`holds`, `applied`), which the model test drives, and is spelled
for DynamoDB (`fetcher.aws.dynamo`), which the service runs. So what was proven is what is deployed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Item = Mapping[str, Any]
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Of:
    """A value that the caller gives when the rule is used, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Equal:
    """The attribute is present and equal."""

    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class Less:
    """The attribute is present and below the value."""

    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class NotAbove:
    """The attribute is present and at most the value."""

    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class Present:
    """The attribute exists."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute, or the whole item, does not exist."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Every:
    """All terms hold."""

    terms: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one term holds."""

    terms: tuple["Condition", ...]


Condition = Equal | Less | NotAbove | Present | Absent | Every | Either


@dataclass(frozen=True, slots=True)
class Put:
    """Set the attribute."""

    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class Keep:
    """Set the attribute unless it exists."""

    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class Add:
    """Add to a number; an absent one counts as zero."""

    attribute: str
    amount: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the attribute."""

    attribute: str


Write = Put | Keep | Add | Drop


@dataclass(frozen=True, slots=True)
class Rule:
    """One conditional write: it happens whole when `when` holds, and not at all otherwise."""

    when: Condition
    writes: tuple[Write, ...]


def every(*terms: Condition) -> Every:
    """Join with AND."""
    return Every(terms)


def either(*terms: Condition) -> Either:
    """Join with OR."""
    return Either(terms)


def given_value(value: Any, given: Given) -> Any:
    """Return the value itself, or what the caller gave under its name."""
    return given[value.name] if isinstance(value, Of) else value


def holds(condition: Condition, item: Item, given: Given) -> bool:  # noqa: PLR0911 - one line a case of a closed set
    """Decide a condition in memory, with DynamoDB's meaning of absent attributes."""
    match condition:
        case Every(terms):
            return all(holds(term, item, given) for term in terms)
        case Either(terms):
            return any(holds(term, item, given) for term in terms)
        case Present(attribute):
            return attribute in item
        case Absent(attribute):
            return attribute not in item
        case Equal(attribute, value):
            return attribute in item and bool(item[attribute] == given_value(value, given))
        case Less(attribute, value):
            return attribute in item and bool(item[attribute] < given_value(value, given))
        case NotAbove(attribute, value):
            return attribute in item and bool(item[attribute] <= given_value(value, given))


def applied(rule: Rule, item: Item, given: Given) -> dict[str, Any]:
    """Return the item after the rule's writes. The caller has checked `holds`."""
    after = dict(item)
    for write in rule.writes:
        match write:
            case Put(attribute, value):
                after[attribute] = given_value(value, given)
            case Keep(attribute, value):
                after.setdefault(attribute, given_value(value, given))
            case Add(attribute, amount):
                after[attribute] = item.get(attribute, 0) + amount
            case Drop(attribute):
                after.pop(attribute, None)
    return after
