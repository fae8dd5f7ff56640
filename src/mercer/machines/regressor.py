"""Support vector regression and novelty detection."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer._validation import refuse_complex, refuse_missing
from mercer.machines.points import Points, check_targets, check_weights, open_points
from mercer.machines.program import Array, Program, Solution
from mercer.machines.svm import SupportVectorMachine

#: Decision values this close to zero, relative to the threshold, are on the boundary.
_BOUNDARY = 1e-9


class _OneProgram(SupportVectorMachine):
    """A machine of one program: one column of coefficients, one intercept."""

    def _finish(self, points: Points, solution: Solution) -> None:
        support = np.flatnonzero(solution.b)
        self.dual_coef_ = solution.b[None, support]
        self.intercept_ = np.array([solution.bias])
        self.n_support_ = np.array([len(support)], dtype=np.int32)
        self.n_iter_ = max(solution.steps, 1)
        self._keep(points, support)
        self._shorten(points, support)

    def _coefficients(self) -> Array:
        """Coefficients of the support vectors."""
        return self.dual_coef_[0]

    def _decisions(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._values(X) + self.intercept_[0]


class SVR(RegressorMixin, _OneProgram):
    """Support vector regression to a stated duality gap.

    Minimises ``|f|^2 / 2 + sum_i C_i max(0, |y_i - f(x_i) - bias| - epsilon)`` over the kernel's space
    of functions.  The relative duality gap certifies the solution, as in :class:`SVC`.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf", "linear" or "precomputed"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"``.
    C : float
        Weight of the losses.
    epsilon : float
        Errors up to this cost nothing.
    scale : float, optional
        Scale the kernel so that this is the median similarity of distinct training points; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.  By default the kernel is used as it is.
    tol : float
        Largest relative duality gap.
    warm_start : bool
        Start from the solution of the last fit, as along a path of C on the same rows.
    max_iter : int
        Largest number of steps, -1 for no limit.
    max_memory : float
        Gigabytes for the Gram matrix and its rows.
    compress : int, optional
        Number of landmarks that replace the support vectors in predictions, which then take that many
        kernel values per row; ``compression_error_`` bounds the change.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_
        As in :class:`sklearn.svm.SVR`.
    dual_gap_, dual_gaps_, objective_, converged_, certificate_, kernel_
        As in :class:`SVC`; there is one gap.
    landmarks_, landmark_coef_
        Expansion used in predictions, with ``compress``.
    compression_error_ : float
        Largest difference of values from those of all support vectors, at points whose ``k(x, x)`` is no
        larger than theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import SVR
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(Gaussian(), C=10, epsilon=0.01, tol=1e-6).fit(x, np.sin(x[:, 0]))
    >>> model.predict([[np.pi / 2]]).round(2), model.dual_gap_ <= 1e-6
    (array([1.]), True)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        scale: float | None = None,
        tol: float = 1e-3,
        warm_start: bool = False,
        max_iter: int = -1,
        max_memory: float = 4.0,
        compress: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.scale = scale
        self.tol = tol
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.compress = compress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : points, or their Gram matrix if the kernel is precomputed
        y : array of shape (m,)
        sample_weight : array of shape (m,), optional
            Factors of C.
        """
        self._check_options(C=self.C)
        if not isinstance(self.epsilon, int | float | np.number) or not 0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon must be zero or a positive number, got {self.epsilon!r}")
        refuse_complex(y, "y")
        refuse_missing(y)
        points, y = open_points(self, X, y, sample_weight)
        y = column_or_1d(check_targets(y, len(points)), warn=True)
        boxes = self.C * _weights(points, sample_weight)
        program = Program(p=y, lower=-boxes, upper=boxes, epsilon=float(self.epsilon))
        self._finish(points, self._solve(points, [program], [None])[0])
        return self

    def predict(self, X: Any) -> Array:
        """Predicted values."""
        return self._decisions(X)


class OneClassSVM(OutlierMixin, _OneProgram):
    """Novelty detection: a region that holds most of the points, to a stated duality gap.

    Minimises ``|f|^2 / 2 - nu rho sum_i w_i + sum_i w_i max(0, rho - f(x_i))``; points with ``f(x) >=
    rho`` are inliers.  At the optimum at most a fraction nu of the training points is outside, and at
    least that fraction are support vectors.  The relative duality gap certifies the solution, as in
    :class:`SVC`.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf", "linear" or "precomputed"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"``.
    nu : float
        Between 0 and 1.
    scale : float, optional
        Scale the kernel so that this is the median similarity of distinct training points; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.  By default the kernel is used as it is.
    tol : float
        Largest relative duality gap.
    max_iter : int
        Largest number of steps, -1 for no limit.
    max_memory : float
        Gigabytes for the Gram matrix and its rows.
    compress : int, optional
        Number of landmarks that replace the support vectors in predictions, which then take that many
        kernel values per row; ``compression_error_`` bounds the change.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, offset_, n_iter_
        As in :class:`sklearn.svm.OneClassSVM`.
    dual_gap_, dual_gaps_, objective_, converged_, certificate_, kernel_
        As in :class:`SVC`; there is one gap.
    landmarks_, landmark_coef_
        Expansion used in predictions, with ``compress``.
    compression_error_ : float
        Largest difference of decision values from those of all support vectors, at points whose
        ``k(x, x)`` is no larger than theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = OneClassSVM(Gaussian(), nu=0.1, tol=1e-8).fit(X)
    >>> model.predict([[0, 0], [4, 4]]), bool((model.predict(X) == -1).mean() <= 0.1)
    (array([ 1, -1]), True)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        *,
        scale: float | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_memory: float = 4.0,
        compress: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.compress = compress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : points, or their Gram matrix if the kernel is precomputed
        y : ignored
        sample_weight : array of shape (m,), optional
            Weights of the points.
        """
        self._check_options()
        if not isinstance(self.nu, int | float | np.number) or not 0 < self.nu <= 1:
            raise ValueError(f"nu must be above 0 and at most 1, got {self.nu!r}")
        points, _ = open_points(self, X, weights=sample_weight)
        boxes = _weights(points, sample_weight)
        # As libsvm's, the start fills boxes one by one; the sum of the coefficients stays what it has.
        filled = np.cumsum(boxes) - boxes
        b = np.clip(self.nu * boxes.sum() - filled, 0.0, boxes)
        zeros = np.zeros_like(boxes)
        program = Program(p=zeros, lower=zeros, upper=boxes, total=math.fsum(b))
        solution = self._solve(points, [program], [None], start=b)[0]
        self._finish(points, solution)
        self.offset_ = -self.intercept_
        return self

    def decision_function(self, X: Any) -> Array:
        """``f(x) - rho``: positive for inliers."""
        return self._decisions(X)

    def score_samples(self, X: Any) -> Array:
        """``f(x)``: higher for points nearer to the others."""
        return self._decisions(X) - self.intercept_[0]

    def predict(self, X: Any) -> Any:
        """1 for inliers, those on the boundary included, -1 for outliers."""
        decisions = self._decisions(X)
        # Support vectors inside their boxes are on the boundary, but for rounding.
        return np.where(decisions >= -_BOUNDARY * abs(self.intercept_[0]), 1, -1)


def _weights(points: Points, sample_weight: Any) -> Array:
    weights = check_weights(len(points), sample_weight)
    if not weights.any():
        raise ValueError("all weights are zero; at least one row must have a positive one")
    return weights
