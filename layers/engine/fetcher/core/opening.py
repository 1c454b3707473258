"""Opening a session without being bound to it: no driver can be called off while it connects.

So it connects on a thread of its own, and whoever waits for it also hears of the stop. What comes of a connecting
that nobody waits for any more is closed at once; it ends by its own limit, of ten seconds for a login.
"""

import logging
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ExitStack
from threading import Thread

from fetcher.core.stop import Stop
from fetcher.ports import Session

_log = logging.getLogger(__name__)

_Opened = Future[tuple[Session, ExitStack]]


def opened(opening: AbstractContextManager[Session], stop: Stop, closing: ExitStack) -> Session:
    """Return the session, which `closing` will close. Raises what opening raises, or the reason to stop."""
    future: _Opened = Future()
    try:
        with stop.watching(future):
            Thread(target=_open, args=(opening, future), name="open", daemon=True).start()
            session, held = future.result()
    except CancelledError:
        stop.check()
        raise
    finally:
        del future  # an error holds this frame, and the future the error: what a driver left open would stay so
    closing.push(held)
    return session


def _open(opening: AbstractContextManager[Session], future: _Opened) -> None:
    try:
        with ExitStack() as stack:
            session = stack.enter_context(opening)
            if future.set_running_or_notify_cancel():
                future.set_result((session, stack.pop_all()))
    except BaseException as error:
        if future.cancelled() or not future.set_running_or_notify_cancel():
            _log.info("a connection that nobody waited for failed", extra={"cause": type(error).__name__})
        else:
            future.set_exception(error)
    finally:
        del future
