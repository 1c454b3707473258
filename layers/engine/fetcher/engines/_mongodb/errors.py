"""What an error of MongoDB means for the caller, as data.

Source of the codes: `src/mongo/base/error_codes.yml` of the server. Everything else that the driver can
raise in an open session is a broken wire: it also raises what Python's own libraries raise.
"""

from collections.abc import Mapping

from bson.errors import BSONError, InvalidBSON
from pymongo.errors import ConfigurationError, InvalidName, OperationFailure, PyMongoError

from fetcher.engines._errors import Meaning, table
from fetcher.engines._tls import LASTING, PASSING
from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, TimedOutError, UnavailableError

UNAUTHORIZED = 13
MAX_TIME = 50

CODES: Mapping[int, Meaning] = {
    2: Meaning(InvalidRequestError, "MongoDB rejected a value of the request"),  # BadValue
    9: Meaning(InvalidRequestError, "MongoDB rejected the query"),  # FailedToParse
    11: Meaning(RefusedError, "MongoDB refused the credentials"),  # UserNotFound
    UNAUTHORIZED: Meaning(RefusedError, "MongoDB denies access"),
    14: Meaning(InvalidRequestError, "MongoDB rejected the query"),  # TypeMismatch
    18: Meaning(RefusedError, "MongoDB refused the credentials"),  # AuthenticationFailed
    26: Meaning(InvalidRequestError, "MongoDB has no such collection"),  # NamespaceNotFound
    MAX_TIME: Meaning(TimedOutError, "the time allowed for MongoDB ran out"),  # MaxTimeMSExpired
    59: Meaning(RefusedError, "MongoDB does not offer what a read needs"),  # CommandNotFound
    73: Meaning(InvalidRequestError, "MongoDB rejected the name"),  # InvalidNamespace
    96: Meaning(LimitError, "MongoDB may not use as much memory as the read needs"),  # OperationFailed
    115: Meaning(RefusedError, "MongoDB does not offer what a read needs"),  # CommandNotSupported
    148: Meaning(RefusedError, "MongoDB does not offer majority reads"),  # ReadConcernMajorityNotEnabled
    166: Meaning(InvalidRequestError, "MongoDB cannot read this view"),  # CommandNotSupportedOnView
    292: Meaning(LimitError, "MongoDB may not use as much memory as the read needs"),  # …NoDiskUseAllowed
    8000: Meaning(RefusedError, "MongoDB refused the credentials"),  # AtlasError
    10334: Meaning(LimitError, "a document is too large for MongoDB to send"),  # BSONObjectTooLarge
}
"""Codes that are not here may be tried again: lost cursors (43), a primary that steps down (189, 10107, 11602),
interruption (11601), shutdown (91, 11600), a stale shard (13388), and whatever a later version adds."""

AND = " … "
HANDSHAKE = "SSL handshake failed"
HUNG_UP = Meaning(UnavailableError, "MongoDB hung up in the TLS handshake; it may not offer TLS")
UNREADABLE = Meaning(UnavailableError, "MongoDB's answer to the TLS handshake was not TLS; it may not offer it")
TROUBLE = Meaning(UnavailableError, "MongoDB has trouble with the TLS handshake")
CERTIFICATE = Meaning(RefusedError, "the TLS certificate was not accepted")
NOT_AGREED = Meaning(RefusedError, "no TLS connection could be agreed with MongoDB")

CONNECTING: Mapping[str, Meaning] = {
    "certificate ": CERTIFICATE,
    "CERTIFICATE": CERTIFICATE,
    "IP address mismatch": CERTIFICATE,
    " alert unknown ca": CERTIFICATE,
    **{f" alert {alert.lower().replace('_', ' ')}": TROUBLE for alert in PASSING},
    " alert ": NOT_AGREED,
    "[SSL: TLSV1_": NOT_AGREED,  # the alerts that OpenSSL does not call so
    **{f"[SSL: {reason}]": NOT_AGREED for reason in LASTING},
    "handshake operation timed out": Meaning(UnavailableError, "MongoDB does not answer the TLS handshake"),
    f"{HANDSHAKE}{AND}[Errno": HUNG_UP,
    f"{HANDSHAKE}{AND}EOF": HUNG_UP,
    HANDSHAKE: UNREADABLE,
    "SASLprep": Meaning(RefusedError, "MongoDB refused the credentials"),
}
"""The first fragment found in the message decides, or all of one that has several; no words of the driver's are passed
on. A message begins with the host's name, which has no space and is in small letters, and so is no fragment.

A server without TLS hangs up on a greeting that it cannot read, or answers in its own words, and so does a wire that
breaks: trying again tells."""


RAISED: Mapping[type[Exception], Meaning] = {
    UnicodeDecodeError: Meaning(InvalidRequestError, "a text of the collection is not UTF-8"),
    InvalidName: Meaning(RefusedError, "MongoDB has no such database"),
    InvalidBSON: Meaning(UnavailableError, "MongoDB's answer could not be understood"),
    BSONError: Meaning(InvalidRequestError, "MongoDB's driver rejected a value of the request"),
    OverflowError: Meaning(InvalidRequestError, "MongoDB's driver rejected a value of the request"),
    PyMongoError: Meaning(UnavailableError, "the connection to MongoDB broke"),
    OSError: Meaning(UnavailableError, "the connection to MongoDB broke"),
    Exception: Meaning(UnavailableError, "MongoDB's answer could not be understood"),
}
"""The first class that fits decides."""

TABLES = (
    table("code", "src/mongo/base/error_codes.yml of the server", CODES, "unavailable"),
    table(
        "words while connecting",
        "PyMongo and OpenSSL, their messages",
        CONNECTING,
        "invalid if the driver rejects a setting, else unavailable",
    ),
    table(
        "class raised",
        "PyMongo's and Python's own classes",
        {kind.__name__: found for kind, found in RAISED.items()},
        "there are none",
    ),
)


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session, of whatever class."""
    if isinstance(error, OperationFailure):
        meaning = CODES.get(error.code or 0, Meaning(UnavailableError, "MongoDB failed"))
        return meaning.error(f" ({error.code})")
    return next(meaning.error() for kind, meaning in RAISED.items() if isinstance(error, kind))


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    if isinstance(error, OperationFailure | InvalidName):
        return explained(error)
    text = str(error)
    found = next(
        (meaning for words, meaning in CONNECTING.items() if all(map(text.__contains__, words.split(AND)))), None
    )
    if found is not None:
        return found.error()
    if isinstance(error, ConfigurationError | ValueError | TypeError):
        return InvalidRequestError("MongoDB's driver rejected the connection's settings")
    return UnavailableError("MongoDB is out of reach")
