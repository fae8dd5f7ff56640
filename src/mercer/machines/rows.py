"""Rows of Gram matrices for the solver: of a matrix, or computed when they are needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from mercer._arrays import on_cpu, taken
from mercer.machines.points import Points, products
from mercer.machines.program import Array, Index

#: Rows that are kept whatever the room.
_LEAST_KEPT = 16
#: Coefficients of a block, and the part of the rows that are kept which a block may take.
_BLOCK, _PART = 1024, 0.25
#: Coefficients of a block where products are cheap.
_DEVICE_BLOCK = 2048


class MatrixRows:
    """Rows and columns of a Gram matrix in memory.

    Parameters
    ----------
    K : array of shape (m, m)
        In single or double precision.
    index : array of int, optional
        Rows of the program, ascending; by default all.
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
        """Room for gathered rows, of all coefficients or as many as fit; it is kept for later calls."""
        from mercer.compiled.machines.smo import Store, padded

        dtype = np.dtype(np.float32) if single else self.matrix.dtype
        if dtype not in self._stores:
            size = len(self.columns)
            width = padded(size)
            fitting = int(min(self.room, 1e15) // (dtype.itemsize * width))
            values = np.empty(max(min(size, fitting), 2) * width, dtype=dtype)
            place, owner, used = (np.full(size, -1) for _ in range(3))
            self._stores[dtype] = Store(values, place, owner, used, np.zeros(3, dtype=np.int64))
        return self._stores[dtype]

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        from mercer.compiled.machines.certificates import values_at

        out = np.empty(len(b))
        values_at(self.matrix, self.columns, b, out)
        return out

    def between(self, rows: Index) -> Array:
        """Gram matrix of some rows, in double precision."""
        some = self.columns[rows]
        return self.matrix[np.ix_(some, some)].astype(float)


class ComputedRows:
    """Rows of a Gram matrix that is too large to be held, kept in single precision while there is room.

    Parameters
    ----------
    block : callable
        ``block(rows)`` is so many rows of K.
    product : callable
        ``product(rows, b)`` is K times b at all rows, in double precision; b belongs to the rows named.
    diagonal : array of shape (m,)
    room : float
        Bytes for rows that are kept.
    """

    def __init__(
        self,
        block: Callable[[Index], Any],
        product: Callable[[Index, Array], Array],
        diagonal: Array,
        room: float,
    ) -> None:
        self._block, self._product, self._diagonal = block, product, diagonal
        #: Rows that can be kept.
        self.most = max(_LEAST_KEPT, int(room // (4 * len(diagonal))))
        #: Coefficients of a block.
        self.block = int(np.clip(_PART * self.most, 4, _BLOCK))
        self._kept = np.empty((min(self.most, len(diagonal)), len(diagonal)), dtype=np.float32)
        #: Place of each row that is kept, the least recently used first.
        self._places: OrderedDict[int, int] = OrderedDict()

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return self._diagonal

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        used = np.flatnonzero(b)
        return self._product(used, b[used]) if len(used) else np.zeros_like(b)

    def rows(self, wanted: Index) -> Any:
        """Rows of K, computed in one go where they are not kept."""
        for row in wanted.tolist():
            if row in self._places:
                self._places.move_to_end(row)
        missing = np.array([row for row in wanted.tolist() if row not in self._places], dtype=np.intp)
        if len(missing):
            for row, values in zip(missing.tolist(), self._block(missing), strict=True):
                free = len(self._places) < len(self._kept)
                place = len(self._places) if free else self._places.popitem(last=False)[1]
                self._kept[place] = values
                self._places[row] = place
        return self._kept[[self._places[row] for row in wanted.tolist()]]

    def between(self, rows: Index) -> Any:
        """Gram matrix of some rows."""
        K = self.rows(rows)[:, rows]
        return 0.5 * (K + K.T)

    def change(self, rows: Index, moved: Array) -> Array:
        """What ``Kb`` changes by when some coefficients move."""
        return moved @ self.rows(rows)


class DeviceRows:
    """A Gram matrix of points on a device, of which products are computed and nothing is kept.

    Parameters
    ----------
    points : Points
    """

    #: Coefficients of a block.
    block = _DEVICE_BLOCK

    def __init__(self, points: Points) -> None:
        self._points = points

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Array:
        return self._points.diagonal()

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        used = np.flatnonzero(b)
        return self.change(used, b[used]) if len(used) else np.zeros_like(b)

    def between(self, rows: Index) -> Any:
        """Gram matrix of some rows."""
        return on_cpu(self._points.kernel(taken(self._points.X, rows)))

    def change(self, rows: Index, moved: Array) -> Array:
        """What ``Kb`` changes by when some coefficients move."""
        X = self._points.X
        return products(self._points.kernel, X, taken(X, rows), moved)
