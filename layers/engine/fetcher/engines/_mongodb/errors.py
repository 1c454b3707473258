"""What an error of MongoDB means for the caller, as data.

Source of the codes: `src/mongo/base/error_codes.yml` of the server. Everything else that the driver can
raise in an open session is a broken wire: it also raises what Python's own libraries raise.
"""

from bson.errors import BSONError, InvalidBSON
from pymongo.errors import ConfigurationError, InvalidName, OperationFailure, PyMongoError

from fetcher.errors import FetcherError, InvalidRequestError, LimitError, RefusedError, TimedOutError, UnavailableError

UNAUTHORIZED = 13
MAX_TIME = 50

CODES: dict[int, tuple[type[FetcherError], str]] = {
    2: (InvalidRequestError, "MongoDB rejected a value of the request"),  # BadValue
    9: (InvalidRequestError, "MongoDB rejected the query"),  # FailedToParse
    11: (RefusedError, "MongoDB refused the credentials"),  # UserNotFound
    UNAUTHORIZED: (RefusedError, "MongoDB denies access"),
    14: (InvalidRequestError, "MongoDB rejected the query"),  # TypeMismatch
    18: (RefusedError, "MongoDB refused the credentials"),  # AuthenticationFailed
    26: (InvalidRequestError, "MongoDB has no such collection"),  # NamespaceNotFound
    MAX_TIME: (TimedOutError, "the time allowed for MongoDB ran out"),  # MaxTimeMSExpired
    59: (RefusedError, "MongoDB does not offer what a read needs"),  # CommandNotFound
    73: (InvalidRequestError, "MongoDB rejected the name"),  # InvalidNamespace
    96: (LimitError, "MongoDB may not use as much memory as the read needs"),  # OperationFailed
    115: (RefusedError, "MongoDB does not offer what a read needs"),  # CommandNotSupported
    148: (RefusedError, "MongoDB does not offer majority reads"),  # ReadConcernMajorityNotEnabled
    166: (InvalidRequestError, "MongoDB cannot read this view"),  # CommandNotSupportedOnView
    292: (LimitError, "MongoDB may not use as much memory as the read needs"),  # …NoDiskUseAllowed
    8000: (RefusedError, "MongoDB refused the credentials"),  # AtlasError
    10334: (LimitError, "a document is too large for MongoDB to send"),  # BSONObjectTooLarge
}
"""Codes that are not here may be tried again: lost cursors (43), a primary that steps down (189, 10107, 11602),
interruption (11601), shutdown (91, 11600), a stale shard (13388), and whatever a later version adds."""

CONNECTING: tuple[tuple[str, type[FetcherError], str], ...] = (
    ("certificate", RefusedError, "the TLS certificate was not accepted"),
    ("CERTIFICATE", RefusedError, "the TLS certificate was not accepted"),
    ("IP address mismatch", RefusedError, "the TLS certificate was not accepted"),
    ("handshake operation timed out", UnavailableError, "MongoDB does not answer the TLS handshake"),
    ("SSL handshake failed", RefusedError, "MongoDB does not offer TLS"),  # it hangs up on what it cannot read
    ("SASLprep", RefusedError, "MongoDB refused the credentials"),
)
"""The first fragment found in the message decides; the driver's own words are never passed on."""


RAISED: tuple[tuple[type[Exception], type[FetcherError], str], ...] = (
    (UnicodeDecodeError, InvalidRequestError, "a text of the collection is not UTF-8"),
    (InvalidName, RefusedError, "MongoDB has no such database"),
    (InvalidBSON, UnavailableError, "MongoDB's answer could not be understood"),
    (BSONError, InvalidRequestError, "MongoDB's driver rejected a value of the request"),
    (OverflowError, InvalidRequestError, "MongoDB's driver rejected a value of the request"),
    (PyMongoError, UnavailableError, "the connection to MongoDB broke"),
    (OSError, UnavailableError, "the connection to MongoDB broke"),
    (Exception, UnavailableError, "MongoDB's answer could not be understood"),
)
"""The first class that fits decides."""


def explained(error: Exception) -> FetcherError:
    """Translate what was raised in an open session, of whatever class."""
    if isinstance(error, OperationFailure):
        family, message = CODES.get(error.code or 0, (UnavailableError, "MongoDB failed"))
        return family(f"{message} ({error.code})")
    return next(family(message) for kind, family, message in RAISED if isinstance(error, kind))


def refused(error: Exception) -> FetcherError:
    """Translate what was raised while connecting."""
    if isinstance(error, OperationFailure | InvalidName):
        return explained(error)
    text = str(error)
    for fragment, family, message in CONNECTING:
        if fragment in text:
            return family(message)
    if isinstance(error, ConfigurationError | ValueError | TypeError):
        return InvalidRequestError("MongoDB's driver rejected the connection's settings")
    return UnavailableError("MongoDB is out of reach")
