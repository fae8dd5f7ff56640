"""Operands in main memory, and the invariants of all pairs of their rows, tile by tile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import aligned, line_of
from mercer._threads import threads_in_use
from mercer.engine.equal import Equal, Known
from mercer.profiles import Profile

#: Writes the rows and columns of a tile into an array; symmetric ones may leave out the lower half.
Write = Callable[[slice, slice, NDArray[Any]], None]
#: Rows and columns of a tile, such that it stays in cache: of products by BLAS, of products of a sparse
#: and a dense matrix, of whole rows, and of compiled loops.
_PRODUCT, _MIXED, _ROWS, _LOOP = (192, 2048), (256, 4096), (64, 2**62), (64, 1024)

#: Smallest number of elements of a tile of known invariants: fewer take less time than the overhead.
_APPLIED = 2**17
#: Smallest number of columns for which large tiles pay, and the elements of one: a few of these tiles
#: fit into the last cache.
_LONG, _LARGE = 128, 2**20

#: Pairs of sparse rows whose differences are taken at a time.
_PAIRS = 2**12

#: Largest number of columns, and smallest number of rows on the right, for which products are computed
#: faster on the way to a profile than by BLAS.
_SHORT, _SIDE_BY_SIDE = {np.dtype(np.float32): 16, np.dtype(np.float64): _LONG}, 64

#: Largest number of columns of sparse rows whose tiles may be multiplied as dense ones, and the time of
#: a term of a sparse product, in units of the time that BLAS takes per byte of a dense one.
_WIDE, _GATHERED = 2048, 256


@dataclass(frozen=True, eq=False)
class Invariants:
    """The invariants of all pairs of rows, which are written tile by tile.

    ``operands`` are the matrices of all products.  Those of ``short`` rows are best computed on the way
    to a profile.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    tile: tuple[int, int]
    write: Write
    operands: tuple[Any, Any] | None = None
    short: bool = False

    def separations(self, i: Any, j: Any, sign: float) -> NDArray[np.float64]:
        """``1 - sign * w`` for the invariants w of some pairs of unit rows.

        That is ``|x - sign * y|^2 / 2``, and no digits are lost where it is small.
        """
        from mercer.compiled.rows import halved_squares

        assert self.operands is not None
        L, R = self.operands
        u = np.empty(len(i))
        if not sparse.issparse(L) and not sparse.issparse(R):
            halved_squares(L, R, i, j, sign, u)
            return u
        for start in range(0, len(i), _PAIRS):
            part = slice(start, start + _PAIRS)
            differences = sparse.csr_matrix(L[i[part]]) - sign * sparse.csr_matrix(R[j[part]])
            u[part] = 0.5 * differences.power(2).sum(axis=1).A1
        return u


class Operand(ABC):
    """Rows whose invariants are not a matrix product, and exact for equal points."""

    @abstractmethod
    def invariants(self, other: Any, symmetric: bool) -> Invariants:
        """Invariants of all pairs with the rows of another operand of the same kind."""


