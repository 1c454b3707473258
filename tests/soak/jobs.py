"""The jobs of a soak: a mix of sizes and engines, each with bytes that are known from a calm run."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of job. `share` is how many of a hundred are of it; `fails` is the family it must end with."""

    name: str
    fields: Mapping[str, Mapping[str, list[str]]]
    share: int
    fails: str | None = None

    def body(self, correlation: str) -> dict[str, Any]:
        """A request like no other, and yet with the same result bytes as every one of its kind."""
        return {
            "dataRequest": {"mappedFields": self.fields},
            "metadata": {"source": "payments", "correlationId": correlation},
        }


KINDS = (
    Kind("small", {"my_postgres": {"public.accounts": ["id", "email"]}}, 50),
    Kind("medium", {"my_postgres": {"public.accounts": ["*"], "accounting.invoices": ["*"]}}, 28),
    Kind(
        "three engines",
        {
            "my_postgres": {"public.accounts": ["id", "email"]},
            "my_mongo": {"transactions": ["*"]},
            "my_mariadb": {"cards": ["*"]},
        },
        12,
    ),
    Kind("large", {"my_postgres": {"public.movements": ["*"]}}, 6),
    Kind("doomed", {"my_postgres": {"public.accounts": ["id", "no_such_field"]}}, 4, fails="invalid"),
)


def possible(databases: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Choose the kinds whose databases this machine could start."""
    return tuple(kind for kind in KINDS if set(kind.fields) <= set(databases))


def mixed(kinds: tuple[Kind, ...], count: int, seed: int) -> Iterator[tuple[Kind, str]]:
    """Draw `count` jobs, each with a correlation id of its own; the same seed draws the same.

    Each kind is among them where there are as many jobs as kinds.
    """
    random = Random(seed)
    sure = kinds if count >= len(kinds) else ()
    drawn = [*sure, *random.choices(kinds, weights=[kind.share for kind in kinds], k=count - len(sure))]
    random.shuffle(drawn)
    yield from ((kind, f"soak-{seed}-{number}") for number, kind in enumerate(drawn))


def correlation(metadata: str | Mapping[str, Any]) -> str:
    """Read a job's correlation id back from its metadata."""
    parsed = json.loads(metadata) if isinstance(metadata, str) else metadata
    return str(parsed["correlationId"])
