"""Kernel ridge regression: exact, along a path, leave-one-out, and beyond memory."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dtrtri
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, is_on_device, is_single, on_cpu, placed, taken, to_double
from mercer._validation import check_positive, is_whole, refuse_complex, refuse_missing
from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels.base import BLOCK, Kernel
from mercer.machines.certificate import NO_CERTIFICATE, rounded_up
from mercer.machines.compression import check_compress, compressed
from mercer.machines.conjugate import conjugate_gradients
from mercer.machines.pivots import NystroemFactor, Preconditioner, pivoted_cholesky
from mercer.machines.points import (
    Points,
    check_points,
    check_targets,
    check_weights,
    open_points,
    products,
)
from mercer.machines.program import Array

#: Largest number of columns of the factor that preconditions conjugate gradients, and its share of
#: memory.
_RANK, _PART = 1000, 0.5
#: Square matrices that are held at a time: by a factorisation, with its inverse, by a decomposition.
_FACTOR, _INVERSE, _DECOMPOSITION = 1, 2, 4
#: Rounding of a level times a number of rows.
_SLACK = 1e-9
#: Attributes that not every fit has.
_OPTIONAL = (
    "loo_residuals_", "loo_predictions_", "_factor", "_roots",
    "landmarks_", "landmark_coef_", "compression_error_",
)  # fmt: skip
_TINY, _EPS = 1e-300, float(np.finfo(float).eps)


@dataclass(frozen=True)
class RidgePath:
    """Solutions for several ridges from one decomposition.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
    dual_coef : array of shape (n_alphas, m) or (n_alphas, m, p)
    loo_residuals : array of the same shape
        ``y_i`` minus the prediction for row i without it.
    weights : array of shape (m,)
        Weight of each row.
    """

    alphas: Array
    dual_coef: Array
    loo_residuals: Array
    weights: Array

    @property
    def best(self) -> float:
        """The ridge with the smallest weighted mean square of leave-one-out residuals."""
        residuals = self.loo_residuals.reshape(len(self.alphas), len(self.weights), -1)
        return float(self.alphas[np.argmin(self.weights @ (residuals**2).sum(axis=2).T)])


class KernelRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Ridge regression in the kernel's space of functions, with a stated error.

    Minimises ``sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2``; the solution is
    ``f = sum_i a_i k(x_i, .)`` with ``(K + alpha / w) a = y``.  For any a with residual
    ``r = sqrt(w) (y - (K + alpha / w) a)`` the prediction at x is within
    ``|r| sqrt(k(x, x)) / (2 sqrt(alpha))`` of the exact one.

    Cost: a Cholesky factorisation in place of the Gram matrix if it fits into ``max_memory``.
    Otherwise, conjugate gradients on products with the Gram matrix, which is never stored,
    preconditioned by a randomly pivoted partial Cholesky factor.

    As in scikit-learn, f has no constant and is shrunk towards zero: centre targets that are far from
    zero, with :class:`sklearn.compose.TransformedTargetRegressor`, or add a constant to the kernel.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf", "linear" or "precomputed"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"``.
    alpha : float
        Weight of the squared norm.
    scale : float, optional
        Scale the kernel so that this is the median similarity of distinct training points; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.  By default the kernel is used as it is.
    leave_one_out : bool
        Compute the prediction of each row without it, and keep what :meth:`predict_interval` needs:
        ``8 m^2`` bytes.
    tol : float
        Largest error of predictions by conjugate gradients, in standard deviations of each output.
    max_iter : int
        Largest number of iterations of conjugate gradients.
    max_memory : float
        Gigabytes for the factor of the Gram matrix, or for the preconditioner.
    random_state : int
        Seed of the pivots.
    compress : int, optional
        Number of landmarks that replace the training points in predictions, which then take that many
        kernel values per row; ``compression_error_`` bounds the change.

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, p)
    X_fit_ : the training points
    kernel_ : Kernel
        The kernel, with what it learnt from the training points.
    residual_ : float
        Largest length of the residual r, over all outputs.
    certificate_ : str
        What the residual says about predictions at the training points, rounding included.
    converged_ : bool
        Whether predictions are as accurate as ``tol`` requires.
    n_iter_ : int
        Iterations of conjugate gradients; 1 for a direct solution.
    loo_residuals_ : array like y
        ``y_i`` minus the prediction for row i without it, with ``leave_one_out=True``.
    loo_predictions_ : array like y
        Prediction for each row without it.
    landmarks_, landmark_coef_
        Expansion used in predictions, with ``compress``.
    compression_error_ : float
        Largest difference of predictions from those with all training points, at points whose ``k(x,
        x)`` is no larger than theirs.

    References
    ----------
    .. [1] R. Barber, E. Candes, A. Ramdas, R. Tibshirani, "Predictive inference with the jackknife+",
       Annals of Statistics 49, 2021.
    .. [2] Y. Chen, E. Epperly, J. Tropp, R. Webber, "Randomly pivoted Cholesky", 2024.
    .. [3] E. Epperly, J. Tropp, R. Webber, "Embrace rejection", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import KernelRidge
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 6, size=(100, 1))
    >>> y = np.sin(x[:, 0]) + rng.normal(scale=0.1, size=100)
    >>> model = KernelRidge(Gaussian(), alpha=0.1, leave_one_out=True).fit(x, y)
    >>> model.predict([[np.pi / 2]]).round(1)
    array([1.])
    >>> low, high = model.predict_interval([[np.pi / 2]], level=0.9)
    >>> bool(low[0] < 1 < high[0])
    True
    >>> model.certificate_  # doctest: +ELLIPSIS
    'predictions are within ...e-1... of the exact ones'
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        *,
        scale: float | None = None,
        leave_one_out: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_memory: float = 4.0,
        random_state: int = 0,
        compress: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.scale = scale
        self.leave_one_out = leave_one_out
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.random_state = random_state
        self.compress = compress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : points, or their Gram matrix if the kernel is precomputed
        y : array of shape (m,) or (m, p)
        sample_weight : array of shape (m,), optional
        """
        points, Y, roots = self._open(X, y, sample_weight)
        self.n_iter_, self.converged_ = 1, True
        for name in _OPTIONAL:  # of an earlier fit
            self.__dict__.pop(name, None)
        matrices = _INVERSE if self.leave_one_out else _FACTOR
        direct = points.precomputed or self._fits(points, matrices)
        if self.leave_one_out and not direct:
            raise self._too_large(points, "leave_one_out", matrices)
        try:
            c, r = (self._solve_directly if direct else self._iterate)(points, Y, roots)
        except LinAlgError:
            raise self._not_definite(self.alpha) from None
        self.X_fit_ = on_cpu(points.X)
        self.dual_coef_ = self._shaped(c * roots[:, None])
        if self.compress is not None:
            self.landmarks_, self.landmark_coef_, self.compression_error_ = compressed(
                points.kernel, points.X, self.dual_coef_, self.compress
            )
        in_double = not direct and is_on_device(points.X)
        self._state(points, Y, roots, c, r, _EPS if in_double else _precision(points.X))
        return self

    def _not_definite(self, alpha: float) -> ValueError:
        return ValueError(
            f"the Gram matrix plus alpha={alpha:g} is not positive definite: raise alpha, or use a "
            "kernel that is positive semidefinite"
        )

    def _fits(self, points: Points, matrices: int) -> bool:
        return 8.0 * matrices * len(points) ** 2 <= 1e9 * self.max_memory

    def _too_large(self, points: Points, what: str, matrices: int) -> MemoryError:
        return MemoryError(
            f"{what} needs a factorisation of {len(points)} rows, "
            f"{8e-9 * matrices * len(points) ** 2:.3g} GB, but max_memory is {self.max_memory} GB"
        )

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Points, Array, Array]:
        """Points, targets as columns, and square roots of the weights."""
        check_positive(self, "alpha", "tol", "max_memory")
        check_compress(self.compress, self.kernel)
        if not is_whole(self.max_iter) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number of at least 1, got {self.max_iter!r}")
        refuse_complex(y, "y")
        refuse_missing(y)
        points, y = open_points(self, X, y, sample_weight)
        Y = check_targets(y, len(points))
        self._one_output = Y.ndim == 1
        self.kernel_ = points.kernel
        return points, Y.reshape(len(Y), -1), np.sqrt(check_weights(len(points), sample_weight))

    def _shaped(self, columns: Array) -> Array:
        return columns[..., 0] if self._one_output else columns

    def _solve_directly(self, points: Points, Y: Array, roots: Array) -> tuple[Array, Array]:
        """Solution of the scaled system, and its residual.

        The factor takes one triangle of the Gram matrix, and the residual is computed from the other.
        """
        K = _scaled_gram(points, roots)
        main = np.diag_indices_from(K)
        K[main] += self.alpha
        diagonal = K[main].copy()
        factor, _ = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
        scaled = np.asfortranarray(Y * roots[:, None])
        c = cho_solve((factor, True), scaled, check_finite=False)
        own = factor[main].copy()
        factor[main] = diagonal
        r = scaled - dsymm(1.0, factor, c)
        factor[main] = own
        if self.leave_one_out:
            residuals = _left_out(points, Y, c, roots, _diagonal_of_inverse(factor))
            self.loo_residuals_ = self._shaped(residuals)
            self.loo_predictions_ = self._shaped(Y - residuals)
            self._factor, self._roots = factor, roots
        return c, r

    def _iterate(self, points: Points, Y: Array, roots: Array) -> tuple[Array, Array]:
        """Solution of the scaled system by conjugate gradients, and its residual."""
        scaled = Y * roots[:, None]
        diagonal = points.diagonal()
        double = replace(points, X=to_double(points.X)) if is_on_device(points.X) else points
        precondition = Preconditioner(self._factor_of(points, diagonal, roots), self.alpha)
        weights = placed(roots[:, None], points.X)

        def operator(V: Any, points: Points = points) -> Any:
            return weights * points.times(weights * V) + self.alpha * V

        # Predictions are off by |r| sqrt(k(x, x)) / (2 sqrt(alpha)) at most.
        spread = scaled.std(axis=0)
        spread[spread == 0] = 1.0
        goals = 2 * self.tol * spread * np.sqrt(self.alpha / max(float(diagonal.max()), _TINY))
        c, r, self.n_iter_ = conjugate_gradients(
            operator, placed(scaled, points.X), precondition, goals, self.max_iter,
            partial(operator, points=double),
        )  # fmt: skip
        c, r = on_cpu(c), on_cpu(r)
        self.converged_ = bool((np.linalg.norm(r, axis=0) <= goals).all())
        return c, r

    def _factor_of(self, points: Points, diagonal: Array, roots: Array) -> Any:
        """A factor of the scaled Gram matrix, approximately, where the points are."""
        rng = np.random.default_rng(self.random_state)
        device = is_on_device(points.X)
        bytes_of_row = (4 if device and is_single(points.X) else 8) * len(points)
        rank = max(1, int(min(_RANK, _PART * 1e9 * self.max_memory / bytes_of_row)))
        if device:
            factor = NystroemFactor(points, rank, rng)(points.X)
        else:
            factor, _ = pivoted_cholesky(points, diagonal, rank, rng)
        factor *= placed(roots.astype(on_cpu(factor[:0]).dtype)[:, None], factor)
        return factor

    def _state(
        self, points: Points, Y: Array, roots: Array, c: Array, r: Array, precision: float
    ) -> None:
        """Say how exact predictions are; the residual was computed to a relative precision."""
        self.residual_ = float(np.linalg.norm(r, axis=0).max())
        if points.indefinite:
            self.certificate_ = NO_CERTIFICATE
            warnings.warn(
                f"the Gram matrix of {points.kernel!r} has negative eigenvalues: the system is solved, "
                "but no residual certifies predictions",
                IndefiniteKernelWarning,
                stacklevel=3,
            )
            return
        features = np.sqrt(np.maximum(points.diagonal(), 0.0))
        sizes = (features * roots) @ np.abs(c)
        # Entries of K are at most the product of two lengths, which bounds the rounding of sums.
        rounding = precision * (
            np.linalg.norm(features * roots) * sizes
            + self.alpha * np.linalg.norm(c, axis=0)
            + np.linalg.norm(Y * roots[:, None], axis=0)
        )
        lengths = (np.linalg.norm(r, axis=0) + rounding) / (2 * np.sqrt(self.alpha))
        errors = features.max() * (lengths + _precision(points.X) * sizes)
        error = float(errors.max()) + getattr(self, "compression_error_", 0.0)
        self.certificate_ = f"predictions are within {rounded_up(error)} of the exact ones"
        if not self.converged_:
            warnings.warn(
                f"KernelRidge stopped after {self.n_iter_} iterations: {self.certificate_}, not as near "
                f"as tol={self.tol:g} asks for; raise max_iter, max_memory or alpha",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict(self, X: Any) -> Array:
        """Predicted values, of shape (m,) or (m, p)."""
        check_is_fitted(self)
        X, _ = check_points(self, X)
        if isinstance(self.kernel_, str):
            return X @ self.dual_coef_
        if hasattr(self, "landmarks_"):
            return products(self.kernel_, X, self.landmarks_, self.landmark_coef_)
        return products(self.kernel_, X, self.X_fit_, self.dual_coef_)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Jackknife+ intervals for new observations, of one output.

        They contain a new observation with probability at least ``2 level - 1`` whatever the
        distribution, if rows are exchangeable, and with probability of about ``level`` in practice.
        They are computed from the m leave-one-out predictions, which follow from the one
        factorisation.

        Parameters
        ----------
        X : points, or their Gram matrix with the training points
        level : float
            Between 0 and 1.

        Returns
        -------
        low, high : arrays of shape (m,)
            Infinite if the training rows are too few for the level.
        """
        check_is_fitted(self)
        if not (hasattr(self, "loo_residuals_") and self._one_output):
            raise ValueError("predict_interval needs a fit with leave_one_out=True and one output")
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        X, _ = check_points(self, X)
        used = self._roots > 0
        rank = math.ceil(level * (used.sum() + 1) - _SLACK)
        size = max(1, BLOCK // len(used))
        parts = [slice(start, start + size) for start in range(0, count(X), size)]
        ends = [self._interval(taken(X, part), used, rank) for part in parts]
        low, high = (np.concatenate(end) for end in zip(*ends, strict=True))
        return low, high

    def _interval(self, X: Any, used: Any, rank: int) -> tuple[Array, Array]:
        """Ends of the intervals of some points: the rank-th of the leave-one-out ends."""
        block = X if isinstance(self.kernel_, str) else Points(self.kernel_, X).with_others(self.X_fit_)
        if rank > used.sum():
            return np.full(len(block), -np.inf), np.full(len(block), np.inf)
        # Without row i, f(x) falls by its residual times the weight that it has on f(x).
        influence = cho_solve((self._factor, True), (block * self._roots).T, check_finite=False)[used]
        residuals = self.loo_residuals_[used, None]
        predictions = block @ self.dual_coef_ - influence * (self._roots[used, None] * residuals)
        spread = np.abs(residuals)
        low = np.partition(predictions - spread, len(spread) - rank, axis=0)[len(spread) - rank]
        return low, np.partition(predictions + spread, rank - 1, axis=0)[rank - 1]

    def path(self, X: Any, y: Any, alphas: Any, sample_weight: Any = None) -> RidgePath:
        """Solve for several ridges by one eigendecomposition of the Gram matrix.

        Parameters
        ----------
        X, y, sample_weight
            See :meth:`fit`.
        alphas : sequence of positive floats

        Returns
        -------
        RidgePath

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.machines import KernelRidge
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, size=(100, 1))
        >>> y = np.sin(x[:, 0]) + rng.normal(scale=0.1, size=100)
        >>> KernelRidge().path(x, y, [1e-3, 1e-2, 1e-1, 1.0]).best
        0.1
        """
        ridges = np.asarray(alphas, dtype=float)
        if ridges.ndim != 1 or not len(ridges) or not ((ridges > 0) & (ridges < np.inf)).all():
            raise ValueError(f"alphas must be positive numbers, got {alphas!r}")
        points, Y, roots = self._open(X, y, sample_weight)
        if not points.precomputed and not self._fits(points, _DECOMPOSITION):
            raise self._too_large(points, "path", _DECOMPOSITION)
        values, vectors = eigh(
            _scaled_gram(points, roots), overwrite_a=True, driver="evd", check_finite=False
        )
        values[np.abs(values) < len(values) * _EPS * values[-1]] = 0.0
        if values[0] + ridges.min() <= 0:
            raise self._not_definite(float(ridges.min()))
        rotated = vectors.T @ (Y * roots[:, None])
        inverses = 1 / (values[:, None] + ridges)
        diagonals = np.square(vectors, out=np.empty_like(vectors)) @ inverses
        coefficients, residuals = [], []
        for inverse, diagonal in zip(inverses.T, diagonals.T, strict=True):
            c = vectors @ (inverse[:, None] * rotated)
            coefficients.append(self._shaped(c * roots[:, None]))
            residuals.append(self._shaped(_left_out(points, Y, c, roots, diagonal)))
        return RidgePath(ridges, np.array(coefficients), np.array(residuals), roots**2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


def _scaled_gram(points: Points, roots: Array) -> Array:
    """``sqrt(w_i) K_ij sqrt(w_j)`` in double precision, in memory of its own."""
    K = points.gram()
    if K.dtype != np.float64 or not isinstance(points.kernel, Kernel):  # perhaps the caller's own
        K = np.array(K, dtype=float)
    if (roots != 1).any():
        K *= roots[:, None]
        K *= roots
    return K


def _diagonal_of_inverse(factor: Array) -> Array:
    """Diagonal of ``(L L')^-1``: sums of squares of the columns of the inverse of L."""
    inverse = dtrtri(factor, lower=1)[0]
    sums, size = np.empty(len(inverse)), max(1, BLOCK // len(inverse))
    for start in range(0, len(inverse), size):
        part = np.tril(inverse[start:, start : start + size])  # above the diagonal are entries of K
        sums[start : start + size] = np.einsum("ij,ij->j", part, part)
    return sums


def _left_out(points: Points, Y: Array, c: Array, roots: Array, diagonal: Array) -> Array:
    """Targets minus the predictions for each row without it.

    ``diagonal`` is that of the inverse of the scaled system.  Rows of weight zero are not part of the
    fit anyway.
    """
    used = roots > 0
    residuals = np.empty_like(c)
    residuals[used] = c[used] / (roots * diagonal)[used, None]
    if not used.all():
        unused, a = np.flatnonzero(~used), c * roots[:, None]
        X = taken(points.X, unused)
        residuals[unused] = Y[unused] - (
            X @ a if points.precomputed else products(points.kernel, X, points.X, a)
        )
    return residuals


def _precision(X: Any) -> float:
    """Relative rounding of Gram matrices of these points."""
    return float(np.finfo(np.float32 if is_single(X) else np.float64).eps)
