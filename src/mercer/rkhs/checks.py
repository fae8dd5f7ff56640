"""Checks of Gram matrices and coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._arrays import on_cpu
from mercer._validation import refuse_complex, refuse_rows

Array = NDArray[np.float64]


def gram_matrix(K: ArrayLike) -> Array:
    """A Gram matrix in double precision; raises unless it is square and symmetric."""
    if callable(K):
        raise TypeError(f"a Gram matrix is needed, not the kernel {K!r}: give kernel(X)")
    K = numbers(K, "the Gram matrix")
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise ValueError(f"a Gram matrix is square and not empty; got shape {K.shape}")
    if not np.allclose(K, K.T, rtol=1e-6, atol=1e-8 * np.abs(K).max()):
        raise ValueError("a Gram matrix is symmetric; this one is not")
    return K


def block_of(K: ArrayLike, columns: int) -> Array:
    """A block of a Gram matrix with this many columns."""
    K = numbers(K, "K_test")
    if K.ndim != 2 or K.shape[1] != columns:
        raise ValueError(f"expected a matrix with {columns} columns, got shape {K.shape}")
    return K


def numbers(values: ArrayLike, name: str) -> Array:
    """An array of finite real numbers; raises for the first row with others."""
    refuse_complex(values, name)
    if sparse.issparse(values):
        raise TypeError(f"{name} is sparse; make it dense by toarray()")
    array = np.asarray(on_cpu(values), dtype=float)
    refuse_rows(~np.isfinite(np.atleast_2d(array.T).T).all(axis=1), name, "contains NaN or infinity")
    return array
