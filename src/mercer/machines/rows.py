"""Gram matrices for the solver: in memory, or block by block."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer._arrays import taken
from mercer.machines.pivots import NystroemFactor
from mercer.machines.points import Points, in_single, is_exhausted, products
from mercer.machines.program import Array, Index

#: Smallest number of rows of a block, whatever the memory.
_LEAST_ROWS = 16


class MatrixRows:
    """Rows and columns of a Gram matrix in memory.

    Parameters
    ----------
    K : array of shape (m, m)
        In single or double precision.
    index : array of int, optional
        Rows of the program; by default all.  Consecutive rows are gathered faster.
    room : float
        Bytes for rows that are gathered.
    diagonal : array of shape (m,), optional
        Diagonal of K.
    """

    def __init__(
        self,
        K: Any,
        index: Index | None = None,
        room: float = np.inf,
        diagonal: Array | None = None,
    ) -> None:
        self.matrix, self.room = K, room
        self.columns = np.arange(len(K), dtype=np.uint64) if index is None else index.astype(np.uint64)
        own = np.diagonal(K) if diagonal is None else diagonal
        self._diagonal = own[self.columns].astype(float)
        self._stores: dict[Any, Any] = {}

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return self._diagonal

    def store(self, single: bool) -> Any:
        """Buffer for gathered rows of all coefficients, or of as many as fit; kept for later calls."""
        from mercer.compiled.machines.smo import Store

        dtype = np.dtype(np.float32) if single else self.matrix.dtype
        if dtype not in self._stores:
            size = len(self.columns)
            values = room_for_rows(size, dtype, self.room)
            place, owner, used = (np.full(size, -1) for _ in range(3))
            self._stores[dtype] = Store(values, place, owner, used, np.zeros(3, dtype=np.int64))
        return self._stores[dtype]

    def values(self, b: Array, compensated: bool = False) -> Array:
        """``Kb`` in double precision, perhaps by compensated sums."""
        from mercer.compiled.machines.certificates import values_at

        out = np.empty(len(b))
        values_at(self.matrix, self.columns, b, out, compensated)
        return out

    def between(self, rows: Index) -> Array:
        """Gram matrix of some rows, in double precision."""
        some = self.columns[rows]
        return self.matrix[np.ix_(some, some)].astype(float)


def room_for_rows(size: int, dtype: Any, room: float) -> Any:
    """A buffer for gathered rows of all coefficients, or of as many as fit."""
    from mercer.compiled.machines.smo import padded

    width = padded(size)
    fitting = int(min(room, 1e15) // (dtype.itemsize * width))
    return np.empty(max(min(size, fitting), 2) * width, dtype=dtype)


class ComputedBlocks:
    """Blocks of a Gram matrix that is too large to store, in single or, later, in double precision.

    Parameters
    ----------
    points : Points
    room : float
        Bytes for a block, and for the rows that are gathered from it.
    rank : int
        Columns of factors that approximate parts of the matrix.
    worth : float
        Number of columns of a product with the matrix that take as long as a column of a block; zero
        for no Newton steps.
    """

    def __init__(self, points: Points, room: float, rank: int = 1, worth: float = 0.0) -> None:
        self._points, self._single = points, replace(points, X=in_single(points.X))
        self._diagonal, self._rank, self.worth = points.diagonal(), rank, worth
        #: Whether blocks are in single precision.
        self.single = True
        #: Rows of the largest block.
        self.most = min(max(_LEAST_ROWS, int(np.sqrt(room / 8))), len(points))

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return self._diagonal

    def product(self, rows: Index, b: Array) -> Array:
        """K times b at all rows, in double precision; b are coefficients of the given rows."""
        points = self._points
        return products(points.kernel, points.X, taken(points.X, rows), b)

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        used = np.flatnonzero(b)
        return self.product(used, b[used]) if len(used) else np.zeros_like(b)

    def turn_double(self) -> None:
        """Switch to double precision, with smaller blocks in the same memory."""
        self.single, self.most = False, max(min(_LEAST_ROWS, self.most), int(self.most / np.sqrt(2)))

    def shrink(self, error: BaseException) -> bool:
        """Halve the blocks if the error says that a device is out of memory; returns whether it does."""
        found = self.most > _LEAST_ROWS and is_exhausted(self._points.X, error)
        self.most = max(_LEAST_ROWS, self.most // 2) if found else self.most
        return found

    def block(self, rows: Index) -> MatrixRows:
        """Gram matrix of some rows, with their own diagonal."""
        if self.single:
            K = self._single.gram_of(rows, np.float32)
        else:
            K = self._points.gram_of(rows, np.float64)
        return MatrixRows(K, diagonal=self._diagonal[rows])

    @cached_property
    def _nystroem(self) -> NystroemFactor:
        return NystroemFactor(self._single, self._rank, np.random.default_rng(0))

    def part(self, rows: Index) -> tuple[Points, Any]:
        """Some of the points, in single precision, and a factor of their Gram matrix, approximately."""
        some = self._single.take(rows)
        return some, self._nystroem(some.X)
