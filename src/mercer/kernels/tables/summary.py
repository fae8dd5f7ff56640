"""Short descriptions of kernels of tables."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.tables.multiple import MultipleKernel
from mercer.kernels.tables.on import On

#: Number of parts of a sum that are named, and the smallest share of one.
_NAMED, _LEAST = 3, 0.005


def of_columns(kernel: Any) -> bool:
    """Tell whether a kernel uses some columns of a table."""
    return bool(terms(kernel))


def terms(kernel: Any) -> list[On]:
    """The kernels of columns in a sum or product."""
    if isinstance(kernel, On):
        return [kernel]
    parts = kernel.parts if isinstance(kernel, Kernel) else ()
    return [term for part in parts for term in terms(part)]


def in_short(kernel: Any, most: int = _NAMED) -> str:
    """The kernels of columns by name, unless there are more, and with their shares if these were learnt.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, On
    >>> from mercer.kernels.tables.summary import in_short
    >>> in_short(On(["a", "b"], Gaussian()) + On("c", Linear()))
    'Gaussian of 2 columns + Linear of c'
    >>> in_short((1 + On("a", Gaussian())) * On("c", Linear()))
    '(1.0 + Gaussian of a) * Linear of c'
    """
    found = terms(kernel)
    shares = shares_of(kernel)
    if shares is None and len(found) > most:
        return f"{len(found)} parts"
    if shares is None:
        return _formula(kernel)
    own = zip(shares, map(_formula, found), strict=True)
    shown = [f"{share:.0%} {name}" for share, name in own if share >= _LEAST]
    small = sum(0 < share < _LEAST for share in shares)
    return " + ".join(shown + [f"{small} smaller part{'s' * (small > 1)}"] * (small > 0))


def _formula(kernel: Any) -> str:
    """Sums and products of kernels of columns, by name."""
    if isinstance(kernel, On):
        return f"{type(kernel.kernel).__name__} of {_columns(kernel.columns)}"
    parts = kernel.parts if isinstance(kernel, Kernel) else ()
    if isinstance(kernel, Product):
        shown = ((_formula(part), isinstance(part, Sum)) for part in parts)
        return " * ".join(f"({text})" if is_sum else text for text, is_sum in shown)
    return " + ".join(map(_formula, parts)) if parts else repr(kernel)


def unweighted(kernel: Any) -> Any:
    """A sum with learnt weights as it was before; other kernels as they are."""
    if not isinstance(kernel, MultipleKernel):
        return kernel
    bare = copy.copy(kernel)
    bare.learnt_weights = None
    return bare


def shares_of(kernel: Any) -> list[float] | None:
    """Weights of the parts in units of their size, of sum 1; None for other kernels."""
    if not isinstance(kernel, MultipleKernel) or kernel.learnt_weights is None:
        return None
    # Parts that have learnt their factors have total variance 1, so that weights are shares.
    weights = np.asarray(kernel.learnt_weights, dtype=float)
    return (weights / weights.sum()).tolist()


def _columns(columns: Any) -> str:
    if isinstance(columns, str):
        return columns
    if not isinstance(columns, Iterable):
        return str(columns)  # a position, or a selector
    names = list(columns)
    return str(names[0]) if len(names) == 1 else f"{len(names)} columns"
