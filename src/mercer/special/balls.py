"""Ball arithmetic with a precision of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_LOCK = RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision of python-flint, which all threads share, for a block of code."""
    from flint import ctx

    with _LOCK:
        before, ctx.prec = ctx.prec, bits
        try:
            yield
        finally:
            ctx.prec = before
