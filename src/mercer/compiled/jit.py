"""How loops are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.extending import intrinsic


def jit(**options):
    """Compile without the GIL, cached on disk where there is a place to write."""

    def decorate(function):
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder for the cache
            return njit(nogil=True, **options)(function)

    return decorate


@intrinsic
def larger(context: Any, a: Any, b: Any) -> Any:
    """The larger of two numbers, neither of which is NaN.

    A loop that keeps the largest of its values is vectorised with this, and not with ``max``, whose
    order matters for NaN and for zeros of either sign.
    """

    def emit(_, builder, signature, arguments):
        flags = ("nnan", "nsz")
        above = builder.fcmp_ordered(">", *arguments, flags=flags)
        return builder.select(above, *arguments, flags=flags)

    return a(a, a), emit


@intrinsic
def chosen(context: Any, condition: Any, a: Any, b: Any) -> Any:
    """The first number if the condition holds, else the second, without a branch."""

    def emit(_, builder, signature, arguments):
        return builder.select(*arguments, flags=("nnan", "nsz"))

    return a(condition, a, a), emit