@dataclass(frozen=True, eq=False)
class Differences(Operand):
    """Points p with factors s, for the invariant ``|p - q|^2 s(p) s(q)``.

    It is computed coordinate by coordinate: no digits are lost where points are close.  For long rows
    only close pairs are; the others follow from a matrix product.
    """

    points: NDArray[Any]
    scales: NDArray[Any]

    def invariants(self, other: Differences, symmetric: bool) -> Invariants:
        from mercer.compiled.radial import differences_from_products, scaled_differences

        p, q, s, r = self.points, other.points, self.scales, other.scales
        shape, dtype, length = (len(p), len(q)), np.result_type(p, q), p.shape[1]
        if length < _LONG:
            left, right = coordinates(p, q)

            def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
                mine, theirs = (left[rows], s[rows]), (right, columns.start, r[columns])
                scaled_differences(*line_of(out), *out.shape, *mine, *theirs)

            return Invariants(shape, dtype, _PRODUCT, write)
        squares, others = (np.einsum("ij,ij->i", part, part) for part in (p, q))

        def write_products(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            np.matmul(p[rows], q[columns].T, out=out)
            mine = p[rows], squares[rows], s[rows]
            theirs = q[columns], others[columns], r[columns]
            if not differences_from_products(*line_of(out), *out.shape, *mine, *theirs):
                left, right = coordinates(p[rows], q[columns])
                scaled_differences(*line_of(out), *out.shape, left, s[rows], right, 0, r[columns])

        tile = _PRODUCT if symmetric else _shape(*shape, length)
        return Invariants(shape, dtype, tile, write_products)


@dataclass(frozen=True, eq=False)
class SparseDifferences(Operand):
    """Sparse rows with sorted columns, for the invariant ``|p - q|^2``, exact where rows are close."""

    points: sparse.csr_matrix
    squares: NDArray[Any]

    def invariants(self, other: SparseDifferences, symmetric: bool) -> Invariants:
        from mercer.compiled.radial import sparse_differences

        product = _sparse_product(*columns_in_use(self.points, other.points), symmetric)
        P, Q = ((X.indptr, X.indices, X.data) for X in (self.points, other.points))

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            product.write(rows, columns, out)
            mine, theirs = (P, self.squares), (Q, other.squares)
            sparse_differences(out, rows.start, columns.start, *mine, *theirs, symmetric)

        return Invariants(product.shape, product.dtype, product.tile, write)


@dataclass(frozen=True, eq=False)
class Normals(Operand):
    """Products of normal distributions, for their symmetrised Kullback-Leibler divergences."""

    means: NDArray[Any]
    deviations: NDArray[Any]

    def invariants(self, other: Normals, symmetric: bool) -> Invariants:
        from mercer.compiled.divergences import normal_divergences

        m, s = self.means, self.deviations
        q, r = (np.ascontiguousarray(part.T) for part in (other.means, other.deviations))
        inverses = 1.0 / r

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            theirs = q[:, columns], r[:, columns], inverses[:, columns]
            normal_divergences(m[rows], s[rows], *theirs, out)

        return Invariants((len(m), q.shape[1]), np.result_type(m, q), _LOOP, write)


@dataclass(frozen=True, eq=False)
class Factors(Operand):
    """Rows in each factor of a product of spaces, for the sum of a profile of their invariants."""

    parts: Sequence[Any]
    profile: Profile

    def invariants(self, other: Factors, symmetric: bool) -> Invariants:
        pairs = zip(self.parts, other.parts, strict=True)
        sources = [invariants(a, b, symmetric) for a, b in pairs]
        first = sources[0]

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            term = np.empty(out.shape, dtype=first.dtype)
            out[:] = 0.0
            for source in sources:
                source.write(rows, columns, term)
                self.profile.apply(term)
                out += term

        return Invariants(first.shape, first.dtype, first.tile, write)


def invariants(L: Any, R: Any, symmetric: bool, equal: Equal | Known | None = None) -> Invariants:
    """Invariants of the pairs of two operands, exact at rows that are known to be equal or opposite."""
    if isinstance(L, Operand):
        source = L.invariants(R, symmetric)
    elif sparse.issparse(L) and sparse.issparse(R):
        source = _sparse_product(*columns_in_use(L, R), symmetric)
    else:
        source = _product(L, R, symmetric)
    if equal is None:
        return source

    def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
        source.write(rows, columns, out)
        equal.write(rows, columns, out)

    return Invariants(source.shape, source.dtype, source.tile, write, operands=source.operands)


def stored(values: NDArray[Any]) -> Invariants:
    """Invariants that are given as a matrix."""

    def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
        out[:] = values[rows, columns]

    rows, columns = values.shape
    return Invariants(
        (rows, columns), values.dtype, (max(_ROWS[0], _APPLIED // max(columns, 1)), columns), write
    )


def _product(L: Any, R: Any, symmetric: bool) -> Invariants:
    """``L @ R.T``: a product by BLAS for each tile, unless either is sparse."""

    def multiply(rows: slice, columns: slice, out: NDArray[Any]) -> None:
        np.matmul(_dense(L[rows]), _dense(R[columns]).T, out=out)

    def multiply_mixed(rows: slice, columns: slice, out: NDArray[Any]) -> None:
        out[:] = L[rows] @ R[columns].T

    shape, dtype = (L.shape[0], R.shape[0]), np.result_type(L.dtype, R.dtype)
    if sparse.issparse(L) != sparse.issparse(R):
        return Invariants(shape, dtype, _MIXED, multiply_mixed, operands=(L, R))
    length = L.shape[1]
    short = length <= _SHORT.get(dtype, 0) and shape[1] >= _SIDE_BY_SIDE and not sparse.issparse(L)
    tile = _PRODUCT if symmetric else _shape(*shape, length)
    return Invariants(shape, dtype, tile, multiply, (L, R), short)


def coordinates(p: Any, q: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Points in rows, and others in columns, with zeros up to what loops take at a time."""
    length = p.shape[1] + -p.shape[1] % 4
    left, right = p, aligned(length, len(q), q.dtype)
    right[: q.shape[1], : len(q)] = q.T
    if p.shape[1] < length:
        left = np.zeros((len(p), length), p.dtype)
        left[:, : p.shape[1]] = p
    # Loops are compiled for arrays in rows that can be written to.
    return left if left.flags.carray else np.array(left, order="C"), right


def _dense(X: Any) -> NDArray[Any]:
    return X.toarray() if sparse.issparse(X) else X


def _shape(rows: int, columns: int, length: int) -> tuple[int, int]:
    """Rows and columns of the tiles of a product by BLAS, which copies its operands for each of them.

    Of long rows these copies cost more than the cache saves, if tiles are not almost square and large.
    Each thread has as many tiles as the others.
    """
    threads = threads_in_use()
    height, width = _PRODUCT
    area = max(height * width, min(_LARGE, rows * columns // (4 * threads)))
    if length >= _LONG:
        width = _evenly(columns, area // max(1, min(rows, math.isqrt(area))), 1)
    height = area // max(1, min(width, columns))
    return _evenly(rows, height, threads), width


def _evenly(size: int, most: int, multiple: int) -> int:
    """Length of equal parts of at most ``most``; their number is a multiple unless one is enough."""
    parts = -(-size // most)
    return size if parts <= 1 else -(-size // (parts + -parts % multiple))


def _sparse_product(L: sparse.csr_matrix, R: sparse.csr_matrix, symmetric: bool) -> Invariants:
    """``L @ R.T`` of sparse matrices: every row of L gathers the columns of R that it touches."""
    from mercer.compiled.radial import scatter_rows

    if _is_crowded(L, R):
        return _product(L, R, symmetric)
    left, right = L.tocsr(), R.tocsc()
    entry = _diagonal_entries(L, R, right) if symmetric else right.indptr[left.indices]

    def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
        scatter_rows(
            rows.start, rows.stop, columns.start, left.indptr, left.indices, left.data, entry,
            right.indptr, right.indices, right.data, out,
        )  # fmt: skip

    dtype = np.result_type(L.dtype, R.dtype)
    return Invariants((L.shape[0], R.shape[0]), dtype, _ROWS, write, operands=(left, R))


def _is_crowded(L: sparse.csr_matrix, R: sparse.csr_matrix) -> bool:
    """Whether the product of dense tiles is faster: where many of its terms are not zero."""
    (rows, columns), others = L.shape, R.shape[0]
    if not 0 < columns <= _WIDE:
        return False
    counts = np.bincount(L.indices, minlength=columns).astype(float)
    terms = counts @ (counts if L is R else np.bincount(R.indices, minlength=columns))
    return bool(terms * _GATHERED > rows * others * columns * np.result_type(L.dtype, R.dtype).itemsize)


def _diagonal_entries(
    L: sparse.csr_matrix, R: sparse.csr_matrix, by_columns: sparse.csc_matrix
) -> NDArray[np.int64]:
    """For each element (i, c) of L, where rows from i on begin in column c of R."""
    if L is not R:
        rows = np.repeat(np.arange(L.shape[0]), np.diff(L.indptr))
        columns = np.repeat(np.arange(R.shape[1]), np.diff(by_columns.indptr))
        places = columns * R.shape[0] + by_columns.indices
        return np.searchsorted(places, L.indices.astype(np.int64) * R.shape[0] + rows)
    # The order of R's elements by columns gives the places, without a search.
    order = np.arange(L.nnz, dtype=np.int64)
    entry = np.empty(L.nnz, dtype=np.int64)
    entry[sparse.csr_matrix((order, L.indices, L.indptr), shape=L.shape).tocsc().data] = order
    return entry


def columns_in_use(L: Any, R: Any) -> tuple[Any, Any]:
    """Renumber the columns in use if most are not: work is then linear in the number of non-zeros."""
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
