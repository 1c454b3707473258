"""A TLS handshake that failed, for every driver on Python's `ssl`: what it means, and the socket that it leaves.

Source of the reasons: RFC 8446 §6.2 and RFC 5246 §7.2.2 (alerts); OpenSSL's `sslerr.h` (its own).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLCertVerificationError, SSLError, SSLSocket
from traceback import walk_tb

ALERT = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(\w+)")
"""What the server told, as OpenSSL names it."""

PASSING = (
    "BAD_RECORD_MAC",
    "DECODE_ERROR",
    "DECOMPRESSION_FAILURE",
    "DECRYPTION_FAILED",
    "ILLEGAL_PARAMETER",
    "INTERNAL_ERROR",
    "RECORD_OVERFLOW",
    "UNEXPECTED_MESSAGE",
)
"""Alerts of a server that is in trouble, or to which the wire brought something else than was sent."""

LASTING = (
    "DH_KEY_TOO_SMALL",
    "NO_CIPHERS_AVAILABLE",
    "NO_PROTOCOLS_AVAILABLE",
    "UNSAFE_LEGACY_RENEGOTIATION_DISABLED",
    "UNSUPPORTED_PROTOCOL",
)
"""Why OpenSSL goes on with no server that it understood."""


def is_refusal(error: SSLError) -> bool:
    """Whether one side does not want the other as it is, and will not the next time either.

    All else is an answer that could not be read. A wire that breaks brings one, and so does a server without TLS on a
    port that has nothing else: no error tells the two apart, so they are tried again.
    """
    reason = str(error.reason or "")
    alert = ALERT.match(reason)
    if alert:
        return alert[1] not in PASSING
    return reason in LASTING or isinstance(error, SSLCertVerificationError)


@contextmanager
def no_socket_left() -> Iterator[None]:
    """Close what `ssl` makes of a socket that is reset before the greeting, and leaves open when it raises.

    By then it has taken the descriptor from its caller, and only its own frame knows what has it (Python up to 3.12).
    """
    try:
        yield
    except Exception as error:
        raised: BaseException | None = error
        while raised is not None:
            for frame, _ in walk_tb(raised.__traceback__):
                made = frame.f_locals.get("self")
                if isinstance(made, SSLSocket):
                    made.close()
            raised = raised.__context__
        raise
