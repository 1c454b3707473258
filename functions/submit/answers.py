"""JSON answers, written with the numbers as their owner spelled them."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from aws_lambda_powertools.event_handler import Response

from fetcher.core.canonical import dumps
from fetcher.errors import LimitError

JSON = "application/json"
LARGEST = 4_500_000
"""Bytes of an answer: Lambda gives 6 MB, and a quarter of that may go into escaping the quotes."""


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response[Any]:
    """Answer with JSON."""
    return Response(status, JSON, dumps(body), headers={"Cache-Control": "no-store", **(headers or {})})


def check_size(text: str, otherwise: str) -> None:
    """Raise `LimitError`, which says what to do `otherwise`, for what Lambda could not answer (R-AWS-1)."""
    if len(text.encode()) > LARGEST:
        raise LimitError(otherwise)


def tagged(body: Any, seen: str | None, headers: Mapping[str, str], tag: str | None = None) -> Response[Any]:
    """Answer 200 with an `ETag`, or 304 when the caller has seen exactly this."""
    text = dumps(body)
    tag = tag or f'"{sha256(text.encode()).hexdigest()[:32]}"'
    with_tag = {"Cache-Control": "no-cache", "ETag": tag, **headers}
    if seen is not None and tag in {part.removeprefix("W/") for part in tags(seen)}:
        return Response(304, None, None, headers=with_tag)
    return Response(200, JSON, text, headers=with_tag)


def tags(header: str) -> list[str]:
    """Split a header of entity tags."""
    return [part.strip() for part in header.split(",")]
