"""What an error of PostgreSQL means for the caller, as data.

Source of the classes: PostgreSQL documentation, appendix A "PostgreSQL Error Codes". libpq gives
no SQLSTATE while connecting, so those errors are told apart by the server's words.
"""

from collections.abc import Mapping

import psycopg

from fetcher.engines._errors import Meaning, table
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError

VIEW = Meaning(InvalidRequestError, "PostgreSQL cannot run the view")

STATES: Mapping[str, Meaning] = {
    "08": Meaning(UnavailableError, "the connection to PostgreSQL broke"),  # connection exception
    "0A": Meaning(InvalidRequestError, "PostgreSQL does not support this read"),  # feature not supported
    "21": VIEW,  # cardinality violation: a subquery of a view
    "22": Meaning(InvalidRequestError, "PostgreSQL rejected a value of the request"),  # data exception
    "25006": Meaning(InvalidRequestError, "the table changes something when it is read"),  # read only transaction
    "25": Meaning(
        UnavailableError, "PostgreSQL ended the transaction"
    ),  # invalid transaction state, 25P03 idle timeout
    "28": Meaning(RefusedError, "PostgreSQL refused the credentials"),  # invalid authorization specification
    "2F": VIEW,  # SQL routine exception
    "38": VIEW,  # external routine exception
    "39": VIEW,  # external routine invocation exception
    "3D": Meaning(RefusedError, "PostgreSQL has no such database"),  # invalid catalog name
    "40": Meaning(UnavailableError, "PostgreSQL rolled the read back"),  # 40001 serialization, 40P01 deadlock
    "42": Meaning(InvalidRequestError, "PostgreSQL rejected the query"),  # syntax error or access rule violation
    "42501": Meaning(RefusedError, "PostgreSQL denies access to the table"),  # insufficient privilege
    "53": Meaning(UnavailableError, "PostgreSQL is short of resources"),  # 53300 too many connections
    "54": Meaning(LimitError, "a row is too large for PostgreSQL to render"),  # program limit exceeded
    "55": Meaning(UnavailableError, "the table is not ready in PostgreSQL"),  # 55P03 lock not available
    "57": Meaning(UnavailableError, "PostgreSQL interrupted the read"),  # 57014 by somebody else, 57P01..05 shutdown
    "58": Meaning(UnavailableError, "PostgreSQL has trouble with its system"),  # system error
    "72": Meaning(UnavailableError, "PostgreSQL's snapshot is too old"),  # snapshot failure, up to version 16
    "F0": Meaning(UnavailableError, "PostgreSQL has trouble with its configuration"),  # configuration file error
    "P0": VIEW,  # PL/pgSQL error: raised by a function of a view
    "XX": Meaning(UnavailableError, "PostgreSQL has an internal error"),  # internal error, data corrupted
}

CONNECTING: Mapping[str, Meaning] = {
    "too many clients": Meaning(UnavailableError, "PostgreSQL has no connection left"),
    "too many connections": Meaning(UnavailableError, "PostgreSQL has no connection left"),
    "connection slots are reserved": Meaning(UnavailableError, "PostgreSQL has no connection left"),
    "the database system is": Meaning(UnavailableError, "PostgreSQL is not ready for connections"),
    "does not support SSL": Meaning(RefusedError, "PostgreSQL does not offer TLS"),
    "certificate": Meaning(RefusedError, "the TLS certificate was not accepted"),
    "no password supplied": Meaning(RefusedError, "PostgreSQL refused the credentials"),
    "authentication failed": Meaning(RefusedError, "PostgreSQL refused the credentials"),
    "FATAL:": Meaning(RefusedError, "PostgreSQL refused the connection"),
}
"""The first fragment found in the message decides; the server's own words are never passed on."""

TABLES = (
    table("SQLSTATE begins", "PostgreSQL documentation, appendix A", STATES, "unavailable"),
    table("words while connecting", "PostgreSQL and libpq, their messages", CONNECTING, "unavailable"),
)
HIDES_ROWS = "check_enable_rls"
"""The server's own function that finds row security: its code is that of any missing right, its text is localised."""
HIDDEN = "a row-level security policy would hide rows of the table from this user; read as one with BYPASSRLS"


def explained(error: Exception) -> FetcherError:
    """Translate what the driver raised in an open session, of whatever class."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is None or not isinstance(error, psycopg.Error):
        return _without_state(error)
    if error.diag.source_function == HIDES_ROWS:
        return RefusedError(f"{HIDDEN} ({state})")
    meaning = STATES.get(state) or STATES.get(state[:2]) or Meaning(UnavailableError, "PostgreSQL failed")
    return meaning.error(f" ({state})")


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
    found = next((meaning for fragment, meaning in CONNECTING.items() if fragment in text), None)
    return found.error() if found else UnavailableError("PostgreSQL is out of reach")
