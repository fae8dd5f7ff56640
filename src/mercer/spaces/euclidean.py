"""Flat space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._arrays import constant_rows, squared_lengths
from mercer._validation import refuse_rows
from mercer.profiles import Separation
from mercer.spaces.base import RadialSpace
from mercer.spaces.sphere import Sphere


@dataclass(frozen=True, repr=False)
class Euclidean(RadialSpace):
    """Rows of R^n as they are; the invariant is the squared distance.

    ``|x - y|^2 = (x, |x|^2, 1) . (-2 y, 1, |y|^2)``, taken about the mean of the second argument's
    rows (dense rows only) so that data far from the origin keep their digits.

    Parameters
    ----------
    n : int, optional
        Dimension; by default the number of columns.

    Examples
    --------
    >>> from mercer.spaces import Euclidean
    >>> L, R = Euclidean().embed(Euclidean().check([[0.0, 0.0], [3.0, 4.0]]))
    >>> L @ R.T
    array([[ 0., 25.],
           [25.,  0.]])
    """

    n: int | None = None

    @property
    def separation(self) -> Separation:
        """See :class:`RadialSpace`."""
        return "invariant"

    def _check_rows(self, X: Any, name: str) -> None:
        with np.errstate(over="ignore"):
            squares = squared_lengths(X)
        bad = ~array_namespace(squares).isfinite(squares)
        refuse_rows(bad, name, "is so long that its square overflows; rescale the rows")

    def self_invariant(self, X: Any) -> Any:
        """Zero: see :meth:`RadialSpace.self_invariant`."""
        return constant_rows(X, 0.0)

    def require_vectors(self) -> None:
        """See :meth:`Space.require_vectors`."""

    def directions(self) -> Sphere:
        """See :meth:`Space.directions`."""
        return Sphere()

    def of_table(self) -> Sphere:
        """See :meth:`Space.of_table`."""
        return Sphere()

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Augment rows with their squared lengths; see :meth:`RadialSpace.embed`."""
        Y = X if Y is None else Y
        if sparse.issparse(X) or sparse.issparse(Y):
            X, Y = sparse.csr_matrix(X), sparse.csr_matrix(Y)
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
