"""Operands in main memory, and the invariants of all pairs of their rows, tile by tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.engine.equal import Equal
from mercer.profiles import Profile


class Invariants(Protocol):
    """The invariants of all pairs of rows, which are written tile by tile."""

    #: rows and columns of one tile, chosen so that a tile stays in cache
    tile: tuple[int, int]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """Write the tile into ``out``; symmetric ones may leave out what is below the diagonal."""


class Operand(ABC):
    """Rows whose invariants are not a matrix product, and exact for equal points."""

    @abstractmethod
    def invariants(self, other: Any, symmetric: bool) -> Invariants:
        """Invariants of all pairs with the rows of another operand of the same kind."""


@dataclass(frozen=True, eq=False)
class Differences(Operand):
    """Points p with factors s, for the invariant ``|p - q|^2 s(p) s(q)`` from differences."""

    points: NDArray[Any]
    scales: NDArray[Any]

    def invariants(self, other: Differences, symmetric: bool) -> Invariants:
        """See :class:`Operand`."""
        return DifferenceProduct(self, other)


@dataclass(frozen=True, eq=False)
class Normals(Operand):
    """Products of normal distributions, for divergences from differences of their parameters."""

    means: NDArray[Any]
    deviations: NDArray[Any]

    def invariants(self, other: Normals, symmetric: bool) -> Invariants:
        """See :class:`Operand`."""
        return DivergenceProduct(self, other)


@dataclass(frozen=True, eq=False)
class Factors(Operand):
    """Rows embedded in each factor of a product of spaces, and what is to be summed over factors."""

    parts: Sequence[Any]
    profile: Profile

    def invariants(self, other: Factors, symmetric: bool) -> Invariants:
        """See :class:`Operand`."""
        return FactorSum(self, other, symmetric)


def invariants(L: Any, R: Any, symmetric: bool, equal: Equal | None = None) -> Invariants:
    """Invariants of the pairs of two operands, exact at rows that are known to be equal."""
    if equal is not None:
        return Recognised(invariants(L, R, symmetric), equal)
    if isinstance(L, Operand):
        return L.invariants(R, symmetric)
    left, right = sparse.issparse(L), sparse.issparse(R)
    if left and right:
        return SparseProduct(*columns_in_use(L, R), symmetric)
    if left or right:
        return MixedProduct(L, R)
    return DenseProduct(L, R)


def columns_in_use(L: Any, R: Any) -> tuple[Any, Any]:
    """Number the columns in use anew if most are not, so that work is in the number of non-zeros."""
    from mercer.compiled.columns import number_columns

    same = L is R
    if L.shape[1] <= (L.nnz if same else L.nnz + R.nnz):
        return L, R
    alike = same or np.array_equal(L.indices, R.indices)
    indices = L.indices if alike else np.concatenate([L.indices, R.indices])
    places = np.empty(len(indices), dtype=indices.dtype)
    used = number_columns(indices, places)

    def renumbered(X: Any, places: Any) -> sparse.csr_matrix:
        return sparse.csr_matrix((X.data, places, X.indptr), shape=(X.shape[0], used))

    left = renumbered(L, places[: L.nnz])
    return left, left if same else renumbered(R, places[-R.nnz or len(places) :])


class Stored:
    """Invariants that are kept."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self.tile = (64, np.iinfo(np.int64).max)
        self.shape: tuple[int, int] = (values.shape[0], values.shape[1])
        self.dtype = values.dtype

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        out[:] = self._values[rows, columns]


class Recognised:
    """Invariants whose value at equal rows is known: there rounding has no say."""

    def __init__(self, source: Invariants, equal: Equal) -> None:
        self._source, self._equal = source, equal
        self.tile, self.shape, self.dtype = source.tile, source.shape, source.dtype

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        self._source.write(rows, columns, out)
        self._equal.write(rows, columns, out)


class DenseProduct:
    """Both matrices dense: one BLAS call per tile."""

    tile = (384, 384)

    def __init__(self, L: NDArray[Any], R: NDArray[Any]) -> None:
        self._left, self._right = L, R
        self.shape = (L.shape[0], R.shape[0])
        self.dtype = np.result_type(L, R)

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        np.matmul(self._left[rows], self._right[columns].T, out=out)


