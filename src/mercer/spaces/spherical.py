"""The hypersphere, as the home of directions (Sphere) and of distributions (Simplex)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy import sparse

from mercer.profiles import Separation
from mercer.spaces import zonal
from mercer.spaces.base import RadialSpace, constant_rows, refuse_rows, row_any, squared_lengths


class SphericalSpace(RadialSpace):
    """A space whose points are unit vectors: the invariant is ``w = x.y = cos(theta)``.

    The Laplacian of S^(n-1) has the eigenvalues ``l (l + n - 2)`` with multiplicities N_l, and its
    zonal functions are the normalised Gegenbauer polynomials P_l; see :mod:`mercer.spaces.zonal`.
    """

    least_dimension = 2

    @abstractmethod
    def _unit_rows(self, X: Any) -> Any:
        """Map checked rows to unit vectors."""

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to unit vectors; see :meth:`RadialSpace.embed`."""
        left = self._unit_rows(X)
        return left, left if Y is None or Y is X else self._unit_rows(Y)

    def self_invariant(self, X: Any) -> Any:
        """One: see :meth:`RadialSpace.self_invariant`."""
        return constant_rows(X, 1.0)

    def eigenvalues(self, levels: int, n: int | None = None) -> np.ndarray:
        """Eigenvalues ``l (l + n - 2)`` of the Laplacian, l < ``levels``."""
        return zonal.eigenvalues(self._dimension(n), levels).astype(float)

    def log_multiplicities(self, levels: int, n: int | None = None) -> np.ndarray:
        """Logarithms of the dimensions of the eigenspaces, l < ``levels``."""
        return zonal.log_multiplicities(self._dimension(n), levels).astype(float)

    def series(self, coefficients: Any, w: Any, n: int | None = None) -> np.ndarray:
        """Sum the zonal series ``sum_l c_l P_l(w)`` at invariants w in [-1, 1].

        Examples
        --------
        >>> from mercer.spaces import Sphere
        >>> Sphere(3).series([0, 0, 1], [0.0, 1.0])    # the Legendre polynomial (3 w^2 - 1) / 2
        array([-0.5,  1. ])
        """
        w = np.asarray(w, dtype=float)
        if not np.all(np.abs(w) <= 1):
            raise ValueError("w must lie in [-1, 1]")
        both = zonal.zonal_series(
            self._dimension(n), 0, np.asarray(coefficients, dtype=float), 1 - np.abs(w.ravel())
        )
        return np.where(w.ravel() >= 0, both[0], both[1]).reshape(w.shape)

    def _dimension(self, n: int | None) -> int:
        dimension = self.n if n is None else n
        if dimension is None:
            raise ValueError(f"{self!r} has no dimension of its own: give n")
        return dimension


@dataclass(frozen=True, repr=False)
class Sphere(SphericalSpace):
    """Directions: rows of any length but zero, taken as points of the unit sphere S^(n-1).

    ``x -> x / |x|``, invariant ``w = x.y`` in [-1, 1].

    Parameters
    ----------
    n : int, optional
        Ambient dimension; by default the number of columns.
    unit : bool
        Insist that rows have length one already, to half the digits of their precision.

    Examples
    --------
    >>> from mercer.spaces import Sphere
    >>> L, R = Sphere().embed(Sphere().check([[3.0, 4.0], [0.0, -2.0]]))
    >>> L @ R.T
    array([[ 1. , -0.8],
           [-0.8,  1. ]])
    """

    n: int | None = None
    unit: bool = False

    @property
    def separation(self) -> Separation:
        """See :class:`RadialSpace`."""
        return "folded"

    def _check_rows(self, X: Any, name: str) -> None:
        with np.errstate(over="ignore", under="ignore"):
            squares = squared_lengths(X)
        if bool(array_namespace(squares).any(squares == 0)):  # zeros, or squares that underflow
            refuse_rows(
                row_maxima(X) == 0,
                name,
                "is all zeros and has no direction; drop it or use another space",
            )
        if self.unit:
            lengths = row_lengths(X)
            xp = array_namespace(lengths)
            off = xp.abs(lengths - 1.0) > xp.finfo(lengths.dtype).eps ** 0.5
            refuse_rows(off, name, "is not of length one; normalise it or use Sphere(unit=False)")

    def _unit_rows(self, X: Any) -> Any:
        return unit_rows(X)


