"""Rows of Gram matrices for the solver: of a matrix, or computed when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.machines.program import Array, Index


class Rows(Protocol):
    """Where the solver finds rows of K."""

    #: The Gram matrix, empty if there is none, and the rows of it that the program has.
    matrix: Any
    columns: NDArray[np.uint64]
    #: Bytes for rows that are gathered or computed.
    room: float

    def diagonal(self) -> Array:
        """Diagonal of K."""
        ...

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        ...

    def supply(self, rows: Index, columns: Index) -> Any:
        """A block of K."""
        ...


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
    """

    def __init__(self, K: Any, index: Index | None = None, room: float = np.inf) -> None:
        self.matrix, self.room = K, room
        self.columns = np.arange(len(K), dtype=np.uint64) if index is None else index.astype(np.uint64)

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return np.diagonal(self.matrix)[self.columns].astype(float)

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        from mercer.compiled.smo import values_at

        out = np.empty(len(b))
        values_at(self.matrix, self.columns, b, out)
        return out

    def supply(self, rows: Index, columns: Index) -> Any:
        """A block of K."""
        return self.matrix[np.ix_(self.columns[rows], self.columns[columns])]


class ComputedRows:
    """Rows of a Gram matrix that is too large to be held.

    Parameters
    ----------
    block : callable
        ``block(rows, columns)`` is a block of K.
    product : callable
        ``product(rows, b)`` is K times b at all rows, in double precision; b belongs to the rows named.
    diagonal : array of shape (m,)
    room : float
        Bytes for rows that are kept, in single precision.
    """

    matrix = np.empty((0, 0), dtype=np.float32)

    def __init__(
        self,
        block: Callable[[Index, Index], Any],
        product: Callable[[Index, Array], Array],
        diagonal: Array,
        room: float,
    ) -> None:
        self.supply, self._product, self._diagonal, self.room = block, product, diagonal, room
        self.columns = np.arange(len(diagonal), dtype=np.uint64)

    def diagonal(self) -> Array:
        """Diagonal of K."""
        return self._diagonal

    def values(self, b: Array) -> Array:
        """``Kb`` in double precision."""
        used = np.flatnonzero(b)
        return self._product(used, b[used]) if len(used) else np.zeros_like(b)
