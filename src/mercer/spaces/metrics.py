"""Distances between the rows of two sets, accurate for close rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import plain_lengths, squared_lengths

#: Pairs of sparse rows that are subtracted at a time.
_PAIRS = 4096
#: Cosines beyond this, and squared distances below this part of the squared lengths, are taken from
#: differences of rows.
_CLOSE_COSINE, _CLOSE_SQUARE = 0.9, 0.1


def angles(left: Any, right: Any) -> Any:
    """Angles between unit vectors, ``2 atan2(|x - y|, |x + y|)``; shape (m, p)."""
    if sparse.issparse(left) or sparse.issparse(right):
        return _sparse_angles(sparse.csr_matrix(left), sparse.csr_matrix(right))
    xp = array_namespace(left, right)
    rows = (left[i : i + 1, :] for i in range(left.shape[0]))
    return xp.stack([2 * xp.atan2(plain_lengths(right - x), plain_lengths(right + x)) for x in rows])


def lengths(left: Any, right: Any) -> Any:
    """Lengths ``|x - y|``; shape (m, p)."""
    if sparse.issparse(left) or sparse.issparse(right):
        return _sparse_lengths(sparse.csr_matrix(left), sparse.csr_matrix(right))
    xp = array_namespace(left, right)
    return xp.stack([plain_lengths(right - left[i : i + 1, :]) for i in range(left.shape[0])])


def _sparse_angles(left: Any, right: Any) -> NDArray[Any]:
    cosines = (left @ right.T).toarray()
    found = np.arccos(np.clip(cosines, -1.0, 1.0))
    for sign in (1.0, -1.0):
        for a, b in _pairs(sign * cosines > _CLOSE_COSINE):
            half = np.arcsin(np.minimum(plain_lengths(left[a] - sign * right[b]) / 2, 1.0))
            found[a, b] = 2 * half if sign > 0 else np.pi - 2 * half
    return found


def _sparse_lengths(left: Any, right: Any) -> NDArray[Any]:
    sizes = squared_lengths(left)[:, None] + squared_lengths(right)
    squares = sizes - 2 * (left @ right.T).toarray()
    found = np.sqrt(np.maximum(squares, 0.0))
    for a, b in _pairs(squares < _CLOSE_SQUARE * sizes):
        found[a, b] = plain_lengths(left[a] - right[b])
    return found


def _pairs(close: NDArray[np.bool_]) -> Iterator[tuple[Any, Any]]:
    """Rows and columns of pairs, a few at a time."""
    i, j = np.nonzero(close)
    for start in range(0, len(i), _PAIRS):
        yield i[start : start + _PAIRS], j[start : start + _PAIRS]
