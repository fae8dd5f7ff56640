"""How loops are compiled."""

from __future__ import annotations

from numba import njit


def jit(**options):
    """Compile without the GIL, cached on disk where there is a place to write."""

    def decorate(function):
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder to keep the cache in
            return njit(nogil=True, **options)(function)

    return decorate