@dataclass(frozen=True, repr=False)
class Simplex(SphericalSpace):
    """Counts and compositions: rows that are non-negative and not all zero.

    ``x_i -> sqrt(x_i / sum_j x_j)`` puts the multinomial model with its Fisher metric on the
    positive part of the unit sphere; the invariant ``w`` in [0, 1] is the Bhattacharyya coefficient
    of the two distributions and ``2 arccos(w)`` their Fisher distance.

    Sparse matrices stay sparse: a corpus with a million columns is no more work than its non-zeros.

    Parameters
    ----------
    n : int, optional
        Number of categories; by default the number of columns.

    Examples
    --------
    >>> from mercer.spaces import Simplex
    >>> L, R = Simplex().embed(Simplex().check([[1, 1, 0], [4, 0, 0]]))
    >>> (L @ R.T).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    n: int | None = None

    @property
    def separation(self) -> Separation:
        """See :class:`RadialSpace`."""
        return "one-sided"

    def _check_rows(self, X: Any, name: str) -> None:
        refuse_negative(X, name)
        refuse_rows(
            row_maxima(X) == 0, name, "is all zeros and has no composition; drop it or add a prior"
        )

    def _unit_rows(self, X: Any) -> Any:
        # Dividing by the largest entry first keeps totals in range whatever the scale of the rows.
        if _extreme(row_maxima(X)):
            X = scale_rows(X, row_maxima(X))
        if sparse.issparse(X):
            shares = scale_rows(X, np.asarray(X.sum(axis=1)).ravel())
            np.sqrt(shares.data, out=shares.data)
            return shares
        return _root(X / array_namespace(X).sum(X, axis=1, keepdims=True))


def refuse_negative(X: Any, name: str) -> None:
    """Refuse rows with negative entries."""
    dense = not sparse.issparse(X)
    negative = array_namespace(X).min(X, axis=1) < 0 if dense else row_any(X, X.data < 0)
    refuse_rows(negative, name, "has negative entries; counts and compositions have none")


def row_lengths(X: Any) -> Any:
    """Euclidean lengths of rows, whatever their scale; zero only for rows of zeros."""
    largest = row_maxima(X)
    if not _extreme(largest):
        return _plain_lengths(X)
    xp = array_namespace(largest)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    with np.errstate(over="ignore"):  # infinity is the length then
        return safe * _plain_lengths(scale_rows(X, safe))


def _plain_lengths(X: Any) -> Any:
    return _root(squared_lengths(X))


def _root(x: Any) -> Any:
    """Square root; on other libraries than NumPy with derivative 0 at 0 instead of a NaN."""
    xp = array_namespace(x)
    if is_numpy_array(x):
        return np.sqrt(x)
    positive = x > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, x, xp.ones_like(x))), xp.zeros_like(x))


def unit_rows(X: Any) -> Any:
    """Rows divided by their lengths, whatever their scale; rows of zeros stay as they are."""
    with np.errstate(over="ignore"):
        lengths = _plain_lengths(X)
    xp = array_namespace(lengths)
    tiny = float(xp.finfo(lengths.dtype).smallest_normal) ** 0.5
    if not bool(xp.all((lengths > 2 * tiny) & xp.isfinite(lengths))):
        # Squares that left the floating range, or rows of zeros: look closer.
        largest = row_maxima(X)
        X = scale_rows(X, xp.where(largest > 0, largest, xp.ones_like(largest)))
        lengths = _plain_lengths(X)
        lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return scale_rows(X, lengths)


def row_maxima(X: Any) -> Any:
    """Largest magnitude in each row."""
    if sparse.issparse(X):
        return np.abs(X).max(axis=1).toarray().ravel()
    xp = array_namespace(X)
    return xp.max(xp.abs(X), axis=1)


def _extreme(largest: Any) -> bool:
    """Tell whether squares or sums of such numbers may leave the floating range."""
    xp = array_namespace(largest)
    edge = float(xp.finfo(largest.dtype).max) ** 0.4
    inside = (largest < edge) & ((largest > 1 / edge) | (largest == 0))
    return not bool(xp.all(inside))


def scale_rows(X: Any, by: Any) -> Any:
    """Divide rows by numbers, keeping sparse matrices sparse."""
    if sparse.issparse(X):
        scaled = X.copy()
        scaled.data /= np.repeat(by, np.diff(X.indptr)).astype(X.dtype)
        return scaled
    return X / by[:, None]
