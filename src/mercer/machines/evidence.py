"""Gaussian processes by products with the Gram matrix: evidence, gradient, predictive deviations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer._arrays import count, is_single, number, taken, to_double
from mercer._validation import is_number, is_whole
from mercer.kernels.base import Kernel
from mercer.machines.conjugate import conjugate_gradients
from mercer.machines.pivots import Preconditioner, pivoted_cholesky
from mercer.machines.points import Points, check_targets, learnt_kernel, products
from mercer.machines.program import Array

#: Columns of the preconditioning factor, and largest numbers of Lanczos steps and of iterations of
#: conjugate gradients.
_RANK, _STEPS, _ITERATIONS = 500, 100, 1000
#: Relative residual of linear systems, change of a sum of logarithms that ends the Lanczos method in
#: units of the number of rows, and step of logarithms of hyperparameters.
_RESIDUAL, _CHANGE, _STEP = 1e-8, 1e-10, 1e-4
#: New points at a time.
_BLOCK = 256


@dataclass(frozen=True)
class Evidence:
    """The logarithm of the evidence, and its gradient, with standard errors.

    Attributes
    ----------
    value, standard_error : float
    gradient, gradient_errors : arrays of shape (1 + n,)
        With respect to the logarithm of ``alpha`` and ``theta`` of the kernel.
    """

    value: float
    standard_error: float
    gradient: Array
    gradient_errors: Array


@dataclass(frozen=True, eq=False)
class _Approximation:
    """``P = F F' + alpha``: its roots and its determinant."""

    basis: Array
    values: Array
    alpha: float

    @classmethod
    def of(cls, F: Array, alpha: float) -> _Approximation:
        values, vectors = eigh(F.T @ F)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        return cls(F @ (vectors[:, kept] / np.sqrt(values[kept])), values[kept], alpha)

    def power(self, exponent: float, V: Array) -> Array:
        """``P^exponent V``."""
        outside = self.alpha**exponent
        inside = (self.values + self.alpha) ** exponent - outside
        return outside * V + self.basis @ (inside[:, None] * (self.basis.T @ V))

    @property
    def log_determinant(self) -> float:
        rest = len(self.basis) - len(self.values)
        return float(np.log(self.values + self.alpha).sum() + rest * np.log(self.alpha))


