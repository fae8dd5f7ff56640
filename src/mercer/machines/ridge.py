"""Kernel ridge regression: exact, along a path, without one row, and beyond memory."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dtrtri
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer._validation import check_positive, is_whole, refuse_complex
from mercer.machines.conjugate import conjugate_gradients
from mercer.machines.pivots import Preconditioner, pivoted_cholesky
from mercer.machines.points import Points, check_points, check_weights, open_points, products
from mercer.machines.program import Array

#: Most columns of the factor that preconditions conjugate gradients, and its part of the memory.
_RANK, _PART = 1000, 0.5


@dataclass(frozen=True)
class RidgePath:
    """Solutions for several ridges from one decomposition.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
    dual_coef : array of shape (n_alphas, m) or (n_alphas, m, p)
    loo_residuals : array of the same shape
        ``y_i`` less what is predicted for row i without it.
    """

    alphas: Array
    dual_coef: Array
    loo_residuals: Array

    @property
    def best(self) -> float:
        """The ridge with the least mean square of leave-one-out residuals."""
        squares = (self.loo_residuals**2).reshape(len(self.alphas), -1).mean(axis=1)
        return float(self.alphas[np.argmin(squares)])


class KernelRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Ridge regression in the kernel's space of functions, with a stated error.

    Minimises ``sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2``; the solution is
    ``f = sum_i a_i k(x_i, .)`` with ``(K + alpha / w) a = y``.  For any a with residual
    ``r = sqrt(w) (y - (K + alpha / w) a)`` the prediction at x is within
    ``|r| sqrt(k(x, x)) / (2 sqrt(alpha))`` of the exact one.

    Cost: a Cholesky factorisation while it fits into ``max_memory``.  Beyond that, conjugate gradients
    on products with the Gram matrix, which is never held, preconditioned by a randomly pivoted partial
    Cholesky factor.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf", "linear" or "precomputed"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"``.
    alpha : float
        Weight of the squared norm.
    scale : float, optional
        Scale the kernel to the training points: the median similarity of distinct ones; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.
    leave_one_out : bool
        Compute leave-one-out residuals, and keep what :meth:`predict_interval` needs: ``8 m^2`` bytes.
    tol : float
        Largest error of predictions by conjugate gradients, in standard deviations of y.
    max_iter : int
        Most iterations of conjugate gradients.
    max_memory : float
        Gigabytes for the Gram matrix and its factor, or for the preconditioner.
    random_state : int
        Seed of the pivots.

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, p)
    X_fit_ : the training points
    kernel_ : Kernel
        The kernel, with what it learnt from the training points.
    residual_ : float
        Length of the residual r, the largest of all outputs.
    certificate_ : str
        What the residual says about predictions at the training points, in words.
    converged_ : bool
        Whether predictions are as exact as ``tol`` asks for.
    n_iter_ : int
        Iterations of conjugate gradients; 1 for a direct solution.
    loo_residuals_ : array like y
        ``y_i`` less what is predicted for row i without it, with ``leave_one_out=True``.

    References
    ----------
    Barber, Candes, Ramdas and Tibshirani, "Predictive inference with the jackknife+", 2021.
    Chen, Epperly, Tropp and Webber, "Randomly pivoted Cholesky", 2024.

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
    'predictions are within ...e-14 of the exact ones'
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
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.scale = scale
        self.leave_one_out = leave_one_out
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.random_state = random_state

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
        scaled = Y * roots[:, None]
        if points.precomputed or 16.0 * len(points) ** 2 <= 1e9 * self.max_memory:
            c, r = self._solve_directly(points, scaled, roots)
        else:
            c, r = self._iterate(points, scaled, roots)
        self.X_fit_ = points.X
        self.dual_coef_ = self._shaped(c * roots[:, None])
        self._state(points, r)
        return self

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Points, Array, Array]:
        """Points, targets as columns, and square roots of the weights."""
        check_positive(self, "alpha", "tol", "max_memory")
        if not is_whole(self.max_iter) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}")
        refuse_complex(y, "y")
        points, y = open_points(self, X, y, sample_weight)
        Y = np.asarray(y, dtype=float)
        if Y.shape[0] != len(points) or Y.ndim > 2:
            raise ValueError(f"X has {len(points)} points, and y has the shape {Y.shape}")
        self._one_output = Y.ndim == 1
        self.kernel_ = points.kernel
        return points, Y.reshape(len(Y), -1), np.sqrt(check_weights(points, sample_weight))

    def _shaped(self, columns: Array) -> Array:
        return columns[..., 0] if self._one_output else columns

    def _solve_directly(self, points: Points, Y: Array, roots: Array) -> tuple[Array, Array]:
        """Solution of the scaled system, and its residual."""
        K = _scaled_gram(points, roots)
        ridge = K.copy()
        ridge[np.diag_indices_from(ridge)] += self.alpha
        try:
            factor = cho_factor(ridge, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise ValueError(
                f"the Gram matrix plus alpha={self.alpha} is not positive definite: raise alpha, or use "
                "a kernel that is positive semidefinite"
            ) from None
        c = cho_solve(factor, Y, check_finite=False)
        if self.leave_one_out:
            inverse = np.tril(dtrtri(factor[0], lower=1)[0])
            with np.errstate(divide="ignore", invalid="ignore"):  # rows of weight zero have no residual
                residuals = c / (roots[:, None] * np.einsum("ki,ki->i", inverse, inverse)[:, None])
            self.loo_residuals_ = self._shaped(residuals)
            self._factor = factor[0]
            self._roots = roots
        return c, Y - K @ c - self.alpha * c

    def _iterate(self, points: Points, Y: Array, roots: Array) -> tuple[Array, Array]:
        """Solution by conjugate gradients, and its residual."""
        if self.leave_one_out:
            raise MemoryError(
                f"leave_one_out needs a factorisation of {len(points)} rows, "
                f"{16e-9 * len(points) ** 2:.3g} GB, and max_memory is {self.max_memory} GB"
            )
        diagonal = points.diagonal()
        rank = int(min(_RANK, _PART * 1e9 * self.max_memory / (8 * len(points))))
        factor = pivoted_cholesky(points, diagonal, rank, np.random.default_rng(self.random_state))
        factor *= roots[:, None]
        precondition = Preconditioner(factor, self.alpha)

        def operator(V: Array) -> Array:
            product = products(points.kernel, points.X, None, V * roots[:, None])
            return product * roots[:, None] + self.alpha * V

        # Predictions are off by |r| sqrt(k(x, x)) / (2 sqrt(alpha)) at most.
        goal = self.tol * float(Y.std() or 1.0) * 2 * np.sqrt(self.alpha / diagonal.max())
        c, r, self.n_iter_ = conjugate_gradients(operator, Y, precondition, goal, self.max_iter)
        self.converged_ = bool(np.linalg.norm(r, axis=0).max() <= goal)
        return c, r

    def _state(self, points: Points, r: Array) -> None:
        """Say how exact predictions are."""
        self.residual_ = float(np.linalg.norm(r, axis=0).max())
        largest = np.sqrt(max(float(points.diagonal().max()), 0.0))
        bound = 0.5 * self.residual_ * largest / np.sqrt(self.alpha)
        self.certificate_ = f"predictions are within {bound:.1g} of the exact ones"
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
        return products(self.kernel_, X, self.X_fit_, self.dual_coef_)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Jackknife+ intervals for new observations, of one output.

        They hold a new observation with probability at least ``2 level - 1`` whatever the distribution,
        if rows are exchangeable, and with about the probability ``level`` in practice.  Each is read off
        the m predictions that leave one training row out, which follow from the one factorisation.

        Parameters
        ----------
        X : points, or their Gram matrix with the training points
        level : float
            Between 0 and 1.

        Returns
        -------
        low, high : arrays of shape (m,)
            Infinite if there are too few training rows for the level.
        """
        check_is_fitted(self)
        if not (self.leave_one_out and self._one_output):
            raise ValueError("predict_interval needs leave_one_out=True and one output")
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        X, _ = check_points(self, X)
        block = X if isinstance(self.kernel_, str) else Points(self.kernel_, X).with_others(self.X_fit_)
        centre = block @ self.dual_coef_
        # Without row i, f(x) falls by its residual times the weight that it has on f(x).
        influence = cho_solve((self._factor, True), (block * self._roots).T, check_finite=False)
        used = self._roots > 0
        residuals = self.loo_residuals_[used]
        shifts = influence[used] * (self._roots[used] * residuals)[:, None]
        spread = np.abs(residuals)[:, None]
        rows = len(residuals)
        rank = int(np.ceil(level * (rows + 1)))
        if rank > rows:
            return np.full(len(centre), -np.inf), np.full(len(centre), np.inf)
        low = np.sort(centre - shifts - spread, axis=0)[rows - rank]
        return low, np.sort(centre - shifts + spread, axis=0)[rank - 1]

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
        if ridges.ndim != 1 or not ((ridges > 0) & (ridges < np.inf)).all():
            raise ValueError(f"alphas must be positive numbers, got {alphas!r}")
        points, Y, roots = self._open(X, y, sample_weight)
        values, vectors = eigh(_scaled_gram(points, roots), overwrite_a=True, check_finite=False)
        rotated = vectors.T @ (Y * roots[:, None])
        coefficients, residuals = [], []
        for ridge in ridges:
            inverse = 1 / (np.maximum(values, 0.0) + ridge)
            c = vectors @ (inverse[:, None] * rotated)
            with np.errstate(divide="ignore", invalid="ignore"):
                residuals.append(self._shaped(c / (roots * (vectors**2 @ inverse))[:, None]))
            coefficients.append(self._shaped(c * roots[:, None]))
        return RidgePath(ridges, np.array(coefficients), np.array(residuals))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


def _scaled_gram(points: Points, roots: Array) -> Array:
    """``sqrt(w_i) K_ij sqrt(w_j)`` in double precision."""
    K = np.array(points.gram(), dtype=float)
    K *= roots[:, None]
    K *= roots
    return K
