"""A plain client of the HTTP API, for the demo and for the tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Header names compare without case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


class Api:
    """Sends requests as they are: no retries, and no redirect is followed."""

    def __init__(self, url: str, *, seconds: float = 30) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(maxsize=50, timeout=urllib3.Timeout(total=seconds), retries=False)

    def get(self, path: str, **headers: str) -> Answer:
        """GET a path such as `/v1/fetcher`; `if_none_match=…` becomes `If-None-Match`."""
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """POST a value as JSON; bytes go out as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, body=raw, headers={"content_type": "application/json", **headers})

    def delete(self, path: str) -> Answer:
        """DELETE a path."""
        return self.send("DELETE", path)

    def send(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request, whatever the method."""
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        answer = self._pool.request(method, self._url + path, body=body, headers=named, redirect=False)
        return Answer(answer.status, answer.headers, answer.data)

    def close(self) -> None:
        """Close the connections that are kept alive."""
        self._pool.clear()
