"""Pairs of equal rows, whose invariant is known exactly although a product would round it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import on_cpu

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Equal:
    """Equal rows of two matrices, and the invariant of a point with itself.

    Row i of the first equals rows ``columns[starts[i]:stops[i]]`` of the second, in ascending order.
    """

    starts: Index
    stops: Index
    columns: Index
    value: float

    def write(self, rows: slice, columns: slice, tile: NDArray[Any]) -> None:
        """Put the value in its places of a tile of invariants."""
        from mercer.compiled.rows import write_equal

        write_equal(
            rows.start, columns.start, self.starts, self.stops, self.columns,
            tile.dtype.type(self.value), tile,
        )  # fmt: skip

    def part(self, rows: slice, columns: slice) -> Equal:
        """Equal rows within a tile."""
        return Equal(self.starts[rows], self.stops[rows], self.columns - columns.start, self.value)

    def mask(self, shape: tuple[int, int]) -> NDArray[np.int8]:
        """One for equal rows, zero for others, in a matrix or tile of this shape."""
        found = np.zeros(shape, dtype=np.int8)
        ones = Equal(self.starts, self.stops, self.columns, 1)
        ones.write(slice(0, shape[0]), slice(0, shape[1]), found)
        return found


def equal_rows(X: Any, Y: Any, value: float) -> Equal | None:
    """Find equal rows of X and Y, or different rows of X that are equal; None where there are none.

    Cheap compared with a product: a key for each row, and a search among sorted keys.
    """
    keys = _keys(X)
    others = keys if Y is None else _keys(Y)
    if not isinstance(keys, np.ndarray):
        from mercer.engine.autograd import in_common

        if not in_common(keys, None if Y is None else others):
            return None
        keys, others = on_cpu(keys), on_cpu(others)
    together = np.sort(keys if Y is None else np.concatenate([keys, others]))
    if not np.any(together[1:] == together[:-1]):
        return None
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    starts = np.searchsorted(ordered, keys, side="left")
    stops = np.searchsorted(ordered, keys, side="right")
    if not np.any(starts < stops):
        return None
    return Equal(starts, stops, order, value)


def row_keys(X: Any) -> NDArray[Any]:
    """A 64-bit key for each row of an array or CSR matrix; equal rows have equal keys.

    Two of 10^5 different rows share a key with probability 3e-10.  Keys depend on the numbers alone, not
    on whether they are stored dense or sparse, nor on their precision.
    """
    return np.asarray(on_cpu(_keys(X)))


def _keys(X: Any) -> Any:
    """Keys of rows, in main memory or on the rows' device."""
    from mercer.compiled.rows import dense_keys, sparse_keys

    if is_torch_array(X) and X.device.type != "cpu":
        from mercer.engine.autograd import row_keys as keys_on_device

        return keys_on_device(X)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        X = X.tocsr()
        sparse_keys(X.indptr, X.indices, X.data, keys)
    else:
        rows = np.ascontiguousarray(on_cpu(X))
        dense_keys(rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False), keys)
    return keys
