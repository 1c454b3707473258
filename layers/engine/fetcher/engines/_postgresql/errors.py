"""What an error of PostgreSQL means for the caller, as data.

Source of the classes: PostgreSQL documentation, appendix A "PostgreSQL Error Codes". libpq gives
no SQLSTATE while connecting, so those errors are told apart by the server's words.
"""

import psycopg

from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError

STATES: dict[str, tuple[type[FetcherError], str]] = {
    "08": (UnavailableError, "the connection to PostgreSQL broke"),  # connection exception
    "0A": (InvalidRequestError, "PostgreSQL does not support this read"),  # feature not supported
    "22": (InvalidRequestError, "PostgreSQL rejected a value of the request"),  # data exception
    "25006": (InvalidRequestError, "the table changes something when it is read"),  # read only transaction
    "25": (UnavailableError, "PostgreSQL ended the transaction"),  # invalid transaction state, 25P03 idle timeout
    "28": (RefusedError, "PostgreSQL refused the credentials"),  # invalid authorization specification
    "3D": (RefusedError, "PostgreSQL has no such database"),  # invalid catalog name
    "40": (
        UnavailableError,
        "PostgreSQL rolled the read back",
    ),  # 40001 serialization (standby conflicts), 40P01 deadlock
    "42": (InvalidRequestError, "PostgreSQL rejected the query"),  # syntax error or access rule violation
    "42501": (RefusedError, "PostgreSQL denies access to the table"),  # insufficient privilege
    "53": (UnavailableError, "PostgreSQL is short of resources"),  # 53300 too many connections
    "54": (LimitError, "a row is too large for PostgreSQL to render"),  # program limit exceeded
    "55": (UnavailableError, "the table is not ready in PostgreSQL"),  # 55P03 lock not available
    "57": (UnavailableError, "PostgreSQL interrupted the read"),  # 57014 by somebody else, 57P01..05 shutdown
    "58": (UnavailableError, "PostgreSQL has trouble with its system"),  # system error
    "72": (UnavailableError, "PostgreSQL's snapshot is too old"),  # snapshot failure, up to version 16
    "F0": (UnavailableError, "PostgreSQL has trouble with its configuration"),  # configuration file error
    "XX": (UnavailableError, "PostgreSQL has an internal error"),  # internal error, data corrupted
}

CONNECTING: tuple[tuple[str, type[FetcherError], str], ...] = (
    ("too many clients", UnavailableError, "PostgreSQL has no connection left"),
    ("too many connections", UnavailableError, "PostgreSQL has no connection left"),
    ("connection slots are reserved", UnavailableError, "PostgreSQL has no connection left"),
    ("the database system is", UnavailableError, "PostgreSQL is not ready for connections"),
    ("does not support SSL", RefusedError, "PostgreSQL does not offer TLS"),
    ("certificate", RefusedError, "the TLS certificate was not accepted"),
    ("no password supplied", RefusedError, "PostgreSQL refused the credentials"),
    ("authentication failed", RefusedError, "PostgreSQL refused the credentials"),
    ("FATAL:", RefusedError, "PostgreSQL refused the connection"),
)
"""The first fragment found in the message decides; the server's own words are never passed on."""


def explained(error: Exception) -> FetcherError:
    """Translate what the driver raised in an open session, of whatever class."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is None:
        return _without_state(error)
    family, message = STATES.get(state) or STATES.get(state[:2]) or (UnavailableError, "PostgreSQL failed")
    return family(f"{message} ({state})")


def _without_state(error: Exception) -> FetcherError:
    """The driver rejects some values before they are sent; anything else is a broken wire."""
    if isinstance(error, psycopg.DataError | psycopg.ProgrammingError):
        return InvalidRequestError("PostgreSQL's driver rejected a value of the request")
    if isinstance(error, MemoryError):
        return LimitError("a row of PostgreSQL is too large for this worker's memory")
    return UnavailableError("the connection to PostgreSQL broke")


def refused(error: Exception) -> FetcherError:
    """Translate what the driver raised while connecting."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return explained(error)
    text = str(error)
    for fragment, family, message in CONNECTING:
        if fragment in text:
            return family(message)
    return UnavailableError("PostgreSQL is out of reach")
