"""Flat space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer._arrays import squared_lengths
from mercer._validation import refuse_rows
from mercer.engine import Extent, engine_for
from mercer.engine.operands import Differences, Operand, SparseDifferences
from mercer.laws import Law
from mercer.profiles import ProductProfile, Profile, TableProfile
from mercer.spaces.base import RadialSpace
from mercer.spaces.metrics import lengths
from mercer.spaces.realisations.base import Radial, Slope, absolute_factor
from mercer.spaces.sphere import Sphere
from mercer.special.flat import FlatFunction

#: Sums of squares of such numbers stay finite, even in single precision.
_SAFE = 1e12
#: Differences of coordinates that are computed together; they fit into the cache.
_TILE = 1 << 15


@dataclass(frozen=True, repr=False)
class Euclidean(RadialSpace):
    """Rows of R^n as they are; the invariant is the squared distance.

    Close rows are subtracted coordinate by coordinate, which is accurate far from the origin too.  For
    tensors the invariant is ``(x, |x|^2, 1) . (-2 y, 1, |y|^2)`` about the mean of the second
    argument's rows, with an error of about ``1e-16 (|x|^2 + |y|^2)``, which matters for rough kernels
    at close rows.

    Parameters
    ----------
    n : int, optional
        Dimension; by default the number of columns.

    Examples
    --------
    >>> from mercer.spaces import Euclidean
    >>> Euclidean().distances([[0.0, 0.0], [3.0, 4.0]])
    array([[0., 5.],
           [5., 0.]])
    """

    n: int | None = None
    is_flat = True
    common_invariant = 0.0
    separation = "invariant"

    def _may_refuse(self, extent: Extent) -> bool:
        return extent.largest > _SAFE

    def _check_rows(self, X: Any, name: str) -> None:
        with np.errstate(over="ignore"):
            squares = squared_lengths(X)
        bad = ~array_namespace(squares).isfinite(squares)
        refuse_rows(bad, name, "is so long that its square overflows; rescale the rows")

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Lengths ``|x - y|``: see :meth:`Space.distances`.

        Examples
        --------
        >>> from mercer.spaces import Euclidean
        >>> Euclidean().distances([[0.0, 0.0]], [[3.0, 4.0]])
        array([[5.]])
        """
        P, Q = self.check_pair(X, Y)
        return lengths(P, P if Q is None else Q)

    def realise(self, law: Law, n: int, normalized: bool = True) -> FlatRealisation:
        """A function of the distance: see :meth:`Space.realise`."""
        return FlatRealisation(self, law, n, normalized)

    def check_time(self, t: float) -> None:
        _check_range("t", t, 1e-24, 1e36, "rescale the rows")

    def check_matern(self, nu: float, length_scale: float) -> None:
        _check_range("nu", nu, 0.1, 1e4, "Gaussian is the limit of large ones")
        _check_range("length_scale", length_scale, 1e-12, 1e18, "rescale the rows")

    def require_vectors(self) -> None:
        """See :meth:`Space.require_vectors`."""

    def directions(self) -> Sphere:
        return Sphere()

    def of_table(self) -> Sphere:
        return Sphere()

    def column_scaler(self, with_mean: bool) -> StandardScaler:
        return StandardScaler(with_mean=with_mean)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Operands of differences; for tensors, rows with their squared lengths."""
        Y, operands = X if Y is None else Y, engine_for(X).takes_operands
        if sparse.issparse(X) or sparse.issparse(Y):
            same, X = Y is X, _canonical(X)
            Y = X if same else _canonical(Y)
        if operands:
            left = _differences(X)
            return left, left if Y is X else _differences(Y)
        if sparse.issparse(X):
            squares = [squared_lengths(Z)[:, None] for Z in (X, Y)]
            ones = [np.ones((Z.shape[0], 1), dtype=Z.dtype) for Z in (X, Y)]
            left = sparse.hstack([X, squares[0], ones[0]], format="csr", dtype=X.dtype)
            return left, sparse.hstack([-2 * Y, ones[1], squares[1]], format="csr", dtype=Y.dtype)
        xp = array_namespace(X, Y)
        shift = xp.mean(Y, axis=0, keepdims=True)
        X, Y = X - shift, Y - shift
        squares = [squared_lengths(Z)[:, None] for Z in (X, Y)]
        ones = [xp.ones_like(s) for s in squares]
        left = xp.concat([X, squares[0], ones[0]], axis=1)
        return left, xp.concat([-2.0 * Y, ones[1], squares[1]], axis=1)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :meth:`Embedding.column_sums`; squared differences of coordinates."""
        X, sparsely = (X.toarray() if sparse.issparse(X) else X), sparse.issparse(Y)
        Y = _canonical(Y).tocsc() if sparsely else Y
        sums = weights @ (Y.multiply(Y) if sparsely else Y * Y)  # right where x is zero
        for j in np.flatnonzero(X.any(axis=0)).tolist():
            # An expanded square would lose the digits of close coordinates.
            y = _column(Y, j) if sparsely else np.ascontiguousarray(Y[:, j])
            rows, size = np.flatnonzero(X[:, j]), max(1, _TILE // max(1, len(y)))
            for some in (rows[start : start + size] for start in range(0, len(rows), size)):
                sums[some, j] = np.einsum("xy,xy->x", weights[some], (X[some, j, None] - y) ** 2)
        return sums


class FlatRealisation(Radial):
    """A law on R^n, as a function of the squared distance."""

    def __init__(self, space: Euclidean, law: Law, n: int, normalized: bool) -> None:
        self.embedding = space
        self._law, self._n, self._normalized = law, n, normalized

    @property
    def log_self_similarity(self) -> float:
        return _function(self._law, self._n).log_value

    @property
    def _shift(self) -> float:
        if self._normalized:
            return 0.0
        absolute_factor(self.log_self_similarity, self._n)  # refuses values that overflow
        return self.log_self_similarity

    def profile(self) -> Profile:
        return _profile(self._law, self._n, self._shift, False)

    def log_profile(self) -> Profile:
        shift = 0.0 if self._normalized else self.log_self_similarity
        return _profile(self._law, self._n, shift, True).without_exponential

    def slope_profile(self, slope: Slope) -> Profile:
        rise = _rise_profile(self._law, self._n, self._shift, slope.chain, not self._normalized)
        return ProductProfile(self.profile(), rise)


def _canonical(X: Any) -> sparse.csr_matrix:
    """Rows as CSR with sorted columns, each once."""
    X = sparse.csr_matrix(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _column(X: sparse.csc_matrix, j: int) -> np.ndarray:
    """A column as a dense array; slices of sparse matrices are slower."""
    column, stored = np.zeros(X.shape[0]), slice(*X.indptr[j : j + 2])
    column[X.indices[stored]] = X.data[stored]
    return column


def _differences(X: Any) -> Operand:
    if sparse.issparse(X):
        return SparseDifferences(X, squared_lengths(X))
    return Differences(X, np.ones(len(X), dtype=X.dtype))


@lru_cache(maxsize=128)
def _function(law: Law, n: int) -> FlatFunction:
    return law.flat_function(n)


@lru_cache(maxsize=128)
def _profile(law: Law, n: int, shift: float, deep: bool) -> TableProfile:
    return _function(law, n).log_profile(shift, deep)


@lru_cache(maxsize=128)
def _rise_profile(law: Law, n: int, shift: float, chain: float, absolute: bool) -> TableProfile:
    return _function(law, n).rise_profile(shift, chain, absolute)


def _check_range(name: str, value: float, least: float, most: float, remedy: str) -> None:
    if not least <= value <= most:
        raise ValueError(
            f"{name} on Euclidean() must be from {least:g} to {most:g}, got {value!r}; {remedy}"
        )
