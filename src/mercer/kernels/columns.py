"""One positive number per column, such as a weight of a word, given or learnt from rows.

The numbers are an array.  If there are very many columns, only those in use are kept, in a sparse array
of shape (1, n); columns that are not stored have the number 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import asarray_like
from mercer._validation import refuse_complex
from mercer.kernels.base import Kernel

#: Numbers of fewer columns are kept in an array.
_MANY = 10_000


def learn(X: Any, numbers: Callable[[Any], NDArray[Any]], unused: float) -> Any:
    """Learn numbers from checked rows.

    Parameters
    ----------
    X : array or CSR matrix
    numbers : callable
        From rows to one number per column.
    unused : float
        The number of an empty column.  If only columns in use are kept, numbers are divided by it.
    """
    if not sparse.issparse(X) or X.shape[1] < max(_MANY, X.nnz):
        return np.asarray(numbers(X), dtype=float)
    columns, places = _in_use(X.indices)
    rows = sparse.csr_matrix((X.data, places, X.indptr), shape=(X.shape[0], len(columns)))
    kept = np.asarray(numbers(rows), dtype=float) / unused
    return sparse.csr_array((kept, columns, [0, len(columns)]), shape=(1, X.shape[1]))


def check(kernel: Kernel, name: str) -> None:
    """Raise unless a parameter is an array of positive numbers."""
    values = getattr(kernel, name)
    refuse_complex(values if hasattr(values, "dtype") else np.asarray(values), name)
    if sparse.issparse(values):
        shape, numbers = values.shape[1:] if values.shape[0] == 1 else (), values.data
    else:
        numbers = np.asarray(values, dtype=float)
        shape = numbers.shape
    if len(shape) != 1 or not np.all((numbers > 0) & np.isfinite(numbers)):
        raise ValueError(f"{name} of {type(kernel).__name__} must be positive numbers, one per column")


def of_elements(kernel: Kernel, name: str, X: Any) -> Any:
    """The number of each stored element of sparse rows, or of each column of dense rows."""
    values = getattr(kernel, name)
    compact = sparse.issparse(values)
    n = values.shape[1] if compact else len(values)
    if n != X.shape[1]:
        raise ValueError(
            f"{name} of {type(kernel).__name__} has {n} numbers, but rows have {X.shape[1]} columns"
        )
    if sparse.issparse(X):
        return _looked_up(values.tocsr(), X.indices) if compact else np.asarray(values, float)[X.indices]
    if compact:
        values = _looked_up(values.tocsr(), np.arange(n))
    return asarray_like(np.asarray(values, dtype=float), X)


def _looked_up(values: Any, columns: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers of the given columns; 1 for those that are not stored."""
    values.sort_indices()
    if values.nnz == 0:
        return np.ones(len(columns))
    used, places = _in_use(columns)
    found = np.minimum(np.searchsorted(values.indices, used), values.nnz - 1)
    return np.where(values.indices[found] == used, values.data[found], 1.0)[places]


def _in_use(indices: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Columns in use, ascending, and the position of each index among them."""
    from mercer.compiled.columns import number_columns

    numbers = np.empty(len(indices), dtype=np.int64)
    used = np.empty(number_columns(indices, numbers), dtype=indices.dtype)
    used[numbers] = indices
    order = np.argsort(used)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return used[order], rank[numbers]
