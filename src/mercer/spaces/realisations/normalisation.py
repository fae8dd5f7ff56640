"""The form ``k(x, y) / sqrt(k(x, x) k(y, y))`` of kernels whose diagonal is not constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Rows of a Gram matrix that are divided at a time.
_ROWS = 256


def normalised(K: Array, P: Any, Q: Any, diagonal: Callable[[Any], Array]) -> tuple[Array, Array]:
    """Normalise a Gram matrix in place; returns it and the squared lengths of P."""
    squares = positive(np.diagonal(K).copy() if Q is None else diagonal(P), "X")
    others = squares if Q is None else positive(diagonal(Q), "Y")
    divide(K, np.sqrt(squares), np.sqrt(others))
    if Q is None:
        np.fill_diagonal(K, 1.0)
    return K, squares


def normalised_slope(slope: Array, K: Array, squares: Array) -> Array:
    """Derivative of a normalised Gram matrix from that of the plain one, which is used up."""
    relative = np.diagonal(slope) / squares / 2
    divide(slope, np.sqrt(squares), np.sqrt(squares))
    slope -= K * (relative[:, None] + relative)
    return slope


def positive(squares: Array, name: str) -> Array:
    """Check that every point has a length to divide by."""
    zero = np.flatnonzero(~(squares > 0))
    if zero.size:
        more = f" (and {zero.size - 1} more)" if zero.size > 1 else ""
        raise ValueError(
            f"row {zero[0]} of {name}{more} has k(x, x) = 0 and cannot be normalised; "
            "drop it, or use normalized=False"
        )
    return squares


def divide(K: Array, left: Array, right: Array) -> None:
    """Divide rows and columns by lengths, in place and without losing symmetry."""
    for start in range(0, len(K), _ROWS):
        part = slice(start, start + _ROWS)
        K[part] /= left[part, None] * right
