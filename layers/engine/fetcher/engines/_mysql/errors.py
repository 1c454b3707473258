"""What an error of MySQL or MariaDB means for the caller, as data.

Source of the numbers: "MySQL 8.0 Error Message Reference" (server 1000–1999 and 3000–, client 2000–2999)
and "MariaDB Error Codes" (1900–1999 are its own). A number that is not listed is read by its SQLSTATE.
"""

from collections.abc import Mapping
from ssl import SSLCertVerificationError, SSLEOFError, SSLError, SSLZeroReturnError

import pymysql

from fetcher.engines._errors import Meaning, grouped, table
from fetcher.errors import (
    FetcherError,
    InvalidRequestError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)

BROKEN = Meaning(UnavailableError, "the connection to MySQL broke")
BUSY = Meaning(UnavailableError, "MySQL has no connection left")
USED_UP = Meaning(UnavailableError, "this hour's share of MySQL is used up", wait=900)
"""The server counts by the hour and does not say when the hour is over: four waits of a quarter outlast it."""

SHORT = Meaning(UnavailableError, "MySQL is short of resources")
ROLLED_BACK = Meaning(UnavailableError, "MySQL rolled the read back")
INTERRUPTED = Meaning(UnavailableError, "MySQL interrupted the read")
CREDENTIALS = Meaning(RefusedError, "MySQL refused the credentials")
RIGHTS = Meaning(RefusedError, "MySQL denies access to the table")
TIMED_OUT = Meaning(TimedOutError, "MySQL's time limit for a statement ran out")
NO_DATABASE = Meaning(RefusedError, "MySQL has no such database")
NO_TLS = Meaning(RefusedError, "MySQL does not offer TLS, or requires it")
CERTIFICATE = Meaning(RefusedError, "the TLS certificate was not accepted")
HANDSHAKE = Meaning(RefusedError, "no TLS connection could be agreed with MySQL")
REJECTED_VALUE = Meaning(InvalidRequestError, "MySQL rejected a value of the request")
REJECTED = Meaning(InvalidRequestError, "MySQL rejected the query")
CHARACTERS = Meaning(InvalidRequestError, "a filter value has characters that its column cannot hold")
WRITES = Meaning(InvalidRequestError, "the table changes something when it is read")
VIEW = Meaning(InvalidRequestError, "MySQL cannot run the view")
TOO_LARGE = Meaning(LimitError, "a row is too large for MySQL to render: its max_allowed_packet bounds it")
REFUSED = Meaning(RefusedError, "MySQL refused the connection")
UNREACHABLE = Meaning(UnavailableError, "MySQL is out of reach")
FAILED = Meaning(UnavailableError, "MySQL failed")


ERRORS = grouped(
    (BUSY, (1040, 1203)),  # too many connections: at all, of this user
    (USED_UP, (1226,)),  # queries, updates or connections in this hour
    (SHORT, (1021, 1030, 1037, 1038, 1041, 1114, 1135)),  # disk, engine, memory, temporary table, thread
    (ROLLED_BACK, (1205, 1213, 1412, 1614)),  # lock wait, deadlock, table changed since the snapshot
    (INTERRUPTED, (1028, 1317)),  # by KILL QUERY: of somebody else, or the watchdog's verdict would come first
    (BROKEN, (1053, 1077, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2003, 2006, 2013, 2027, 2055, 4031)),
    (TIMED_OUT, (1969, 3024)),  # max_statement_time of MariaDB, max_execution_time of MySQL
    (CREDENTIALS, (1045, 1251, 1698, 1820, 1862, 2059, 2061, 3118, 4151)),
    (RIGHTS, (1044, 1142, 1143, 1227, 1370)),
    (NO_DATABASE, (1046, 1049)),
    (NO_TLS, (2026, 3159)),
    (REFUSED, (1129, 1130)),  # this host is blocked, or not allowed
    (CHARACTERS, (1267, 1270, 1271)),  # no collation holds both sides
    (REJECTED_VALUE, (1264, 1292, 1300, 1366, 1411, 1525, 1690)),
    (WRITES, (1792,)),
    (VIEW, (1356, 1449)),
    (TOO_LARGE, (1153, 1301)),
    (Meaning(LimitError, "the filters have too many values for MySQL"), (1390,)),
    (Meaning(LimitError, "the query is too complex for MySQL"), (1436,)),
)

STATES: Mapping[str, Meaning] = {
    "08": BROKEN,  # connection exception
    "0A": Meaning(InvalidRequestError, "MySQL does not support this read"),  # feature not supported
    "22": REJECTED_VALUE,  # data exception
    "28": CREDENTIALS,  # invalid authorization
    "40": ROLLED_BACK,  # transaction rollback
    "42": REJECTED,  # syntax error or access rule violation
    "70": INTERRUPTED,  # interrupted
}

AT_ONCE = "max_user_connections"
"""What 1226 names when the connections of a user at one moment are meant, which pass sooner than an hour."""

CLIENT_ERRORS = range(2000, 3000)
OLD_SERVER_ERRORS = range(1000, 2000)

TABLES = (
    table("number", "MySQL 8.0 Error Message Reference; MariaDB Error Codes", ERRORS, "by SQLSTATE"),
    table(
        "SQLSTATE begins",
        "MySQL 8.0 Error Message Reference",
        STATES,
        "1000…1999 invalid, while connecting refused; all else unavailable; 1226 that names `max_user_connections`"
        " is read as 1203",
    ),
)


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session: the driver lets errors of any class out."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequestError("a value or name of the request is not valid Unicode")
    return _translated(error, REJECTED, BROKEN)


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    tls = getattr(error, "original_exception", error)
    if isinstance(tls, SSLCertVerificationError):
        return CERTIFICATE.error()
    if isinstance(tls, SSLError) and not isinstance(tls, SSLEOFError | SSLZeroReturnError):
        return HANDSHAKE.error()
    if isinstance(error, UnicodeEncodeError):
        return CREDENTIALS.error()
    return _translated(error, REFUSED, UNREACHABLE)


def number(error: BaseException | None) -> int | None:
    """Return the error's number, if the server or the driver gave one."""
    first = error.args[0] if isinstance(error, pymysql.err.MySQLError) and error.args else None
    return first if isinstance(first, int) and first > 0 else None


def _translated(error: Exception, rejected: Meaning, broken: Meaning) -> FetcherError:
    code = number(error)
    if code is None:
        return broken.error()
    state = str(getattr(error, "sqlstate", None) or "")[:2]
    meaning = BUSY if ERRORS.get(code) is USED_UP and AT_ONCE in str(error) else ERRORS.get(code) or STATES.get(state)
    if meaning is None:
        meaning = rejected if code in OLD_SERVER_ERRORS else broken if code in CLIENT_ERRORS else FAILED
    return meaning.error(f" ({code})")