def log_evidence(
    kernel: Kernel, X: Any, y: Any, alpha: float, *, n_probes: int = 16, random_state: int = 0
) -> Evidence:
    """Logarithm of the evidence of a Gaussian process with noise of variance ``alpha``.

    ``log p(y) = -(y'(K + alpha)^-1 y + log det(K + alpha) + m log 2 pi) / 2``.  The linear system is
    solved by conjugate gradients.  With P, a randomly pivoted partial Cholesky factor of K plus alpha,
    ``log det(K + alpha) = log det P + tr log(P^-1/2 (K + alpha) P^-1/2)``, whose last term is small
    and is estimated by the Lanczos method from random signs; so are the traces of the gradient.  The
    Gram matrix is never stored: memory is about 1500 numbers per row.  100 000 rows of 8 columns took
    nine minutes of processor time and 1.4 GB in total, 20 000 rows 14 seconds on two processors.

    Parameters
    ----------
    kernel : Kernel
        It learns from X and y as in :class:`KernelRidge`.
    X : points
    y : array of shape (m,)
    alpha : float
        Variance of the noise: the ``alpha`` of :class:`KernelRidge`, whose predictions are the means of
        the process.
    n_probes : int
        Number of random vectors, at least 2; errors shrink with its square root.
    random_state : int
        Seed of the pivots and vectors.

    Returns
    -------
    Evidence

    References
    ----------
    .. [1] S. Ubaru, J. Chen, Y. Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature",
       SIAM Journal on Matrix Analysis and Applications 38, 2017.
    .. [2] J. Wenger et al., "Preconditioning for scalable Gaussian process hyperparameter
       optimization", ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import log_evidence
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 6, size=(300, 1))
    >>> y = np.sin(x[:, 0]) + rng.normal(scale=0.1, size=300)
    >>> found = [log_evidence(Gaussian(), x, y, alpha) for alpha in (0.001, 0.01, 0.1)]
    >>> max(found, key=lambda evidence: evidence.value) is found[1]
    True
    """
    X, alpha = _check(kernel, X, alpha)
    if not is_whole(n_probes) or n_probes < 2:
        raise ValueError(f"n_probes must be a whole number of at least 2, got {n_probes!r}")
    m, rng = count(X), np.random.default_rng(random_state)
    targets = check_targets(y, m)
    if targets.ndim != 1:
        raise ValueError(f"y has shape {targets.shape}; one target for each point is needed")
    kernel = learnt_kernel(kernel, None, X, y)
    points = Points(kernel, X)
    F = _factor(points, rng)
    P = _Approximation.of(F, alpha)

    operator = _regular(points, alpha)
    signs = rng.choice([-1.0, 1.0], size=(m, n_probes))
    logs = _log_forms(lambda V: P.power(-0.5, operator(P.power(-0.5, V))), signs)
    size = float(np.abs(targets).max()) or 1.0  # squares must neither overflow nor vanish on the way
    right = np.column_stack([targets / size, P.power(0.5, signs)])
    goals = _RESIDUAL * np.maximum(np.linalg.norm(right, axis=0), 1e-300)
    solved, left, _ = conjugate_gradients(operator, right, Preconditioner(F, alpha), goals, _ITERATIONS)
    worst = float((np.linalg.norm(left, axis=0) / goals).max())
    if worst > 1 + 1e-9:
        warnings.warn(
            f"conjugate gradients ended after {_ITERATIONS} iterations with a relative residual of "
            f"{_RESIDUAL * worst:.1g}: the evidence is less accurate than its standard error says; "
            "raise alpha",
            ConvergenceWarning,
            stacklevel=2,
        )
    a, inverse, probes = solved[:, :1], solved[:, 1:], P.power(-0.5, signs)
    fit = float(right[:, 0] @ a[:, 0]) * size * size
    value = -0.5 * (fit + P.log_determinant + logs.mean() + m * np.log(2 * np.pi))
    both = np.column_stack([a, probes])
    # E[(A^-1 g) . dA (P^-1 g)] = tr(A^-1 dA) for g of covariance P.
    slopes = [alpha * both, *(_slope(kernel, X, both, j) for j in range(len(kernel.theta)))]
    fits = np.array([float(a[:, 0] @ slope[:, 0]) * size * size for slope in slopes])
    if not np.isfinite([fit, *fits]).all():
        row = int(np.abs(targets).argmax())
        raise ValueError(f"the evidence overflows: row {row} of y is {targets[row]:g}; rescale y")
    traces = np.array([(inverse * slope[:, 1:]).sum(axis=0) for slope in slopes])
    return Evidence(
        float(value), 0.5 * _error(logs), 0.5 * (fits - traces.mean(axis=1)),
        np.array([0.5 * _error(trace) for trace in traces]),
    )  # fmt: skip


def predictive_std(
    kernel: Kernel, X: Any, new: Any, alpha: float, *, tol: float = 1e-6, random_state: int = 0
) -> Array:
    """Standard deviations of a Gaussian process at new points, given noisy values at others.

    ``s(x)^2 = k(x, x) - k_x' (K + alpha)^-1 k_x``, of the process itself: for observations add alpha.
    The system is solved by conjugate gradients, with a residual r that makes ``s(x)^2`` too large by
    at most ``|r|^2 / alpha``, and never too small; if 1000 iterations do not reach ``tol``, a warning
    says how large that is.  The Gram matrix is never stored.

    Parameters
    ----------
    kernel : Kernel
        It learns from X as in :class:`KernelRidge`; what depends on targets must have been learnt
        before.
    X : points
        Points of the values; the values themselves are not needed.
    new : points
    alpha : float
        Variance of the noise, see :func:`log_evidence`.
    tol : float
        Largest error of ``s(x)^2``, relative to ``k(x, x)``.
    random_state : int
        Seed of the pivots.

    Returns
    -------
    array of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import predictive_std
    >>> x = np.linspace(0, 1, 100)[:, None]
    >>> predictive_std(Gaussian(0.2), x, np.array([[0.5], [1.5], [9.0]]), 0.01).round(2)
    array([0.03, 0.99, 1.  ])
    """
    X, alpha = _check(kernel, X, alpha)
    new = _in_double(new)
    if not 0 < tol < 1:
        raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
    kernel = learnt_kernel(kernel, None, X, None)
    points = Points(kernel, X)
    precondition = Preconditioner(_factor(points, np.random.default_rng(random_state)), alpha)
    operator, parts, worst = _regular(points, alpha), [], 0.0
    for start in range(0, count(new), _BLOCK):
        some = taken(new, np.arange(start, min(start + _BLOCK, count(new))))
        own, K = Points(kernel, some).diagonal(), points.with_others(some).astype(float)
        goals = np.sqrt(alpha * tol * np.maximum(own, 1e-300))
        c, r, _ = conjugate_gradients(operator, K, precondition, goals, _ITERATIONS)
        worst = max(worst, float((np.linalg.norm(r, axis=0) / goals).max()))
        # 2 k'c - c'Ac, below k'A^-1 k by the square of the residual only.
        parts.append(np.sqrt(np.maximum(own - (c * (K + r)).sum(axis=0), 0.0)))
    if worst > 1 + 1e-9:
        warnings.warn(
            f"conjugate gradients ended after {_ITERATIONS} iterations: squared deviations may be too "
            f"large by {min(tol * worst**2, 1.0):.1g} of k(x, x), more than tol={tol:g}; raise alpha or "
            "tol",
            ConvergenceWarning,
            stacklevel=2,
        )
    return np.concatenate(parts) if parts else np.empty(0)


