"""Pairs of equal rows, whose invariant is known exactly although a product would round it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import in_main_memory, on_cpu

Index = NDArray[np.int64]
#: Columns of dense rows that are compared first: most rows differ there.
_FEW = 16


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

    def part(self, rows: slice, columns: slice) -> Equal | None:
        """Equal rows within a tile, and of its columns alone; None where there are none."""
        inside = (self.columns >= columns.start) & (self.columns < columns.stop)
        places = np.concatenate([[0], np.cumsum(inside)])
        starts, stops = places[self.starts[rows]], places[self.stops[rows]]
        if not np.any(starts < stops):
            return None
        return Equal(starts, stops, self.columns[inside] - columns.start, self.value)

    def to(self, device: Any) -> Equal:
        """The same pairs: every engine reads them in main memory."""
        return self

    def mask(self, shape: tuple[int, int]) -> NDArray[np.int8]:
        """One for equal rows, zero for others, in a matrix or tile of this shape."""
        found = np.zeros(shape, dtype=np.int8)
        ones = Equal(self.starts, self.stops, self.columns, 1)
        ones.write(slice(0, shape[0]), slice(0, shape[1]), found)
        return found


@dataclass(frozen=True, eq=False)
class Known:
    """Pairs of rows with known invariants in main memory: equal rows, and opposite ones."""

    sets: tuple[Equal, ...]

    def write(self, rows: slice, columns: slice, tile: NDArray[Any]) -> None:
        """See :class:`Equal`."""
        for pairs in self.sets:
            pairs.write(rows, columns, tile)


@dataclass(frozen=True, eq=False)
class NumberedRows:
    """Equal rows by numbers on the device of the rows: equal rows have equal numbers.

    ``left`` are those of the first matrix, ``right`` those of the second.
    """

    left: Any
    right: Any
    value: float

    def part(self, rows: slice, columns: slice) -> NumberedRows:
        """Numbers of the rows of a tile."""
        return NumberedRows(self.left[rows], self.right[columns], self.value)

    def to(self, device: Any) -> NumberedRows:
        """The numbers on another device."""
        return NumberedRows(self.left.to(device), self.right.to(device), self.value)

    def mask(self, shape: tuple[int, int]) -> Any:
        """Tell which rows are equal, in a matrix or tile."""
        return self.left[:, None] == self.right[None, :]


def numbered_rows(numbers: tuple[Any, Any] | None, value: float) -> NumberedRows | None:
    """Equal rows from their numbers, if there are any."""
    return None if numbers is None else NumberedRows(*numbers, value)


def equal_rows(X: Any, Y: Any, value: float) -> Equal | NumberedRows | None:
    """Find equal rows of X and Y, or different rows of X that are equal; None where there are none.

    Cheap compared with a product: a key for each row, and a search among sorted keys.
    """
    if is_torch_array(X) and not in_main_memory(X):
        from mercer.engine.autograd import row_numbers

        return numbered_rows(row_numbers(X, Y), value)
    return None if _all_differ(X, Y) else _equal_rows(X, Y, value)


def equal_or_opposite_rows(X: Any, Y: Any, value: float) -> Known | None:
    """The same in main memory, and rows of which one is minus the other, with minus the value."""
    if _all_differ(X, Y):
        return None
    opposite = _equal_rows(X, -(X if Y is None else Y), -value)
    known = tuple(pairs for pairs in (_equal_rows(X, Y, value), opposite) if pairs is not None)
    return Known(known) if known else None


def _all_differ(X: Any, Y: Any) -> bool:
    """Whether magnitudes, of dense rows in a few columns, tell that no rows are equal or opposite."""
    parts = [part for part in (X, Y) if part is not None]
    step = 1 if any(map(sparse.issparse, parts)) else X.shape[1] // _FEW + 1
    return not _have_equals(np.concatenate([_magnitude_keys(part, step) for part in parts]))


def _magnitude_keys(X: Any, step: int) -> NDArray[Any]:
    from mercer.compiled.rows import magnitude_keys

    if sparse.issparse(X):
        return row_keys(abs(X))
    keys = np.empty(X.shape[0], dtype=np.uint64)
    magnitude_keys(_in_rows(X), step, keys)
    return keys


def _equal_rows(X: Any, Y: Any, value: float) -> Equal | None:
    keys = row_keys(X)
    others = keys if Y is None else row_keys(Y)
    if Y is None and not _have_equals(keys):
        return None
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    starts = np.searchsorted(ordered, keys, side="left")
    stops = np.searchsorted(ordered, keys, side="right")
    return Equal(starts, stops, order, value) if np.any(starts < stops) else None


def _have_equals(keys: NDArray[Any]) -> bool:
    ordered = keys.copy()
    ordered.sort()
    return bool((ordered[1:] == ordered[:-1]).any())


def row_keys(X: Any) -> NDArray[Any]:
    """A 64-bit key for each row of an array or CSR matrix; equal rows have equal keys.

    Two of 10^5 different rows share a key with probability 3e-10.  Keys depend on the numbers alone, not
    on whether they are stored dense or sparse, nor on their precision.
    """
    from mercer.compiled.rows import dense_keys, sparse_keys

    keys = np.empty(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        X = X.tocsr()
        sparse_keys(X.indptr, X.indices, X.data, keys)
    else:
        dense_keys(_in_rows(X), keys)
    return keys


def _in_rows(X: Any) -> NDArray[Any]:
    """Rows of an array in main memory, one after the other, in single or double precision."""
    rows = np.ascontiguousarray(on_cpu(X))
    return rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)
