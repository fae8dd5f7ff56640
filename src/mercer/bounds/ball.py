"""The smallest ball that encloses points in feature space, from their Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import OneClassSVM

from mercer._arrays import on_cpu
from mercer.rkhs import distances

Array = NDArray[np.float64]

#: Largest relative gap between the two bounds on the squared radius.
GAP = 1e-6
#: Tolerance of libsvm, which stores the matrix in single precision and so leaves a gap near 1e-7.
_LIBSVM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class EnclosingBall:
    """A ball that encloses all points, with bounds on the smallest radius.

    The smallest squared radius lies between ``lower`` and ``upper``; the ball around
    ``sum_i weights_i phi(x_i)`` with the squared radius ``upper`` contains all points.
    """

    lower: float
    upper: float
    weights: Array = field(repr=False, compare=False)

    @property
    def radius(self) -> float:
        """Radius of the ball."""
        return float(np.sqrt(self.upper))


def enclosing_ball(K: ArrayLike) -> EnclosingBall:
    """Smallest ball that encloses the points with Gram matrix K.

    ``R^2 = max_a sum_i a_i K_ii - a'Ka`` over ``a_i >= 0``, ``sum_i a_i = 1``.  Every such ``a`` gives a
    lower bound, and the farthest point from the centre ``sum_i a_i phi(x_i)`` an upper bound.

    The objective equals ``sum_ij a_i a_j |phi_i - phi_j|^2 / 2``, which is that of a one-class SVM with
    the matrix ``-|phi_i - phi_j|^2 / 2``; libsvm solves it.  The bounds differ by less than 1e-6 of R^2
    (otherwise an error is raised), apart from rounding errors of K.  The cost is that of a Cholesky
    decomposition, which checks that K is positive semidefinite, and of libsvm's steps, each linear in m.

    Parameters
    ----------
    K : array of shape (m, m)

    References
    ----------
    .. [1] D. Tax, R. Duin, "Support vector data description", Machine Learning 54, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.bounds import enclosing_ball
    >>> X = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 1.0]])    # the first two span a diameter
    >>> round(enclosing_ball(X @ X.T).radius, 6)
    2.0
    """
    squares = distances(K)
    _check_positive_semidefinite(np.asarray(on_cpu(K)))
    squares *= squares
    size, scale = len(squares), squares.max()
    if scale == 0:
        return EnclosingBall(0.0, 0.0, np.full(size, 1 / size))
    squares *= -0.5 / scale
    weights = _one_class_weights(squares)
    products = squares @ weights
    mean = float(weights @ products)
    lower, upper = -mean, float(mean - 2 * products.min())
    if not upper - lower <= GAP * upper:
        raise ArithmeticError(
            f"the squared radius of the enclosing ball is only known to {(upper - lower) / upper:.1e}"
        )
    return EnclosingBall(float(lower * scale), float(upper * scale), weights)


def _one_class_weights(matrix: Array) -> Array:
    """Point of the simplex that minimises the quadratic form."""
    size = len(matrix)
    machine = OneClassSVM(kernel="precomputed", nu=1 / size, tol=_LIBSVM_TOLERANCE).fit(matrix)
    weights = np.zeros(size)
    weights[machine.support_] = machine.dual_coef_[0]
    return weights / weights.sum()


def _check_positive_semidefinite(K: NDArray) -> None:
    """Raise if K has a negative eigenvalue that rounding errors of its entries do not explain."""
    precision = np.finfo(K.dtype).eps if K.dtype.kind == "f" else np.finfo(float).eps
    shifted = K.astype(float)
    shifted[np.diag_indices_from(shifted)] += 1000 * precision * len(K) * max(np.diag(K).max(), 1e-300)
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the Gram matrix is not positive semidefinite and has no feature space; "
            "mercer.rkhs.diagnose(K) shows its eigenvalues"
        ) from None
