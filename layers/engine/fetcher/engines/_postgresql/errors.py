"""What an error of PostgreSQL means for the caller, as data.

Source of the classes: PostgreSQL documentation, appendix A "PostgreSQL Error Codes". libpq gives
no SQLSTATE while connecting, so those errors are told apart by the server's words, which may be in any
language.
"""

import re
from collections.abc import Iterable, Mapping

import psycopg

from fetcher.engines._errors import Meaning, table
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError

VIEW = Meaning(InvalidRequestError, "PostgreSQL cannot run the view")
CHARACTERS = Meaning(
    InvalidRequestError, "a text of the table, or of the request, does not fit the database's character set"
)

STATES: Mapping[str, Meaning] = {
    "08": Meaning(UnavailableError, "the connection to PostgreSQL broke"),  # connection exception
    "0A": Meaning(InvalidRequestError, "PostgreSQL does not support this read"),  # feature not supported
    "21": VIEW,  # cardinality violation: a subquery of a view
    "22": Meaning(InvalidRequestError, "PostgreSQL rejected a value of the request"),  # data exception
    "22021": CHARACTERS,  # character not in repertoire: bytes that are none of the set's, in `SQL_ASCII` for one
    "22P05": CHARACTERS,  # untranslatable character: one that UTF-8, or the database, does not have
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
    "53400": Meaning(LimitError, "the read needs more than PostgreSQL's configuration allows"),  # temp_file_limit
    "54": Meaning(LimitError, "a row is too large for PostgreSQL to render"),  # program limit exceeded
    "55": Meaning(UnavailableError, "the table is not ready in PostgreSQL"),  # 55P03 lock not available
    "57": Meaning(UnavailableError, "PostgreSQL interrupted the read"),  # 57014 by somebody else, 57P01..05 shutdown
    "58": Meaning(UnavailableError, "PostgreSQL has trouble with its system"),  # system error
    "72": Meaning(UnavailableError, "PostgreSQL's snapshot is too old"),  # snapshot failure, up to version 16
    "F0": Meaning(UnavailableError, "PostgreSQL has trouble with its configuration"),  # configuration file error
    "P0": VIEW,  # PL/pgSQL error: raised by a function of a view
    "XX": Meaning(UnavailableError, "PostgreSQL has an internal error"),  # internal error, data corrupted
}

NO_CONNECTION = Meaning(UnavailableError, "PostgreSQL has no connection left")
CREDENTIALS = Meaning(RefusedError, "PostgreSQL refused the credentials")
ENTRY = Meaning(RefusedError, "PostgreSQL refused the connection")
SETTING = Meaning(RefusedError, "PostgreSQL, or a pooler before it, does not take the settings of a read")
CERTIFICATE = Meaning(RefusedError, "the TLS certificate was not accepted")
DEMANDS_TLS = Meaning(RefusedError, "PostgreSQL demands TLS")

CONNECTING: Mapping[str, Meaning] = {
    "too many clients": NO_CONNECTION,
    "too many connections": NO_CONNECTION,
    "connection slots are reserved": NO_CONNECTION,
    "no more connections allowed": NO_CONNECTION,  # PgBouncer, max_client_conn
    "client connections reached": NO_CONNECTION,  # Supavisor
    "the database system is": Meaning(UnavailableError, "PostgreSQL is not ready for connections"),
    "server login has been failing": Meaning(UnavailableError, "a pooler cannot reach PostgreSQL"),  # whatever failed
    "does not support SSL": Meaning(RefusedError, "PostgreSQL does not offer TLS"),
    "certificate": CERTIFICATE,
    "alert unknown ca": CERTIFICATE,
    "SSL connection is required": DEMANDS_TLS,  # Azure
    "SSL required": DEMANDS_TLS,  # PgBouncer
    "no password supplied": CREDENTIALS,
    "authentication failed": CREDENTIALS,
    "pg_hba.conf": ENTRY,  # in every language
    "does not exist": ENTRY,
    "no such": ENTRY,  # PgBouncer's user or database
    "not permitted to log in": ENTRY,
    "not currently accepting connections": ENTRY,
    "permission denied for": ENTRY,
    "permission denied to set": SETTING,
    "configuration parameter": SETTING,  # one that the server does not know
    "startup parameter": SETTING,  # PgBouncer, unless `ignore_startup_parameters` names them
}
"""The first fragment found in the message decides; the server's own words are never passed on."""

NAMED = ENTRY
"""What else a server says of the user or the database: in whatever language, that is nearly always a refusal."""
SAID = Meaning(UnavailableError, "PostgreSQL lets nobody in now")
"""What else it says: that it has no place, no memory, no time."""

TABLES = (
    table("SQLSTATE begins", "PostgreSQL documentation, appendix A", STATES, "unavailable"),
    table(
        "words while connecting",
        "PostgreSQL, libpq and PgBouncer, their messages",
        CONNECTING,
        "refused where it names the user or the database, which all languages quote; unavailable otherwise",
    ),
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
    if isinstance(error, UnicodeError):
        return CHARACTERS.error()
    if isinstance(error, psycopg.DataError | psycopg.ProgrammingError):
        return InvalidRequestError("PostgreSQL's driver rejected a value of the request")
    if isinstance(error, MemoryError):
        return LimitError("a row of PostgreSQL is too large for this worker's memory")
    return UnavailableError("the connection to PostgreSQL broke")


QUOTED = re.compile(r'"[^"\n]*"')
"""Hosts, users and databases, as libpq and the server quote them: a host called `certificates` decides nothing."""
WORDS = re.compile(r"\S:  (.*)")
"""What the server itself said, behind its severity: in every language libpq parts the two by two blanks."""
QUOTES = '["«»„“”]'


def refused(error: Exception, names: Iterable[str] = ()) -> FetcherError:
    """Translate what the driver raised while connecting; `names` are those of the user and of the database."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return explained(error)
    text = str(error)
    plain = QUOTED.sub("", text)
    found = next((meaning for fragment, meaning in CONNECTING.items() if fragment in plain), None)
    if found is None and (words := WORDS.findall(text)):
        named = "|".join(map(re.escape, names))
        found = NAMED if named and re.search(rf"{QUOTES}\s?({named})\s?{QUOTES}", " ".join(words)) else SAID
    return found.error() if found else UnavailableError("PostgreSQL is out of reach")
