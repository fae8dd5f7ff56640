"""Sums of kernels whose weights are learnt from targets."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import count, evenly_spread, on_cpu, taken
from mercer._validation import LARGEST, check_choice, check_positive, check_room, refuse_rows
from mercer.contributions import Contributions
from mercer.kernels.algebra import times
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.constant import finite

Array = NDArray[np.float64]
#: Largest number of rows from which weights are learnt, and of distinct whole numbers that count as
#: classes.
_ROWS, _CLASSES = 1000, 50
#: Largest number of rows if each is left out in turn; the ridges tried there, in units of the total
#: variance; the shares that a step gives to a part; and the variance of the constant, which is left
#: free.
_FEW, _RIDGES, _STEP_SHARES, _FREE = 400, 10.0 ** np.arange(-4, 2), (0.1, 0.3, 0.5), 1e3
#: Steps of the descent on a machine's objective, the smallest change of a weight that counts, and the
#: smallest weight.
_STEPS, _CHANGE, _LEAST = 100, 1e-5, 1e-4
#: Largest variance of a part, whose inverse is a normal number.
_MOST_VARIANCE = 1e300


@dataclass(eq=False, repr=False)
class MultipleKernel(Kernel):
    """A sum of kernels whose weights are learnt from the targets.

    ``k(x, y) = sum_i w_i k_i(x, y)`` with ``w_i >= 0``.  Machines, searches and
    :class:`~mercer.features.GramTransformer` learn the weights from training points and their targets,
    separately in every training part of a cross-validation (:meth:`learnt_from`).  The parts learn what
    they need first.  The total variance of the sum is then 1, and the weights of parts of total
    variance 1, such as those of :class:`On`, sum to 1.

    With C_i the centred Gram matrices of the parts, divided by their total variance, and Y the centred
    targets (indicators of the classes, or numbers), the objectives are

    - ``"alignment"``: the cosine between ``sum_i w_i C_i`` and ``Y Y'``, largest for the solution of a
      problem of non-negative least squares [1]_. Pairs of a point with itself do not count in the
      inner product with ``Y Y'`` [2]_: the identity is not aligned with anything;
    - ``"ridge"``: the least value of ``|Y - F|^2 / m + alpha |F|^2`` over the functions F of the kernel,
      which :class:`~mercer.machines.KernelRidge` minimises, with ``sum_i w_i = 1`` [3]_;
    - ``"hinge"``: the same with the hinge loss, which :class:`~mercer.machines.SVC` minimises, of each
      class against the others.  Both prefer few parts;
    - ``"loo"``: the squared errors of ridge regressions at points that are left out one by one, in
      closed form and at the best of six ridges.  It begins with the best part alone.  A step gives
      some weight to another part, and is taken only if the mean error falls by more than one standard
      error of the differences.  So a part is added only if it helps beyond noise.

    At most 1000 evenly spread points are used (400 with ``"loo"``).

    Parameters
    ----------
    kernels : list of kernels
    objective : {"alignment", "ridge", "hinge", "loo"}
    alpha : float
        Strength of the regularisation in ``"ridge"`` and ``"hinge"``.
    weights : list of floats, optional
        Fixed weights, none negative.
    learnt_weights : array, optional
        Weights that were learnt.

    References
    ----------
    .. [1] C. Cortes, M. Mohri, A. Rostamizadeh, "Algorithms for learning kernels based on centered
       alignment", JMLR 13, 2012.
    .. [2] L. Song et al., "Feature selection via dependence maximization", JMLR 13, 2012 (the unbiased
       estimator of the Hilbert-Schmidt independence criterion).
    .. [3] M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, "l_p-norm multiple kernel learning", JMLR
       12, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mercer.kernels import Gaussian, MultipleKernel, On
    >>> from mercer.machines import SVC
    >>> X, y = load_wine(return_X_y=True)
    >>> kernel = MultipleKernel([On([0, 1, 2], Gaussian(2.0)), On([6, 9, 11, 12], Gaussian(2.0))])
    >>> machine = SVC(kernel).fit(X[::2], y[::2])
    >>> machine.kernel_.learnt_weights.round(2)
    array([0.24, 0.76])
    >>> machine.score(X[1::2], y[1::2]) > 0.9
    True
    """

    kernels: Sequence[Kernel]
    objective: str = "alignment"
    alpha: float = 0.1
    weights: Any = None
    learnt_weights: Any = None

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        return tuple(self.kernels)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters and, if deep, the parts by their indices, with their parameters."""
        found: dict[str, Any] = super().get_params(deep=False)
        for i, part in enumerate(self.kernels if deep else ()):
            found = nested_params(found | {f"{i}": part}, f"{i}", deep)
        return found

    @property
    def requires_vector_input(self) -> bool:
        """Whether a part needs rows of numbers."""
        return any(part.requires_vector_input for part in self.kernels)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return all(part.positive_semidefinite for part in self.kernels)

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """Hyperparameters of the parts."""
        return [
            sk.Hyperparameter(f"{i}__{h.name}", h.value_type, h.bounds, h.n_elements, h.fixed)
            for i, part in enumerate(self.kernels)
            for h in part.hyperparameters
        ]

    @property
    def theta(self) -> Any:
        """Logarithms of the parts' free hyperparameters."""
        return np.concatenate([part.theta for part in self.kernels])

    @theta.setter
    def theta(self, theta: Any) -> None:
        ends = np.cumsum([len(part.theta) for part in self.kernels])
        for part, own in zip(self.kernels, np.split(np.asarray(theta), ends[:-1]), strict=True):
            part.theta = own

    @property
    def bounds(self) -> Any:
        """Logarithms of their bounds."""
        return np.vstack([part.bounds.reshape(-1, 2) for part in self.kernels])

    def validate(self) -> None:
        parts = list(self.kernels)
        if not parts or not all(isinstance(part, Kernel) for part in parts):
            raise TypeError(f"kernels of MultipleKernel must be a list of kernels, got {self.kernels!r}")
        check_choice(self, "objective", ("alignment", "ridge", "hinge", "loo"))
        check_positive(self, "alpha")
        if self.weights is not None:
            given = np.asarray(self.weights, dtype=float)
            if given.shape != (len(parts),) or not np.all((given >= 0) & np.isfinite(given)):
                raise ValueError(
                    f"weights of MultipleKernel must be {len(parts)} numbers, none negative, got "
                    f"{self.weights!r}"
                )
            if not given.any():
                raise ValueError("weights of MultipleKernel must not all be zero")

    def learnt_from(self, X: Any, y: Any = None) -> MultipleKernel:
        """See :class:`Kernel`; what the parts learn and, if there are targets, the weights."""
        self.validate()
        learnt = self._of([part.learnt_from(X, y) for part in self.kernels])
        if y is not None and self.weights is None and self.learnt_weights is None:
            self._check_targets(np.asarray(on_cpu(y)))
            problem = _Problem.of(learnt.kernels, X, y, self._most_rows)
            learnt.learnt_weights = problem.weights(self.objective, self.alpha)
        return learnt

    def _check_targets(self, y: Any) -> None:
        if self.objective == "hinge" and _are_numbers(y):
            raise ValueError("the hinge loss is for classes, but y holds numbers; use objective='ridge'")

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> MultipleKernel:
        """See :class:`Kernel`; the parts are scaled, and weights that were learnt forgotten."""
        self.validate()
        options = {"max_rows": max_rows, "random_state": random_state}
        scaled = self._of([part.scaled_to(X, similarity, **options) for part in self.kernels])
        scaled.learnt_weights = None
        return scaled

    def weight_path(self, X: Any, y: Any) -> Array:
        """Weights along the path from one part to all, an array of shape (steps, parts).

        For the alignment, the path of non-negative least squares with a penalty on the sum of weights
        that falls to zero: parts enter one by one, the best first.  For ``"loo"``, the steps.  For the
        others, the optimal weights at regularisations ``alpha`` from 10 to 1e-4.  Each row sums to 1, in
        units in which all parts have the same size.
        """
        learnt = self.learnt_from(X, y)
        return _Problem.of(learnt.kernels, X, y, self._most_rows).path(self.objective)

    @property
    def _most_rows(self) -> int:
        return _FEW if self.objective == "loo" else _ROWS

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        self.validate()
        check_room(X, Y, matrices=3 + (2 * len(self.theta) if eval_gradient else 0))
        if not eval_gradient:
            total = None
            for weight, part in self._terms():
                total = times(self, weight, part, X, Y, total) if weight > 0 else total
            return total
        found = [(w, *part(X, Y, eval_gradient=True)) for w, part in self._terms()]
        total = finite(self, lambda: sum(w * K for w, K, _ in found))
        return total, finite(self, lambda: np.concatenate([w * G for w, _, G in found], axis=2))

    def diag(self, X: Any) -> Any:
        self.validate()
        found = [(weight, part.diag(X)) for weight, part in self._terms()]
        return finite(self, lambda: sum(weight * values for weight, values in found))

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        self.validate()
        found = [(weight, part.matvec(X, Y, v)) for weight, part in self._terms() if weight > 0]
        return finite(self, lambda: sum(weight * values for weight, values in found))

    def terms(self) -> tuple[tuple[float, sk.Kernel], ...]:
        """See :class:`Kernel`; those of the parts, with the weights."""
        return tuple((weight * own, term) for weight, k in self._terms() for own, term in k.terms())

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; those of the parts."""
        return tuple(c for w, part in self._terms() for c in part.contributions(X, Y, w * weights))

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :class:`Kernel`; points of the first part."""
        return self.kernels[0].sample(size, rng, clusters)

    def _of(self, parts: list[Kernel]) -> MultipleKernel:
        other = copy.copy(self)
        other.kernels = parts
        return other

    def _terms(self) -> list[tuple[float, Kernel]]:
        weights = self.learnt_weights if self.weights is None else self.weights
        if weights is None:
            raise ValueError(
                "weights of MultipleKernel have not been learnt, and they need targets; fit a machine, "
                "call learnt_from(X, y), or give weights"
            )
        return list(zip(np.asarray(weights, dtype=float).tolist(), self.kernels, strict=True))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Centred Gram matrices of total variance 1, their variances before, and centred targets."""

    matrices: list[Array]
    variances: Array
    targets: Array

    @classmethod
    def of(cls, kernels: Sequence[Kernel], X: Any, y: Any, most: int) -> _Problem:
        """Look at some of the points."""
        y = np.asarray(on_cpu(y))
        if count(X) != len(y):
            raise ValueError(f"X has {count(X)} points, but y has {len(y)} targets")
        y = _checked_targets(y)
        some = evenly_spread(len(y), most)
        points, matrices, variances = taken(X, some), [], []
        for kernel in kernels:
            C = np.array(on_cpu(kernel(points)), dtype=float)
            with np.errstate(over="ignore", invalid="ignore"):
                C -= C.mean(axis=0)
                C -= C.mean(axis=1)[:, None]
                variance = float(np.trace(C)) / len(some)
            if not (variance <= 0 or 1 / _MOST_VARIANCE <= variance <= _MOST_VARIANCE):
                raise ValueError(
                    f"the total variance of {kernel!r} is {variance:.3g}, out of the range of weights; "
                    "rescale the rows or the kernel"
                )
            variances.append(variance if variance > 0 else 1.0)
            matrices.append(C / variances[-1])
        unbiased = len(some) / max(len(some) - 1, 1)  # over pairs of distinct points, as On has it
        return cls(matrices, unbiased * np.array(variances), _centred_targets(y[some]))

    def weights(self, objective: str, alpha: float) -> Array:
        """Weights of the parts as they are."""
        if objective == "loo":
            found = self._left_out()[-1]
        else:
            found = self._aligned() if objective == "alignment" else self._descended(objective, alpha)
        return self._shares(found) / self.variances

    def path(self, objective: str) -> Array:
        """Weights on the way, in units of the parts' sizes."""
        if objective == "loo":
            return np.array(self._left_out())
        if objective != "alignment":
            ridges = 10.0 ** np.arange(1, -5, -1)
            return np.array([self._shares(self._descended(objective, a)) for a in ridges])
        from sklearn.linear_model import lars_path_gram

        M, a = self._products()
        _, _, found = lars_path_gram(a, M, n_samples=1, method="lasso", positive=True)
        steps = [*(step for step in found.T if step.any()), self._aligned()]
        return np.array([self._shares(step) for step in steps])

    def _shares(self, weights: Array) -> Array:
        """Weights that sum to 1; equal ones if no part is related to the targets."""
        total = weights.sum()
        return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))

    def _products(self) -> tuple[Array, Array]:
        """Inner products of the matrices with each other, and with that of the targets."""
        M = np.array([[np.vdot(C, D) for D in self.matrices] for C in self.matrices])
        T = _between(self.targets @ self.targets.T)
        return M, np.array([np.vdot(_between(C), T) for C in self.matrices])

    def _aligned(self) -> Array:
        """Minimum of ``w'Mw / 2 - a'w`` over w >= 0."""
        M, a = self._products()
        values, vectors = np.linalg.eigh(M)
        keep = values > 1e-12 * values[-1]
        if not keep.any():  # the parts do not vary, and SciPy leaves such weights unset
            return np.zeros(len(M))
        roots = np.sqrt(values[keep])
        return nnls(roots[:, None] * vectors[:, keep].T, (vectors[:, keep].T @ a) / roots)[0]

    def _descended(self, objective: str, alpha: float) -> Array:
        """Weights of sum 1 that minimise the objective of a machine, by steps that never increase it.

        With the machine's functions ``f_i`` in the spaces of the parts, ``w_i`` becomes ``|f_i|``.
        """
        m, w = len(self.targets), np.full(len(self.matrices), 1 / len(self.matrices))
        for _ in range(_STEPS):
            K = np.tensordot(w, self.matrices, 1)
            A = self._ridge(K, m * alpha) if objective == "ridge" else self._hinge(K, 0.5 / (m * alpha))
            squares = np.array([float(np.vdot(A, C @ A)) for C in self.matrices])
            sizes = w * np.sqrt(np.maximum(squares, 0.0))
            before, w = w, self._shares(sizes)
            if np.abs(w - before).max() < _CHANGE:
                break
        return np.where(w > _LEAST, w, 0.0)

    def _left_out(self) -> list[Array]:
        """Weights of sum 1, from the best part to several, each better than the last beyond noise."""
        parts = np.eye(len(self.matrices))
        steps = [min(parts, key=lambda w: float(self.left_out_errors(w).mean()))]
        errors = self.left_out_errors(steps[-1])
        while len(steps) < 2 * len(parts):
            further = [(1 - s) * steps[-1] + s * part for part in parts for s in _STEP_SHARES]
            found = [(self.left_out_errors(w), w) for w in further]
            least, w = min(found, key=lambda pair: float(pair[0].mean()))
            gains = errors - least
            if not gains.mean() > gains.std() / np.sqrt(len(gains)):
                break
            steps.append(w)
            errors = least
        return steps

    def left_out_errors(self, weights: Array) -> Array:
        """Squared errors at points left out of ridge regressions with a constant, at the best ridge."""
        K = np.tensordot(weights, self.matrices, 1) + _FREE
        values, vectors = np.linalg.eigh(K)
        shares, found = vectors.T @ self.targets, []
        for ridge in len(K) * _RIDGES:
            inverse = 1 / (np.maximum(values, 0.0) + ridge)
            residuals = vectors @ (inverse[:, None] * shares) / (vectors**2 @ inverse)[:, None]
            found.append((residuals**2).sum(axis=1))
        return min(found, key=lambda errors: float(errors.mean()))

    def _ridge(self, K: Array, ridge: float) -> Array:
        """Coefficients of ridge regressions."""
        K[np.diag_indices(len(K))] += ridge
        return np.asarray(cho_solve(cho_factor(K, overwrite_a=True), self.targets))

    def _hinge(self, K: Array, C: float) -> Array:
        """Coefficients of support vector machines, one for each class against the others."""
        from sklearn.svm import SVC

        A = np.zeros_like(self.targets)
        for column, sign in zip(A.T, (self.targets > 0).T, strict=True):
            machine = SVC(kernel="precomputed", C=C).fit(K, sign)
            column[machine.support_] = machine.dual_coef_[0]
        return A


