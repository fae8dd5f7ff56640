"""Ball arithmetic in a chosen precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

_LOCK = RLock()


class _Flint:
    """python-flint, imported on first use, because most laws do not need it."""

    def __getattr__(self, name: str) -> Any:
        import flint

        setattr(self, name, getattr(flint, name))
        return getattr(flint, name)


flint = _Flint()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision of python-flint, which all threads share, for a block of code."""
    with _LOCK:
        before, flint.ctx.prec = flint.ctx.prec, bits
        try:
            yield
        finally:
            flint.ctx.prec = before
