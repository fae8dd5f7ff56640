"""The simplex: counts and compositions, as the positive part of a sphere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._arrays import row_any, row_maxima
from mercer._memory import available, size_text
from mercer._validation import check_choice, named_rows, refuse_negative, refuse_rows
from mercer.engine import Extent, engine_for
from mercer.laws import Law
from mercer.spaces.base import Embedding, RowSpace
from mercer.spaces.metrics import angles
from mercer.spaces.realisations.divergences import (
    DistributionSpace,
    categories,
    dense_categories,
    product_rows,
)
from mercer.spaces.realisations.orthant.realisation import OrthantRealisation
from mercer.spaces.sphere import Sphere
from mercer.spaces.spherical import SphericalSpace

Boundary = Literal["reflecting", "absorbing"]
BOUNDARIES = ("reflecting", "absorbing")
Empty = Literal["error", "uniform"]
EMPTY = ("error", "uniform")


@dataclass(frozen=True, repr=False)
class Simplex(SphericalSpace, DistributionSpace):
    """Counts and compositions: rows that are non-negative and not all zero.

    ``x_i -> sqrt(x_i / sum_j x_j)`` puts the multinomial model with its Fisher metric on the
    positive part of the unit sphere; the invariant ``w`` in [0, 1] is the Bhattacharyya coefficient
    of the two distributions and ``2 arccos(w)`` their Fisher distance.

    Sparse matrices stay sparse: the work depends on the non-zero entries, not on the number of columns.

    Parameters
    ----------
    n : int, optional
        Number of categories; by default the number of columns.
    boundary : {None, "reflecting", "absorbing"}
        Behaviour of a diffusion where a category vanishes.  With None it passes to the rest of the
        sphere: kernels are functions of the angle, as in the literature.  A "reflecting" boundary
        preserves mass (Neumann); an "absorbing" one (Dirichlet) removes it, and rows must be positive.
        Heat, Matern and Spectral are then the exact kernels of the family with its boundary.
    empty : {"error", "uniform"}
        What to do with a row of zeros, such as a document without a known word: raise an "error", or
        warn and treat it as the "uniform" distribution, the mean of every symmetric prior.  In a
        sparse matrix such rows are dense: k of them store n k numbers.

    Examples
    --------
    >>> from mercer.spaces import Simplex
    >>> L, R = Simplex().embed(Simplex().check([[1, 1, 0], [4, 0, 0]]))
    >>> (L @ R.T).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    n: int | None = None
    boundary: Boundary | None = None
    empty: Empty = "error"
    widest_angle = 90.0
    separation = "one-sided"

    def __post_init__(self) -> None:
        if self.boundary not in (None, *BOUNDARIES):
            raise ValueError(f"boundary must be None or one of {BOUNDARIES}, got {self.boundary!r}")
        check_choice(self, "empty", EMPTY)

    @property
    def computes_in_double(self) -> bool:  # type: ignore[override]
        """See :class:`Space`."""
        return self.boundary is not None

    @property
    def embedding(self) -> Embedding | None:  # type: ignore[override]
        """See :class:`Space`; with a boundary kernels are not functions of the angle alone."""
        return self if self.boundary is None else None

    def realise(self, law: Law, n: int, normalized: bool = True) -> Any:
        """A function of the angle, or with a boundary of all coordinates: see :meth:`Space.realise`."""
        if self.boundary is None:
            return super().realise(law, n, normalized)
        return OrthantRealisation(self, law, n, normalized, self.boundary == "absorbing")

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Angles between the square roots of compositions; the Fisher distances are twice these.

        Examples
        --------
        >>> from mercer.spaces import Simplex
        >>> Simplex().distances([[1, 0]], [[1, 1], [0, 3]]).round(4)    # pi / 4 and pi / 2
        array([[0.7854, 1.5708]])
        """
        return angles(*self.embed(*self.check_pair(X, Y)))

    def require_unit_vectors(self) -> None:
        if self.boundary is not None:
            raise TypeError(
                f"kernels on {self!r} are not functions of an angle: use Heat, Matern or Spectral, or "
                "Simplex() without a boundary"
            )

    @property
    def whole(self) -> Sphere:
        """The sphere, whose positive part the simplex is."""
        return Sphere()

    def _scattered(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.gamma(0.7, size=shape) + 1e-3

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; categories in another order, and other totals."""
        return lambda X: X[:, rng.permutation(X.shape[1])] * 3.0

    def embed_divergence(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        same = Y is None or Y is X
        first = categories(self._unit_rows(dense_categories(X, "X")), "X")
        if same:
            return product_rows(first, first)
        return product_rows(first, categories(self._unit_rows(dense_categories(Y, "Y")), "Y"))

    def divergence_unit(self, n: int) -> float:
        """16: the squared Fisher distance is four times that of the angle."""
        return 16.0

    def _may_refuse(self, extent: Extent) -> bool:
        return self.boundary == "absorbing" or extent.negative or extent.flattest == 0

    def _completed(self, X: Any, name: str) -> Any:
        """Rows of zeros become uniform, or are refused."""
        empty = row_maxima(X) == 0
        if self.empty == "error":
            refuse_rows(
                empty, name,
                "is all zeros and has no composition; drop it, or take such rows as uniform, with "
                "Simplex(empty='uniform') or, for the kernel TfIdf, TfIdf(empty='uniform')",
            )  # fmt: skip
            return X
        named, count = named_rows(empty, name)
        if not count:
            return X
        verb = "is" if count == 1 else "are"
        warnings.warn(
            f"{named} {verb} all zeros and taken as uniform; Simplex(empty='error') or, for the kernel "
            "TfIdf, TfIdf(empty='error') refuses such rows",
            stacklevel=8,  # the caller of k(X)
        )
        return with_uniform_rows(X, empty, count, name)

    def _check_rows(self, X: Any, name: str) -> None:
        refuse_negative(X, name)
        if self.boundary == "absorbing":
            refuse_rows(
                _has_zeros(X), name,
                "has zeros: it lies on the absorbing boundary, where kernels vanish; add a prior, with "
                "mercer.features.Multinomials(alpha=0.5)",
            )  # fmt: skip

    def _unit_rows(self, X: Any) -> Any:
        return engine_for(X).roots_of_shares(X)


def with_uniform_rows(X: Any, empty: Any, count: int, name: str) -> Any:
    """Rows with ones in place of those that are empty."""
    if not sparse.issparse(X):
        xp = array_namespace(X)
        return xp.where(empty[:, None], xp.ones_like(X), X)
    n = X.shape[1]
    needed, there = count * n * (X.dtype.itemsize + X.indices.dtype.itemsize), available()
    if 3 * needed > there:  # of the rows, their roots and their transpose
        raise MemoryError(
            f"{count} uniform rows of {n} columns in place of rows of zeros of {name} take "
            f"{size_text(needed)} each time they are copied, and {size_text(there)} are available; drop "
            "these rows, or columns"
        )
    starts = np.concatenate([[0], np.cumsum(empty)]) * n
    columns = np.tile(np.arange(n, dtype=X.indices.dtype), count)
    ones = sparse.csr_matrix((np.ones(count * n, dtype=X.dtype), columns, starts), shape=X.shape)
    return X + ones


def _has_zeros(X: Any) -> Any:
    """Tell which rows have an entry that is zero."""
    if sparse.issparse(X):
        return np.diff(X.indptr) - row_any(X, X.data == 0) < X.shape[1]
    return array_namespace(X).any(X == 0.0, axis=1)


@dataclass(frozen=True, repr=False)
class Counts(RowSpace):
    """Rows of counts; unlike in :class:`Simplex`, the total may be zero.

    For estimates with a prior, which is also the estimate for a row without counts.
    """

    n: int | None = None
    least_dimension = 2

    def _check_rows(self, X: Any, name: str) -> None:
        refuse_negative(X, name)
