"""Rules and conditions as DynamoDB spells them: expressions, with every name aliased and every value marked."""

from collections.abc import Sequence
from typing import Any, TypedDict

from boto3.dynamodb.types import TypeSerializer

from fetcher.core.rules import (
    Absent,
    Add,
    Condition,
    Drop,
    Either,
    Equal,
    Every,
    Given,
    Keep,
    Less,
    NotAbove,
    Present,
    Put,
    Rule,
    given_value,
)

_serialize = TypeSerializer().serialize


class Spelled(TypedDict, total=False):
    """The expression members of a DynamoDB write."""

    ConditionExpression: str
    UpdateExpression: str
    ExpressionAttributeNames: dict[str, str]
    ExpressionAttributeValues: dict[str, Any]


class _Speller:
    """Collects names and values while an expression is written; every name is aliased."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, attribute: str) -> str:
        self.names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def value(self, value: Any) -> str:
        mark = f":v{len(self.values)}"
        self.values[mark] = _serialize(given_value(value, self.given))
        return mark

    def condition(self, condition: Condition) -> str:  # noqa: PLR0911 - one line a case of a closed set
        match condition:
            case Every(terms):
                return self.joined(" AND ", terms)
            case Either(terms):
                return self.joined(" OR ", terms)
            case Present(attribute):
                return f"attribute_exists({self.name(attribute)})"
            case Absent(attribute):
                return f"attribute_not_exists({self.name(attribute)})"
            case Equal(attribute, value):
                return f"{self.name(attribute)} = {self.value(value)}"
            case Less(attribute, value):
                return f"{self.name(attribute)} < {self.value(value)}"
            case NotAbove(attribute, value):
                return f"{self.name(attribute)} <= {self.value(value)}"

    def joined(self, word: str, terms: Sequence[Condition]) -> str:
        """Join terms; DynamoDB refuses parentheses around a single one as redundant."""
        spelled = [self.condition(term) for term in terms]
        return spelled[0] if len(spelled) == 1 else "(" + word.join(spelled) + ")"

    def update(self, rule: Rule) -> str:
        sets: list[str] = []
        removes: list[str] = []
        for write in rule.writes:
            name = self.name(write.attribute)
            match write:
                case Put(_, value):
                    sets.append(f"{name} = {self.value(value)}")
                case Keep(_, value):
                    sets.append(f"{name} = if_not_exists({name}, {self.value(value)})")
                case Add(_, amount):
                    sets.append(f"{name} = if_not_exists({name}, {self.value(0)}) + {self.value(amount)}")
                case Drop():
                    removes.append(name)
        clauses = ["SET " + ", ".join(sets)] if sets else []
        if removes:
            clauses.append("REMOVE " + ", ".join(removes))
        return " ".join(clauses)

    def spelled(self, **expressions: str) -> Spelled:
        spelled: Spelled = {"ExpressionAttributeNames": self.names, **expressions}  # type: ignore[typeddict-item] # from keywords
        if self.values:
            spelled["ExpressionAttributeValues"] = self.values
        return spelled


def spell(rule: Rule, given: Given) -> Spelled:
    """Spell a rule as the members of an UpdateItem or of an Update in a transaction."""
    speller = _Speller(given)
    return speller.spelled(ConditionExpression=speller.condition(rule.when), UpdateExpression=speller.update(rule))


def spell_condition(condition: Condition, given: Given) -> Spelled:
    """Spell a condition alone, for a Put, a Delete or a check."""
    speller = _Speller(given)
    return speller.spelled(ConditionExpression=speller.condition(condition))
