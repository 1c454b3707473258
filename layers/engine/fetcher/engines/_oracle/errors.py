"""What an error of Oracle means for the caller, as data.

Source of the numbers: "Oracle Database Error Messages" (ORA) and python-oracledb's own list (DPY). A number
that is not listed is read by the range it is in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ssl import SSLCertVerificationError, SSLError

import oracledb

from fetcher.engines._errors import GARBLED, NOT_UNICODE, Meaning, table
from fetcher.engines._tls import is_refusal
from fetcher.errors import (
    FetcherError,
    InvalidRequestError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)

BROKEN = Meaning(UnavailableError, "the connection to Oracle broke")
UNREACHABLE = Meaning(UnavailableError, "Oracle is out of reach")
BUSY = Meaning(UnavailableError, "Oracle has no connection left")
NOT_READY = Meaning(UnavailableError, "Oracle is not ready for connections")
SHORT = Meaning(UnavailableError, "Oracle is short of resources")
LOCKED = Meaning(UnavailableError, "the table is locked or was changed in Oracle")
ROLLED_BACK = Meaning(UnavailableError, "Oracle rolled the read back")
TOO_OLD = Meaning(UnavailableError, "Oracle's snapshot is too old")
FAILED = Meaning(UnavailableError, "Oracle failed")
CREDENTIALS = Meaning(RefusedError, "Oracle refused the credentials")
RIGHTS = Meaning(RefusedError, "Oracle denies access to the table")
HIDDEN = "a policy (VPD) of Oracle would hide rows of the table from this user; read as one with EXEMPT ACCESS POLICY"
NOT_REGISTERED = Meaning(UnavailableError, "Oracle's listener does not know the service (yet)")
"""After a restart or a switch-over a listener is up before the instance has registered with it (Oracle Database Error
Messages, ORA-12505; the driver counts 12514 among the errors that pass)."""

NO_SERVICE = Meaning(RefusedError, "Oracle's listener knows no such service")
REFUSED = Meaning(RefusedError, "Oracle refused the connection")
VERSION = Meaning(RefusedError, "Oracle is too old for the driver, or demands encryption that it does not have")
CERTIFICATE = Meaning(RefusedError, "the TLS certificate was not accepted")
HANDSHAKE = Meaning(RefusedError, "no TLS connection could be agreed with Oracle")
UNREADABLE = Meaning(UnavailableError, "Oracle's answer to the TLS handshake was not TLS; it may not offer it")
REJECTED = Meaning(InvalidRequestError, "Oracle rejected the query")
REJECTED_VALUE = Meaning(InvalidRequestError, "Oracle rejected a value of the request")
WRITES = Meaning(InvalidRequestError, "the table changes something when it is read")
VIEW = Meaning(InvalidRequestError, "Oracle cannot run the view")
DISCARDED = Meaning(UnavailableError, "a package that the view calls was changed in Oracle")
TOO_LARGE = Meaning(LimitError, "a row is too large for Oracle to render")
TIMED_OUT = Meaning(TimedOutError, "the time allowed for Oracle ran out")
INTERRUPTED = Meaning(UnavailableError, "Oracle interrupted the read")


def _coded(prefix: str, *groups: tuple[Meaning, Iterable[int]]) -> Iterator[tuple[str, Meaning]]:
    for meaning, numbers in groups:
        yield from (
            (f"{prefix}-{number:05d}" if prefix == "ORA" else f"{prefix}-{number}", meaning) for number in numbers
        )


ERRORS: Mapping[str, Meaning] = dict(
    [
        *_coded(
            "ORA",
            (CREDENTIALS, (1005, 1017, 1045, 28000, 28001, 28002, 28009, 28040)),
            (RIGHTS, (1031, 41900, 28115)),
            (NO_SERVICE, (12154, 12504)),
            (NOT_REGISTERED, (12505, 12514, 12521)),
            (REFUSED, (12529, 12538, 24247)),
            (BUSY, (18, 19, 20, 2391, 12516, 12518, 12519, 12520, 12564)),
            (NOT_READY, (1033, 1034, 1035, 1089, 1090, 1109, 12526, 12527, 12528, 12541, 12545, 27101)),
            (SHORT, (1536, 1652, 1653, 4030, 4031, 4036, 30928)),
            (LOCKED, (54, 60, 4020, 4021, 8103, 8176, 1410, 1466, 12801)),
            (ROLLED_BACK, (8177, 1002, 25402, 25408)),
            (TOO_OLD, (1555, 22924)),
            (BROKEN, (28, 2396, 2399, 3113, 3114, 3135, 12152, 12170, 12537, 12547, 12571, 12592)),
            (INTERRUPTED, (1013,)),  # by somebody else: what we cancel, the watchdog knows
            (WRITES, (1456, 14551, 14552, 16000)),
            (DISCARDED, (4061, 4065, 4068)),
            (VIEW, (1427, 1476, 4063, 4064, 6502, 6512, 24344)),
            (VIEW, range(20000, 21000)),  # raised by the application
            (REJECTED_VALUE, (911, 1424, 1425, 1426, 1438, 1722, 1756, 12704, 12899)),
            (REJECTED_VALUE, range(1830, 1899)),
            (TOO_LARGE, (1489, 22835, 22922, 40478, 64203)),
            (Meaning(LimitError, "the filters have too many values for Oracle"), (1745, 1795)),
            (Meaning(LimitError, "Oracle's limits for this user are used up"), range(2392, 2396)),
        ),
        *_coded(
            "DPY",
            (BROKEN, (1001, 4011, 4010, 5006)),
            (TIMED_OUT, (4024,)),
            (UNREACHABLE, (6000, 6005, 6006, 3016)),
            (NO_SERVICE, (4026, 4027)),
            (NOT_REGISTERED, (6001, 6003)),
            (VERSION, (3001, 3010, 3015)),
            (CREDENTIALS, (4001, 4022)),
            (CERTIFICATE, (6002,)),
            (REJECTED_VALUE, (3002, 3003, 3013, 4003, 4004, 4009, 2041)),
        ),
    ]
)

REJECTING = range(900, 1000)
"""ORA-00900 to 00999: what is wrong with a statement, such as 00904 and 00942."""
NETWORK = range(12150, 12700)
DRIVER_REJECTING = range(2000, 4000)
"""DPY-2000 to 3999: arguments and types that the driver does not take."""

TABLES = (
    table(
        "code",
        "Oracle Database Error Messages; python-oracledb, list of DPY errors",
        ERRORS,
        "ORA-00900…00999 and DPY-2000…3999 invalid, the latter refused while connecting; all else unavailable",
    ),
)


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session: the driver lets errors of other classes out too."""
    if isinstance(error, UnicodeEncodeError):
        return NOT_UNICODE.error()
    if isinstance(error, UnicodeDecodeError):
        return GARBLED.error()
    return _explained(_meaning([code(error)], REJECTED, BROKEN))


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting, where the reason may be anywhere in the chain."""
    chain = list(_chain(error))
    for each in chain:
        if isinstance(each, FetcherError):
            return each
        if isinstance(each, SSLCertVerificationError):
            return CERTIFICATE.error()
        if isinstance(each, SSLError):
            return (HANDSHAKE if is_refusal(each) else UNREADABLE).error()
    if isinstance(error, UnicodeEncodeError):
        return CREDENTIALS.error()
    return _explained(_meaning([code(each) for each in reversed(chain)], REFUSED, UNREACHABLE))


def code(error: BaseException) -> str:
    """Return `ORA-nnnnn` or `DPY-nnnn`, if the server or the driver gave one."""
    first = error.args[0] if isinstance(error, oracledb.Error) and error.args else None
    return str(getattr(first, "full_code", None) or "")


def _meaning(codes: Sequence[str], rejected: Meaning, broken: Meaning) -> tuple[Meaning, str]:
    """Take the first code that is listed: DPY-6005 only carries the reason along."""
    given = [text for text in codes if text]
    if not given:
        return broken, ""
    chosen = next((text for text in given if text in ERRORS), given[0])
    return ERRORS.get(chosen) or _by_range(chosen, rejected, broken), f" ({chosen})"


def _by_range(text: str, rejected: Meaning, broken: Meaning) -> Meaning:
    prefix, _, digits = text.partition("-")
    number = int(digits) if digits.isdigit() else 0
    if prefix != "ORA":
        return rejected if number in DRIVER_REJECTING else broken
    if number in NETWORK:
        return broken
    return REJECTED if number in REJECTING else FAILED


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _explained(found: tuple[Meaning, str]) -> FetcherError:
    meaning, suffix = found
    return meaning.error(suffix)
