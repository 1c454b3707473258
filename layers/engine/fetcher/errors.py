"""Every error that crosses a module border, grouped by what the caller must do next.

    FetcherError
    ├── InvalidRequestError   change the request            never retried
    ├── RefusedError          fix access or host policy     never retried
    ├── UnavailableError      try the same call later       retried with backoff
    │   └── ChangedError      plan and read it again        the same
    ├── LimitError            ask for less                  never retried
    ├── TimedOutError         ask for less, or at a quieter hour   never retried
    ├── CanceledError         nothing; somebody asked for it       never retried
    ├── NotReadyError         nothing; the operator mends the deployment   its message comes back
    └── LostClaimError        stop at once; another worker owns the extraction

An error of any other class is a defect or a failure of AWS: the worker releases its claim and the message comes
back; after five in vain the extraction ends with the family `internal`.
Messages are safe to log and to return: they name what the caller sent, never a credential,
a connection string or a row. The driver's own text stays on `__cause__`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

Family = Literal["invalid", "refused", "unavailable", "limit", "timeout", "canceled", "internal"]

JOB_CODES: dict[Family, str] = {
    "invalid": "FET-2010",
    "refused": "FET-2020",
    "unavailable": "FET-2030",
    "limit": "FET-2040",
    "timeout": "FET-2050",
    "canceled": "FET-2060",
    "internal": "FET-2090",
}
"""The codes of failed jobs, one a family; the finer codes are those of requests."""

ACTIONS: dict[Family, str] = {
    "invalid": "correct what is named here, or the connection behind it, and submit the changed request",
    "refused": "check user, password, rights, TLS and address of the connection; test it, then retry the job",
    "unavailable": "wait until the database answers again, then retry the job",
    "limit": "ask for fewer fields, tables or rows, or for several smaller jobs",
    "timeout": "ask for less, or retry the job at a quieter hour",
    "canceled": "nothing; retry the job if its result is wanted after all",
    "internal": "retry the job; if it fails again, report it with the job's id",
}
"""What whoever sees a failed job can do, one a family; as safe as the messages, since they are only ours."""

Phase = Literal["queued", "starting", "planning", "reading", "sealing"]
"""What was being done for a job when it failed: nothing yet, finding its connections, asking the sources what they
have, reading their rows, or making the result final."""

SCHEMA_VALIDATION = "extraction request failed schema validation"
"""The exact text for a bad selection (R-000-20): what it is about travels in `Where` alone."""


@dataclass(frozen=True, slots=True)
class Where:
    """Which part of the request an error is about, in the caller's own words."""

    datasource: str | None = None
    table: str | None = None
    field: str | None = None

    def named(self) -> dict[str, str]:
        """Return only the members that are known."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding in a request: a JSON pointer (RFC 6901) and what is wrong there."""

    pointer: str
    detail: str


class FetcherError(Exception):
    """Root of the family. `code` is stable and documented; the wording is not.

    `family` is what consumers of `job.failed` see. `problems` is filled for requests only. `phase` is set by
    `during`, where it is known.
    """

    family: ClassVar[Family] = "internal"
    code = "FET-2090"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: Where | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.where = where or Where()
        self.problems = problems
        self.phase: Phase | None = None

    def public(self) -> dict[str, str]:
        """Render the object that a job and its event show: `design.md` §6.1."""
        return {
            "code": JOB_CODES[self.family],
            "family": self.family,
            "message": self.message,
            "action": ACTIONS[self.family],
            **({} if self.phase is None else {"phase": self.phase}),
            **self.where.named(),
        }


class InvalidRequestError(FetcherError):
    """The request can never succeed as it is."""

    family = "invalid"
    code = "FET-0001"


class RefusedError(FetcherError):
    """The source, or our own host policy, said no."""

    family = "refused"
    code = "FET-2020"


class UnavailableError(FetcherError):
    """Not now; no sooner than `retry_after` seconds when the other side said so.

    Over 20 of them, everything is given back meanwhile and nobody else asks the source either.
    """

    family = "unavailable"
    code = "FET-2030"

    def __init__(self, message: str, *, retry_after: float | None = None, where: Where | None = None) -> None:
        super().__init__(message, where=where)
        self.retry_after = retry_after


class ChangedError(UnavailableError):
    """What was read is not what was planned: none of it may be gone on with."""


class LimitError(FetcherError):
    """A bound of the product was crossed; nothing was stored."""

    family = "limit"
    code = "FET-2040"


class TimedOutError(FetcherError):
    """The extraction's own clock ran out."""

    family = "timeout"
    code = "FET-2050"


class CanceledError(FetcherError):
    """Somebody asked for the extraction to stop."""

    family = "canceled"
    code = "FET-2060"


class NotReadyError(FetcherError):
    """The deployment is not ready: what the operator set cannot be used. The job and its sources did nothing."""


class LostClaimError(FetcherError):
    """Another worker owns the extraction now, or it has ended: no further effect is allowed."""


@contextmanager
def located(datasource: str, table: str | None = None) -> Iterator[None]:
    """Say where an error happened, unless it knows."""
    try:
        yield
    except FetcherError as error:
        known = error.where
        error.where = Where(known.datasource or datasource, known.table or table, known.field)
        raise


@contextmanager
def during(phase: Phase) -> Iterator[None]:
    """Say in which phase an error happened, unless it knows."""
    try:
        yield
    except FetcherError as error:
        error.phase = error.phase or phase
        raise
