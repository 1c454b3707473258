"""What an error of SQL Server or its driver means for the caller, as data.

Source of the numbers: Microsoft's "Database engine events and errors", "Troubleshooting transient connection errors"
(Azure SQL) and what its own driver tries again (SqlClient, BaselineTransientErrors); of the SQLSTATEs: ODBC, appendix
A. The server's number, where there is one, comes first.
"""

import re
from collections.abc import Mapping
from typing import Any

from fetcher.engines._errors import GARBLED, NOT_UNICODE, Meaning, grouped, table
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
NOT_READY = Meaning(UnavailableError, "SQL Server takes no connections now")
CREDENTIALS = Meaning(RefusedError, "SQL Server refused the credentials")
UNOPENED = Meaning(UnavailableError, "SQL Server has no such database, or does not open it now")
"""Of the two the server says the same; Microsoft lists 4060 first among the errors that pass."""

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
UNREADABLE = Meaning(UnavailableError, "SQL Server's answer to the TLS handshake could not be read")
REJECTED = Meaning(InvalidRequestError, "SQL Server rejected the query")
VALUE = Meaning(InvalidRequestError, "SQL Server rejected a value of the request")
VIEW = Meaning(InvalidRequestError, "SQL Server cannot run the view")
NO_SNAPSHOT = Meaning(
    InvalidRequestError,
    "the view reads a database of SQL Server without snapshots; allow them there (ALLOW_SNAPSHOT_ISOLATION)",
)
IN_MEMORY = Meaning(InvalidRequestError, "SQL Server reads no memory-optimized table in a snapshot")
TOO_MUCH = Meaning(LimitError, "the query has too many values or columns for SQL Server")
FAILED = Meaning(UnavailableError, "SQL Server failed")


ERRORS = grouped(
    (CREDENTIALS, (18452, 18456, 18470, 18486, 18487, 18488)),
    (NO_DATABASE, (911, 916, 4064)),
    (UNOPENED, (4060,)),
    (RIGHTS, (229, 230, 262, 297, 300, 371, 15247)),
    (BLOCKED, (40532, 40615, 40914)),
    (ROLLED_BACK, (1204, 1205, 1221, 1222)),  # locks, deadlock
    (ROLLED_BACK, (3948, 3951, 3953, 3954, 3956, 3957, 3958, 3960, 3966, 3967)),  # snapshot, its rows' versions
    (ROLLED_BACK, (41301, 41302, 41305, 41325, 41839)),  # memory-optimized tables
    (NO_SNAPSHOT, (3952,)),
    (IN_MEMORY, (41332,)),
    (CHANGED, (3961,)),
    (BUSY, (701, 802, 1101, 1104, 1105, 8628, 8642, 8645, 8651, 9002, 17189, 17809, 17810, 49977)),
    (THROTTLED, (10928, 10929, 10936, 40501)),  # workers, sessions or requests of a database, a pool, a whole server
    (OPERATIONS, (49918, 49919, 49920)),  # operations of the subscription
    (NOT_READY, (6005, 17142, 17187, 17188, 18401)),  # shutting down, paused, starting, being upgraded
    (AWAY, (904, 921, 922, 924, 927, 942, 945, 952, 976, 978, 983, 3955, 9001, 4221, 615)),
    (AWAY, (40143, 40166, 40197, 40540, 40544, 40549, 40550, 40551, 40552, 40553, 42108, 42109)),
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
        "Database engine events and errors; Troubleshoot transient connection errors (Azure SQL); SqlClient",
        ERRORS,
        "by SQLSTATE",
    ),
    table(
        "SQLSTATE begins",
        "ODBC Programmer's Reference, appendix A",
        STATES,
        "unavailable; while connecting `42` is, too",
    ),
)

NUMBER = re.compile(r"\((-?\d+)\)(?: \(SQL\w+\))?(?=$|; \[\w{5}\] \[)")
"""At the end of each record of the driver's: before it are words, with values and names in them."""

SECURE = re.compile(r"SSL|TLS|certificate|[Ee]ncryption")
"""The driver reports a failed handshake as 08001, with words of its own or OpenSSL's."""
UNREAD = "0x80090308"
"""What it reports where bytes came that are no TLS: a broken wire's. A certificate, or a server without TLS, has words.
Source: Windows' SEC_E_INVALID_TOKEN, "COM error codes (security and setup)"."""


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session, of whatever class."""
    return _translated(error, BROKEN)


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    state, text = _parts(error)
    if state.startswith("08") and SECURE.search(text):
        return (UNREADABLE if UNREAD in text else TLS).error()
    return _translated(error, UNREACHABLE, rejected=UNREACHABLE)


def _translated(error: Exception, broken: Meaning, rejected: Meaning = REJECTED) -> FetcherError:
    if isinstance(error, UnicodeDecodeError):
        return GARBLED.error()
    if isinstance(error, UnicodeError):
        return NOT_UNICODE.error()
    state, text = _parts(error)
    numbers = [*map(int, NUMBER.findall(text))]
    known = next((number for number in numbers if number in ERRORS), None)
    if known is not None:
        return ERRORS[known].error(f" ({known})")
    if not state:
        return broken.error()
    meaning = STATES.get(state) or STATES.get(state[:3]) or STATES.get(state[:2]) or FAILED
    if meaning is REJECTED:
        return rejected.error(f" ({numbers[0] if numbers else state})")
    return (broken if meaning is BROKEN else meaning).error(f" ({state})")


def _parts(error: Exception) -> tuple[str, str]:
    """Return SQLSTATE and text of the driver's error; any other exception has neither."""
    args: tuple[Any, ...] = error.args
    if type(error).__module__ == "pyodbc" and len(args) > 1:
        return str(args[0]), str(args[1])
    return "", ""
