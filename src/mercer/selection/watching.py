"""A bar for a long search, drawn while its threads work."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Waiting
from contextlib import ExitStack
from typing import Any, TypeVar

from mercer.engine.threads import PATIENCE, bar
from mercer.selection.fits import Work

T = TypeVar("T")
#: Seconds between two looks at the work.
_PERIOD = 0.25


def watched(call: Callable[[], T], work: Work, what: str) -> T:
    """Make the call, and show on a terminal how far it is, unless a callback is told that.

    The call runs in a thread of its own while this one waits and draws the bar, so that the bar moves
    during long steps too and Ctrl-C is heard at once: fits under way end, no other begins.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    visible = sys.stderr.isatty() and work.callback is None
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        future = pool.submit(context.run, call)
        show: Any = None
        waited = 0.0
        try:
            while True:
                try:
                    return future.result(timeout=_PERIOD)
                except Waiting:
                    if future.done():
                        raise  # the call's own
                waited += _PERIOD
                if visible and show is None and waited >= PATIENCE:
                    show, _ = stack.enter_context(bar(what))
                if show is not None:
                    show(work.done, work.total)
        except BaseException:
            work.stop.set()
            raise
