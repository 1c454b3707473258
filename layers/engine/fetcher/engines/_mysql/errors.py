"""What an error of MySQL or MariaDB means for the caller, as data.

Source of the numbers: "MySQL 8.0 Error Message Reference" (server 1000–1999 and 3000–, client 2000–2999)
and "MariaDB Error Codes" (1900–1999 are its own). A number that is not listed is read by its SQLSTATE.
`HY000` is no verdict but the state of every error that has none of its own: a failed disk, a shard that is moved, a
lock table that is full. Those are tried again; what lasts among them, and a login or a SELECT can meet, is listed.
"""

from collections.abc import Mapping
from ssl import SSLCertVerificationError, SSLError

import pymysql

from fetcher.engines._errors import NOT_UNICODE, Meaning, grouped, table
from fetcher.engines._tls import is_refusal
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
UNSUPPORTED = Meaning(InvalidRequestError, "MySQL does not support this read")
TOO_COMPLEX = Meaning(LimitError, "the query is too complex for MySQL")
TOO_LARGE = Meaning(LimitError, "a row is too large for MySQL to render: its max_allowed_packet bounds it")
REFUSED = Meaning(RefusedError, "MySQL refused the connection")
UNREACHABLE = Meaning(UnavailableError, "MySQL is out of reach")
FAILED = Meaning(UnavailableError, "MySQL failed")


OF_A_VIEW = (
    *(1111, 1122, 1123, 1126, 1127, 1128),  # functions that are misused, or not loaded
    *(1347, 1356, 1424, 1444, 1449, 1456, 1457, 1462, 1735, 1747),  # what it is made of: gone, another, or itself
    *(1168, 1431, 1432, 1433, 1477),  # MERGE and federated tables whose definition leads nowhere
    *(3033, 3034, *range(3038, 3044), 3055, 3064, *range(3069, 3074), 3134),  # geometries that a function refuses
    *(3636, *range(3684, 3701)),  # recursion, regular expressions
    *(4078, 4079, 4084),  # types that MariaDB does not compare, and a sequence at its end
)
"""Nothing that is read from a table computes; where a function, a type or an object fails, a view asks for it."""

ERRORS = grouped(
    (BUSY, (1040, 1203)),  # too many connections: at all, of this user
    (USED_UP, (1226,)),  # queries, updates or connections in this hour
    # disk, engine, memory, temporary table, thread, locks, statements, transactions
    (SHORT, (1021, 1026, 1030, 1037, 1038, 1041, 1114, 1135, 1206, 1461, 1637, 3015, 3044)),
    # lock wait, deadlock, table changed since the snapshot, or since the statement was prepared
    (ROLLED_BACK, (1205, 1213, 1412, 1614, 1615, 1689)),
    (INTERRUPTED, (1028, 1317)),  # by KILL QUERY: of somebody else, or the watchdog's verdict would come first
    (BROKEN, (1053, 1077, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2003, 2006, 2013, 2027, 2055, 4031)),
    (TIMED_OUT, (1969, 3024)),  # max_statement_time of MariaDB, max_execution_time of MySQL
    (CREDENTIALS, (1045, 1251, 1275, 1524, 1698, 1820, 1862, 2059, 2061, 3118, 3955, 4151)),
    (RIGHTS, (1044, 1142, 1143, 1227, 1345, 1370, 3554)),
    (NO_DATABASE, (1046, 1049)),
    (NO_TLS, (2026, 3159)),
    (REFUSED, (1129, 1130)),  # this host is blocked, or not allowed
    (CHARACTERS, (1267, 1270, 1271)),  # no collation holds both sides
    (REJECTED_VALUE, (1264, 1292, 1300, 1366, 1411, 1525, 1690)),
    (REJECTED, (1054, 1064, 1146, 1193, 1210, 1221, 1273)),  # also where a proxy takes the state away
    (UNSUPPORTED, (1031, 1289, 1295)),
    (WRITES, (1422, 1442, 1445, 1792)),
    (VIEW, OF_A_VIEW),
    (TOO_LARGE, (1153, 1301)),
    (Meaning(LimitError, "the filters have too many values for MySQL"), (1390,)),
    (TOO_COMPLEX, (1116, 1117, 1119, 1436, 1473, 3186)),  # tables, columns, stack, nesting
)

STATES: Mapping[str, Meaning] = {
    "08": BROKEN,  # connection exception
    "0A": UNSUPPORTED,  # feature not supported
    **dict.fromkeys(("02", "20", "21", "24", "2F", "38", "39", "45"), VIEW),  # cardinality, cursors, functions, SIGNAL
    "22": REJECTED_VALUE,  # data exception
    "28": CREDENTIALS,  # invalid authorization
    "40": ROLLED_BACK,  # transaction rollback
    "42": REJECTED,  # syntax error or access rule violation
    "70": INTERRUPTED,  # interrupted
}

AT_ONCE = "max_user_connections"
"""What 1226 names when the connections of a user at one moment are meant, which pass sooner than an hour."""

CLIENT_ERRORS = range(2000, 3000)
NO_VERDICT = frozenset({"", "HY"})
"""States of errors that have none of their own, and of which nothing is known."""

TABLES = (
    table("number", "MySQL 8.0 Error Message Reference; MariaDB Error Codes", ERRORS, "by SQLSTATE"),
    table(
        "SQLSTATE begins",
        "MySQL 8.0 Error Message Reference",
        STATES,
        "`HY` or none unavailable; all else invalid, while connecting refused; 1226 that names `max_user_connections`"
        " is read as 1203",
    ),
)


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session: the driver lets errors of any class out."""
    if isinstance(error, UnicodeEncodeError):
        return NOT_UNICODE.error()
    return _translated(error, REJECTED, BROKEN)


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    tls = getattr(error, "original_exception", error)
    if isinstance(tls, SSLCertVerificationError):
        return CERTIFICATE.error()
    if isinstance(tls, SSLError) and is_refusal(tls):
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
        meaning = broken if code in CLIENT_ERRORS else FAILED if state in NO_VERDICT else rejected
    return meaning.error(f" ({code})")
