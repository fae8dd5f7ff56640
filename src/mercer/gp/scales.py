"""Scales of input columns, learnt by gradients through the harmonics; imported only when asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from mercer._progress import progress
from mercer.gp.elbo import Prior, Solution
from mercer.gp.features import HarmonicFeatures
from mercer.gp.hyperparameters import Evidence, descending
from mercer.rows import ArrayRows, Block
from mercer.rows.statistics import collect

Array = NDArray[np.float64]

#: Rows whose features are differentiated at a time.
_ROWS = 2048
#: Largest number of features with which scales are learnt; there may be more afterwards.
_FEATURES = 500
#: Range of the logarithms of the factors: a column at the lower end has no effect.
_RANGE = (-6.0, 6.0)


@dataclass(frozen=True, eq=False)
class ScaledEvidence:
    """The bound as a function of the logarithms of column factors, followed by those of Evidence.

    The derivative with respect to the features of a row needs only the posterior: with weights of mean
    mu and covariance S it is ``((y - phi mu) mu - S phi + a phi') / s``, where a phi' are the features
    of an incomplete last level times their prior variance.  The rest is the chain rule.

    An evaluation costs two passes over the rows, O(m M^2 + M^3).

    Parameters
    ----------
    features : HarmonicFeatures
        Features of a table, with all factors one.
    kernel : Kernel
    X, y : arrays of shape (m, d) and (m, q)
        Raw rows, and standardised targets.
    weight : array of shape (m,), optional
    """

    features: HarmonicFeatures
    kernel: Any
    X: Array
    y: Array
    weight: Array | None = None

    def evidence(self, log_factors: Array) -> Evidence:
        """The bound at fixed factors."""
        inputs = self.features.inputs.stretched(np.exp(log_factors))
        features = replace(self.features, inputs=inputs)
        sums = collect(features, ArrayRows(self.X, self.y, self.weight))
        return Evidence.of(sums.shifted(np.zeros(self.y.shape[1])), features, self.kernel)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound and its derivatives."""
        d = self.X.shape[1]
        evidence = self.evidence(theta[:d])
        solution, prior, left = evidence.solve(theta[d:])
        others = evidence.slopes(solution, prior, left)
        by_rows = _RowSlopes.of(solution, prior, self.features)
        slopes = np.zeros(d)
        for start in range(0, len(self.y), _ROWS):
            slopes += self._slopes(slice(start, start + _ROWS), theta[:d], by_rows)
        return solution.value(left), np.concatenate([slopes, others])

    def _slopes(self, part: slice, log_factors: Array, by_rows: _RowSlopes) -> Array:
        """Derivatives with respect to the logarithms of the factors, from a few rows."""
        y = self.y[part]
        weight = np.ones(len(y)) if self.weight is None else self.weight[part]
        moving = torch.tensor(log_factors, requires_grad=True)
        still = torch.zeros(1, dtype=torch.float64)  # the constant column
        rows = (
            torch.as_tensor(self.features.inputs.rows(self.X[part])) * torch.cat([moving, still]).exp()
        )
        lengths = torch.linalg.vector_norm(rows, dim=1)
        power = lengths**self.features.power
        features = self.features.harmonics.evaluate(rows / lengths[:, None]) * power[:, None]
        by_features = torch.as_tensor(by_rows(features.detach().numpy(), y) * weight[:, None])
        squares = torch.as_tensor(weight) @ power**2
        total = (features * by_features).sum() + by_rows.of_square * squares
        (slopes,) = torch.autograd.grad(total, moving)
        return np.asarray(slopes.numpy())


@dataclass(frozen=True, eq=False)
class _RowSlopes:
    """Derivatives of the bound in the features of a row, and (``of_square``) in its ``|x|^(2p)``."""

    mean: Array
    noise: float
    matrix: Array
    of_square: float

    @classmethod
    def of(cls, solution: Solution, prior: Prior, features: HarmonicFeatures) -> _RowSlopes:
        outputs, matrix = solution.quadratic.size, solution.covariance
        whole = features.whole
        if whole is not None:
            # What an incomplete level captures is not left over.
            last = np.arange(len(matrix) - features.counts[-1], len(matrix))
            matrix[last, last] -= prior.variances[-1]
        left = float(prior.left(np.array([1.0] if whole is None else [1.0, whole])))
        scale = outputs / solution.noise
        return cls(solution.mean, solution.noise, scale * matrix, -0.5 * scale * left)

    def __call__(self, phi: Array, y: Array) -> Array:
        return (y - phi @ self.mean) @ (self.mean.T / self.noise) - phi @ self.matrix


def learn_scales(
    features: HarmonicFeatures,
    kernel: Any,
    theta: Array,
    rows: Block,
    max_iter: int,
) -> Array:
    """Factors for standardised columns that maximise the bound of the given rows, by L-BFGS.

    Amplitude, noise and the kernel's hyperparameters are optimised along with them.

    Parameters
    ----------
    features, kernel
        See :class:`ScaledEvidence`.
    theta : array
        Where :class:`Evidence` starts.
    rows : Block
        With standardised targets.
    max_iter : int

    Returns
    -------
    array of shape (d,)
    """
    harmonics = replace(features.harmonics, max_features=min(features.size, _FEATURES))
    features = replace(features, harmonics=harmonics)
    task = ScaledEvidence(features, kernel, rows.X, rows.y, rows.weight)
    d = rows.X.shape[1]
    start = np.zeros(d)
    first = task.evidence(start)
    theta, _ = first.maximise(theta, 0, np.random.default_rng(0))
    bounds = np.concatenate([np.tile(_RANGE, (d, 1)), first.bounds])

    with progress(max_iter, "input scales") as advance:
        found = minimize(
            descending(task.value_and_gradient, rows.target_weight), np.concatenate([start, theta]),
            jac=True, method="L-BFGS-B", bounds=bounds, callback=lambda _: advance(),
            options={"maxiter": max_iter, "ftol": 1e-6, "gtol": 1e-4},
        )  # fmt: skip
    return np.asarray(np.exp(found.x[:d]))