def _between(K: Array) -> Array:
    """A Gram matrix without its diagonal, with rows centred without it."""
    m = len(K)
    if m < 4:
        return K
    U = K - np.diag(np.diagonal(K))
    sums = U.sum(axis=0)
    U += sums.sum() / ((m - 1) * (m - 2)) - (sums[:, None] + sums) / (m - 2)
    U[np.diag_indices(m)] = 0.0
    return U


def _are_numbers(y: Array) -> bool:
    """Tell whether targets are numbers rather than classes."""
    return y.dtype.kind == "f" or (y.dtype.kind in "iu" and len(np.unique(y)) > _CLASSES)


def _checked_targets(y: Any) -> Any:
    """Classes or numbers as an array; raise if some are missing, infinite or too large to be squared."""
    if y.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in y.ravel()], dtype=bool)
        refuse_rows(_of_rows(missing, y), "y", "is missing; drop such rows")
        y = np.array(y.tolist())
    if y.dtype.kind == "f":
        complaint = f"holds NaN, infinity or a number above {LARGEST:g}; drop such rows, or rescale y"
        refuse_rows(_of_rows(~(np.abs(y) <= LARGEST), y), "y", complaint)
    return y


def _of_rows(bad: Any, y: Any) -> Any:
    return bad.reshape(len(y), -1).any(axis=1)


def _centred_targets(y: Array) -> Array:
    """Centred indicators of classes, or centred numbers, of unit variance."""
    Y = y.reshape(len(y), -1).astype(float) if _are_numbers(y) else _indicators(y)
    Y = Y - Y.mean(axis=0)
    return Y / (np.sqrt((Y * Y).mean()) or 1.0)


def _indicators(y: Array) -> Array:
    return (y[:, None] == np.unique(y)).astype(float)
