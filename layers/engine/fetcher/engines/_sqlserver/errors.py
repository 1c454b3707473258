"""What an error of SQL Server or its driver means for the caller, as data.

Source of the numbers: Microsoft's "Database engine events and errors" and "Troubleshooting transient connection
errors" (Azure SQL); of the SQLSTATEs: ODBC, appendix A. The server's number, where there is one, comes first.
"""

import re
from collections.abc import Mapping
from typing import Any

from fetcher.engines._errors import Meaning, grouped, table
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, UnavailableError

BROKEN = Meaning(UnavailableError, "the connection to SQL Server broke")
UNREACHABLE = Meaning(UnavailableError, "SQL Server is out of reach")
BUSY = Meaning(UnavailableError, "SQL Server is short of resources")
THROTTLED = Meaning(UnavailableError, "SQL Server is too busy to take requests", wait=10)
"""The text of 40501 names the ten seconds."""

OPERATIONS = Meaning(UnavailableError, "SQL Server has too many operations in progress", wait=60)
MOVING = Meaning(UnavailableError, "the database is moved to another server", wait=60)
"""Azure ends most reconfigurations within 60 seconds."""

AWAY = Meaning(UnavailableError, "the database is not available in SQL Server now")
ROLLED_BACK = Meaning(UnavailableError, "SQL Server rolled the read back")
CHANGED = Meaning(UnavailableError, "the table changed its definition since the snapshot began")
CREDENTIALS = Meaning(RefusedError, "SQL Server refused the credentials")
NO_DATABASE = Meaning(RefusedError, "SQL Server has no such database, or denies access to it")
RIGHTS = Meaning(RefusedError, "SQL Server denies access to the table")
HIDDEN = (
    "a row-level security policy of SQL Server filters the rows of the table, and exempts nobody; read it where"
    " none is enabled, or a view that says which rows are meant"
)
MASKED = (
    "SQL Server masks values of the table for this user (dynamic data masking); read it as one with UNMASK, or without"
    " the masked fields"
)
BLOCKED = Meaning(RefusedError, "SQL Server does not let this address in")
TLS = Meaning(RefusedError, "no TLS connection could be agreed with SQL Server, or its certificate was not accepted")
REJECTED = Meaning(InvalidRequestError, "SQL Server rejected the query")
VALUE = Meaning(InvalidRequestError, "SQL Server rejected a value of the request")
VIEW = Meaning(InvalidRequestError, "SQL Server cannot run the view")
TOO_MUCH = Meaning(LimitError, "the query has too many values or columns for SQL Server")
FAILED = Meaning(UnavailableError, "SQL Server failed")


ERRORS = grouped(
    (CREDENTIALS, (18452, 18456, 18470, 18486, 18487, 18488)),
    (NO_DATABASE, (911, 916, 4060, 4064)),
    (RIGHTS, (229, 230, 262, 297, 300, 371, 15247)),
    (BLOCKED, (40532, 40615, 40914)),
    (ROLLED_BACK, (1204, 1205, 1221, 1222, 3951, 3952, 3960, 3966)),  # locks, deadlock, snapshot
    (CHANGED, (3961,)),
    (BUSY, (701, 802, 1105, 8628, 8645, 8651, 9002, 17809, 17810)),
    (THROTTLED, (10928, 10929, 40501)),  # workers, sessions or requests of the database, or of the whole server
    (OPERATIONS, (49918, 49919, 49920)),  # operations of the subscription
    (AWAY, (904, 921, 922, 924, 927, 942, 945, 952, 976, 978, 983, 6005, 18401, 40197, 40540, 40544, 40549)),
    (AWAY, (40550, 40551, 40552, 40553, 4221, 615)),
    (MOVING, (40613,)),
    (VALUE, (220, 232, 241, 242, 244, 245, 248, 257, 295, 402, 517, 529, 8114, 8115, 8152, 8169, 9803, 9807, 9813)),
    (VALUE, (6234, 6522, 9819)),
    (REJECTED, (102, 105, 156, 195, 206, 207, 208, 209, 305, 306, 421, 446, 451, 468, 8116)),
    (VIEW, (512, 4413, 4502, 4121)),
    (TOO_MUCH, (1701, 1702, 8003, 8618, 8623, 8631, 8632, 511)),
)

STATES: Mapping[str, Meaning] = {
    "08": BROKEN,  # connection exception, 08001 and 08S01 among them
    "HYT": BROKEN,  # HYT00 and HYT01, a time limit of the driver's own
    "HY008": BROKEN,  # ended by SQLCancel; ours is known to the watchdog
    "IM": Meaning(UnavailableError, "Microsoft's ODBC driver is not installed"),
    "28": CREDENTIALS,
    "22": VALUE,
    "40": ROLLED_BACK,
    "42": REJECTED,
}

TABLES = (
    table(
        "number",
        "Database engine events and errors; Troubleshoot transient connection errors (Azure SQL)",
        ERRORS,
        "by SQLSTATE",
    ),
    table("SQLSTATE begins", "ODBC Programmer's Reference, appendix A", STATES, "unavailable"),
)

NUMBER = re.compile(r"\((-?\d+)\)")
SECURE = re.compile(r"SSL|TLS|certificate|[Ee]ncryption")
"""The driver reports a failed handshake as 08001, with words of its own or OpenSSL's."""


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session, of whatever class."""
    return _translated(error, BROKEN)


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    state, text = _parts(error)
    if state.startswith("08") and SECURE.search(text):
        return TLS.error()
    return _translated(error, UNREACHABLE)


def _translated(error: Exception, broken: Meaning) -> FetcherError:
    if isinstance(error, UnicodeError):
        return InvalidRequestError("a value or name of the request is not valid Unicode")
    state, text = _parts(error)
    known = next((number for number in map(int, NUMBER.findall(text)) if number in ERRORS), None)
    if known is not None:
        return ERRORS[known].error(f" ({known})")
    if not state:
        return broken.error()
    meaning = STATES.get(state) or STATES.get(state[:3]) or STATES.get(state[:2]) or FAILED
    return (broken if meaning is BROKEN else meaning).error(f" ({state})")


def _parts(error: Exception) -> tuple[str, str]:
    """Return SQLSTATE and text of the driver's error; any other exception has neither."""
    args: tuple[Any, ...] = error.args
    if type(error).__module__ == "pyodbc" and len(args) > 1:
        return str(args[0]), str(args[1])
    return "", ""
