"""The HTTP API as a client sees it: one request, one answer, and three ways to be told no."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import urllib3

from fetcher_cli import places
from fetcher_cli.errors import RefusedError, UnreachableError, UsageError

TOKEN = "FETCHER_TOKEN"  # noqa: S105 - the variable's name
SECONDS = 30.0
"""API Gateway answers within 30 seconds, or with an error of its own."""

Sign = Callable[[str, str, bytes | None, Mapping[str, str]], Mapping[str, str]]
"""Given method, address, body and headers, return the headers to send."""


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
    """Sends requests as they are: no retry, and no redirect is followed. Leaving it closes its connections."""

    def __init__(self, url: str, sign: Sign) -> None:
        self.url = url
        self._sign = sign
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(total=SECONDS), retries=False)

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a GET."""
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a POST; a body is JSON."""
        return self.send("POST", path, body, headers)

    def ready(self) -> Mapping[str, Any]:
        """Ask what the service reaches; 503 brings the same list as 200, so it is no error here."""
        checks: Mapping[str, Any] = self._sent("GET", "/readyz", None, {}).json()["checks"]
        return checks

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request. Raises `RefusedError` for 4xx, `UnreachableError` for 429, 5xx and no answer."""
        return _checked(self._sent(method, path, body, headers or {}))

    def _sent(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        url = self.url + path
        plain = {**({"Content-Type": "application/json"} if body is not None else {}), **headers}
        try:
            got = self._pool.request(
                method, url, body=body, headers=self._sign(method, url, body, plain), redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"{self.url} does not answer: {_reason(error)}") from error
        return Answer(got.status, got.headers, got.data)


def connect(url: str | None, *, iam: bool) -> Api:
    """Find the API and what it is to be told about the caller."""
    found = places.api_url(url)
    if urlsplit(found).scheme not in {"http", "https"}:
        raise UsageError(f"{found} is not an http or https address.")
    return Api(found, _signed_by_aws(found) if iam else _with_token(found))


def retry_after(headers: Mapping[str, str], otherwise: float, now: Callable[[], float] = time.time) -> float:
    """Seconds that the other side asks us to wait: a number or a date; junk is as good as nothing."""
    text = headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now())
    except ValueError:
        return otherwise


def _checked(answer: Answer) -> Answer:
    if answer.status < 400:
        return answer
    refused = RefusedError(answer.status, _problem(answer))
    if answer.status == 429 or answer.status >= 500:
        raise UnreachableError(str(refused), after=retry_after(answer.headers, 2.0))
    raise refused


def _problem(answer: Answer) -> Mapping[str, Any]:
    """Read problem details; a gateway in between may answer in its own way, or not in JSON at all."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"detail": answer.body[:200].decode("utf-8", "replace")}


def _with_token(url: str) -> Sign:
    token = os.environ.get(TOKEN)
    if token is None:
        return lambda _method, _url, _body, headers: headers
    at = urlsplit(url)
    if at.scheme != "https" and at.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise UsageError(f"{TOKEN} is only sent over https; {url} is not.")
    return lambda _method, _url, _body, headers: {**headers, "Authorization": f"Bearer {token}"}


def _signed_by_aws(url: str) -> Sign:
    """Sign with the caller's AWS credentials (SigV4), for deployments with the authorizer `iam`."""
    import boto3  # noqa: PLC0415 - half a second that only this needs
    from botocore.auth import SigV4Auth  # noqa: PLC0415 - only for `--iam`
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - only for `--iam`

    session = boto3.Session()
    credentials, region = session.get_credentials(), _region(url) or os.environ.get("AWS_REGION") or session.region_name
    if credentials is None or region is None:
        raise UsageError("--iam needs AWS credentials and a region: configure a profile, or set AWS_REGION.")

    def sign(method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Mapping[str, str]:
        request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
        SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(request)
        return dict(request.headers.items())

    return sign


def _region(url: str) -> str | None:
    """Cut the region from API Gateway's own host names."""
    labels = (urlsplit(url).hostname or "").split(".")
    return labels[labels.index("execute-api") + 1] if "execute-api" in labels[:-1] else None


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """The innermost reason is the one that helps; the layers around it repeat the address."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return str(getattr(cause, "strerror", None) or cause)
