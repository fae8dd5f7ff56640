"""Symmetric matrices on the nodes of a graph, and their spectra."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from mercer._arrays import Array, on_cpu
from mercer.engine import matrix_functions

#: Graphs up to this size are decomposed once; larger ones never are.
DECOMPOSED = 4000


@dataclass(frozen=True, eq=False)
class Operator:
    """A symmetric matrix on the nodes, and an interval that holds its eigenvalues.

    ``null`` holds, for a Laplacian, the entries of the vectors that it maps to zero: one vector for each
    component, all in one array, with the number of the component of each node beside it.  ``home`` is
    the device on which it is multiplied; None for main memory.
    """

    matrix: sparse.csr_array
    low: float
    high: float
    null: tuple[Array, NDArray[np.int32]] | None = None
    home: str | None = None

    @cached_property
    def edges(self) -> Any:
        """The matrix where it is multiplied: in main memory, or a sparse tensor on its device."""
        return matrix_functions.at(self.home, self.matrix)

    @property
    def nullity(self) -> int:
        """Number of eigenvalues that are exactly zero: one for each component."""
        return 0 if self.null is None else int(self.null[1].max()) + 1

    @property
    def decomposable(self) -> bool:
        """Whether the matrix is small enough to be decomposed."""
        return bool(self.matrix.shape[0] <= DECOMPOSED)

    @cached_property
    def decomposition(self) -> tuple[Array, Any]:
        """All eigenvalues, ascending and within the interval, and eigenvectors in columns.

        The vectors are where the matrix is multiplied.
        """
        whole = matrix_functions.at(self.home, self.matrix.toarray())
        values, vectors = array_namespace(whole).linalg.eigh(whole)
        values = np.clip(on_cpu(values), self.low, self.high)
        # As many are zero as there are components, whatever rounding says.
        zeros = slice(0, self.nullity) if self.low == 0 else slice(len(values) - self.nullity, None)
        values[zeros] = 0.0
        return values, vectors

    @cached_property
    def top(self) -> float:
        """Largest eigenvalue."""
        return self._extreme("LA", -1)

    @cached_property
    def bottom(self) -> float:
        """Least eigenvalue."""
        return self._extreme("SA", 0)

    def _extreme(self, which: str, position: int) -> float:
        if self.decomposable or self.matrix.shape[0] < 3:
            return float(self.decomposition[0][position])
        if self.matrix.nnz == 0:
            return 0.0
        start = np.random.default_rng(0).uniform(0.5, 1.5, size=self.matrix.shape[0])
        return float(eigsh(self.matrix, k=1, which=which, v0=start, return_eigenvectors=False)[0])