class SparseProduct:
    """Both matrices sparse: every row of L gathers the columns of R that it touches."""

    tile = (64, np.iinfo(np.int64).max)

    def __init__(self, L: sparse.csr_matrix, R: sparse.csr_matrix, symmetric: bool) -> None:
        self.shape = (L.shape[0], R.shape[0])
        self.dtype = np.result_type(L.dtype, R.dtype)
        self._left = L.tocsr()
        self._right = R.tocsc()
        if symmetric:
            self._entry = self._diagonal_entries(L, R)
        else:
            self._entry = self._right.indptr[self._left.indices]

    def _diagonal_entries(self, L: sparse.csr_matrix, R: sparse.csr_matrix) -> NDArray[np.int64]:
        """For each element (i, c) of L, where rows from i on begin in column c of R."""
        if L is not R:
            rows = np.repeat(np.arange(L.shape[0]), np.diff(L.indptr))
            columns = np.repeat(np.arange(R.shape[1]), np.diff(self._right.indptr))
            places = columns * R.shape[0] + self._right.indices
            return np.searchsorted(places, L.indices.astype(np.int64) * R.shape[0] + rows)
        # The order of R's elements by columns gives the places, without a search.
        order = np.arange(L.nnz, dtype=np.int64)
        by_column = sparse.csr_matrix((order, L.indices, L.indptr), shape=L.shape).tocsc().data
        entry = np.empty(L.nnz, dtype=np.int64)
        entry[by_column] = order
        return entry

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        from mercer.compiled.radial import scatter_rows

        left, right = self._left, self._right
        scatter_rows(
            rows.start, rows.stop, columns.start, left.indptr, left.indices, left.data,
            self._entry, right.indptr, right.indices, right.data, out,
        )  # fmt: skip


class MixedProduct:
    """One matrix sparse, one dense."""

    tile = (256, 4096)

    def __init__(self, L: Any, R: Any) -> None:
        self._left, self._right = L, R
        self.shape = (L.shape[0], R.shape[0])
        self.dtype = np.result_type(L.dtype, R.dtype)

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        out[:] = self._left[rows] @ self._right[columns].T


class DifferenceProduct:
    """``|p - q|^2 s(p) s(q)``, coordinate by coordinate: no digits are lost where points are close."""

    tile = (64, 1024)

    def __init__(self, L: Differences, R: Differences) -> None:
        self._left, self._right = L, R
        self._columns = np.ascontiguousarray(R.points.T)
        self.shape = (len(L.points), len(R.points))
        self.dtype = np.result_type(L.points, R.points)

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        from mercer.compiled.radial import scaled_differences

        scaled_differences(
            self._left.points[rows], self._left.scales[rows], self._columns[:, columns],
            self._right.scales[columns], out,
        )  # fmt: skip


class DivergenceProduct:
    """Symmetrised Kullback-Leibler divergences between products of normal distributions."""

    tile = (64, 1024)

    def __init__(self, L: Normals, R: Normals) -> None:
        self._left = L
        self._means, self._deviations = (
            np.ascontiguousarray(part.T) for part in (R.means, R.deviations)
        )
        self._inverses = 1.0 / self._deviations
        self.shape = (len(L.means), len(R.means))
        self.dtype = np.result_type(L.means, R.means)

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        from mercer.compiled.divergences import normal_divergences

        normal_divergences(
            self._left.means[rows], self._left.deviations[rows], self._means[:, columns],
            self._deviations[:, columns], self._inverses[:, columns], out,
        )  # fmt: skip


class FactorSum:
    """``sum_j f(w_j)`` over the invariants w_j of a pair in the factors of a product of spaces."""

    def __init__(self, L: Factors, R: Factors, symmetric: bool) -> None:
        self._profile = L.profile
        self._sources = [invariants(a, b, symmetric) for a, b in zip(L.parts, R.parts, strict=True)]
        self.tile = self._sources[0].tile
        self.shape = self._sources[0].shape
        self.dtype = self._sources[0].dtype

    def write(self, rows: slice, columns: slice, out: NDArray[Any]) -> None:
        """See :class:`Invariants`."""
        term = np.empty(out.shape, dtype=self.dtype)
        out[:] = 0.0
        for source in self._sources:
            source.write(rows, columns, term)
            self._profile.apply(term)
            out += term