def _check(kernel: Any, X: Any, alpha: Any) -> tuple[Any, float]:
    """Points in double precision, and the variance of the noise as a number, or raise."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be one of mercer.kernels, got {kernel!r}")
    if not kernel.positive_semidefinite:
        raise ValueError(
            f"{kernel!r} is not positive semidefinite, so no process has it as its covariance"
        )
    if not (is_number(alpha) and 0 < number(alpha) < np.inf):
        raise ValueError(f"alpha must be a positive number, got {alpha!r}")
    if not count(X):
        raise ValueError("X holds no points; at least one is needed")
    return _in_double(X), float(number(alpha))


def _in_double(X: Any) -> Any:
    """Rows in double precision: products in single precision are too inexact for linear systems."""
    return to_double(X) if is_single(X) else X


def _factor(points: Points, rng: np.random.Generator) -> Array:
    """A factor F with ``F F' ~ K``; a column of zeros if K is zero."""
    F, _ = pivoted_cholesky(points, points.diagonal(), min(_RANK, len(points)), rng)
    return F if F.shape[1] else np.zeros((len(points), 1))


def _regular(points: Points, alpha: float) -> Callable[[Array], Array]:
    """Products with ``K + alpha``."""

    def operator(V: Array) -> Array:
        return products(points.kernel, points.X, None, V) + alpha * V

    return operator


def _error(values: Array) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _slope(kernel: Kernel, X: Any, V: Array, j: int) -> Array:
    """Products with the derivative of the Gram matrix in an entry of theta, by central differences."""
    sides = []
    for step in (_STEP, -_STEP):
        moved = clone(kernel)
        theta = np.array(kernel.theta)
        theta[j] += step
        moved.theta = theta
        sides.append(products(moved, X, None, V))
    return (sides[0] - sides[1]) / (2 * _STEP)


def _log_forms(operator: Any, Z: Array) -> Array:
    """``z' log(A) z`` for each column, by Gauss quadrature from the Lanczos method."""
    size = np.linalg.norm(Z, axis=0)
    q, before, off = Z / size, np.zeros_like(Z), np.zeros(Z.shape[1])
    diagonals: list[Array] = []
    offs: list[Array] = []
    last = np.full(Z.shape[1], np.inf)
    while True:
        v = operator(q) - off * before
        diagonals.append((q * v).sum(axis=0))
        v -= diagonals[-1] * q
        off = np.linalg.norm(v, axis=0)
        forms = size**2 * np.array([_quadrature(diagonals, offs, k) for k in range(Z.shape[1])])
        done = np.abs(forms - last).max() <= _CHANGE * len(Z) or off.min() <= 1e-12
        if done or len(diagonals) == min(_STEPS, len(Z)):
            return forms
        last = forms
        offs.append(off)
        before, q = q, v / off


def _quadrature(diagonals: list[Array], offs: list[Array], column: int) -> float:
    # LAPACK's quicker ``stemr`` gives up on some of these matrices.
    nodes, vectors = eigh_tridiagonal(
        [d[column] for d in diagonals], [o[column] for o in offs], lapack_driver="stev"
    )
    return float(vectors[0] ** 2 @ np.log(np.maximum(nodes, 1e-300)))
